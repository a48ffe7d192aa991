//! The command line: what each line means, what is refused, and with which exit code.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use coding_agent::cli::{Command, HELP, Invocation, Mode, parse};
use coding_agent::error::{Exit, Kind};

use crate::support::World;

fn parsed(line: &str) -> Result<Invocation, String> {
    parse(line.split_whitespace().map(OsString::from)).map_err(|error| {
        assert_eq!(error.kind(), Kind::Usage);
        assert!(format!("{error:#}").ends_with("\nhint: `coding-agent --help` shows what there is"), "{error:#}");
        error.sentence().to_owned()
    })
}

fn invocation(command: Command) -> Invocation {
    Invocation { command, config: None, verbose: false, continuous: false }
}

#[test]
fn what_a_line_means() {
    let run = |mode| invocation(Command::Run(mode));
    let table = [
        ("", run(Mode::Both)),
        ("--mode producer", run(Mode::Producer)),
        ("--mode=consumer", run(Mode::Consumer)),
        ("--mode producer --mode consumer", run(Mode::Consumer)),
        ("-v", Invocation { verbose: true, ..run(Mode::Both) }),
        ("--verbose --config a.yaml", Invocation { verbose: true, config: Some("a.yaml".into()), ..run(Mode::Both) }),
        ("--config=a.yaml", Invocation { config: Some("a.yaml".into()), ..run(Mode::Both) }),
        ("--continuous", Invocation { continuous: true, ..run(Mode::Both) }),
        ("status", invocation(Command::Status { json: false })),
        ("status --json", invocation(Command::Status { json: true })),
        ("--json status", invocation(Command::Status { json: true })),
        (
            "--config a.yaml status",
            Invocation { config: Some("a.yaml".into()), ..invocation(Command::Status { json: false }) },
        ),
        ("doctor", invocation(Command::Doctor { json: false })),
        ("doctor --json", invocation(Command::Doctor { json: true })),
        ("show ab", invocation(Command::Show { task: "ab".into(), json: false, full: false })),
        ("show --json ab --full", invocation(Command::Show { task: "ab".into(), json: true, full: true })),
        ("demo", invocation(Command::Demo { dir: "demo".into() })),
        ("demo here", invocation(Command::Demo { dir: "here".into() })),
        ("demo -- -x", invocation(Command::Demo { dir: "-x".into() })),
        (
            "__exec sh -c true --help",
            invocation(Command::Exec(["sh", "-c", "true", "--help"].map(OsString::from).into())),
        ),
        ("-h", invocation(Command::Print(HELP))),
        ("help", invocation(Command::Print(HELP))),
        ("--version", invocation(Command::Print(concat!("coding-agent ", env!("CARGO_PKG_VERSION"), "\n")))),
        ("status -V", invocation(Command::Print(concat!("coding-agent ", env!("CARGO_PKG_VERSION"), "\n")))),
    ];
    for (line, expected) in table {
        assert_eq!(parsed(line).as_ref(), Ok(&expected), "{line}");
    }
    for (line, begin) in [
        ("status --help", "Shows where"),
        ("show -h", "Shows what happened"),
        ("doctor -h", "Looks at everything"),
        ("-h demo", "Makes a small"),
        ("demo x -h", "Makes a small"),
    ] {
        let Ok(Invocation { command: Command::Print(text), .. }) = parsed(line) else { panic!("{line}") };
        assert!(text.starts_with(begin), "{line}: {text}");
    }
}

#[test]
fn what_is_refused() {
    let table = [
        ("work", "there is no command `work`"),
        ("work --help", "there is no command `work`"),
        ("help work", "there is no command `work`"),
        ("Status", "there is no command `Status`"),
        ("--json", "--json belongs to `status`, `show` and `doctor`"),
        ("--json demo", "--json belongs to `status`, `show` and `doctor`"),
        ("doctor now", "`now` is one argument too many"),
        ("show", "`show` takes the UUID of a task"),
        ("show --json", "`show` takes the UUID of a task"),
        ("show a b", "`b` is one argument too many"),
        ("--full", "--full belongs to `show`"),
        ("status --full", "--full belongs to `show`"),
        ("show a --continuous", "--mode and --continuous belong to a run without a command"),
        ("--mode producer status", "--mode and --continuous belong to a run without a command"),
        ("demo --continuous", "--mode and --continuous belong to a run without a command"),
        ("status now", "`now` is one argument too many"),
        ("demo here there", "`there` is one argument too many"),
        ("--mode", "missing argument for option '--mode'"),
        ("--mode both", "--mode takes producer or consumer, not `both`"),
        ("--mode=", "--mode takes producer or consumer, not ``"),
        ("--config", "missing argument for option '--config'"),
        ("--wat", "invalid option '--wat'"),
        ("-x", "invalid option '-x'"),
        ("--verbose=yes", "unexpected argument for option '--verbose': \"yes\""),
        ("status --json=1", "unexpected argument for option '--json': \"1\""),
    ];
    for (line, told) in table {
        assert_eq!(parsed(line), Err(told.to_owned()), "{line}");
    }
}

#[test]
fn arguments_that_are_no_utf8() {
    let odd = OsString::from_vec(b"a\xff".to_vec());
    let with = |words: &[&str]| parse(words.iter().map(OsString::from).chain([odd.clone()]));
    assert_eq!(with(&["--config"]).unwrap().config, Some(PathBuf::from(&odd)));
    let shown = Command::Show { task: odd.clone(), json: false, full: false };
    assert_eq!(with(&["show"]).unwrap().command, shown);
    assert_eq!(with(&["demo"]).unwrap().command, Command::Demo { dir: PathBuf::from(&odd) });
    assert_eq!(with(&["__exec"]).unwrap().command, Command::Exec(vec![odd.clone()]));
    assert_eq!(with(&[]).unwrap_err().sentence(), "there is no command `a\u{fffd}`");
    assert_eq!(with(&["--mode"]).unwrap_err().sentence(), "--mode takes producer or consumer, not `a\u{fffd}`");
}

#[test]
fn exit_codes_and_streams() {
    let world = World::new();
    for line in
        [&["--help"][..], &["-h"], &["status", "--help"], &["show", "--help"], &["demo", "--help"], &["--version"]]
    {
        let ended = world.run(line).expect(0);
        assert!(ended.stdout.ends_with('\n') && ended.stderr.is_empty(), "{ended:?}");
    }
    assert_eq!(world.run(&["-V"]).expect(0).stdout, concat!("coding-agent ", env!("CARGO_PKG_VERSION"), "\n"));
    let ended = world.run(&["--wat"]).expect(2);
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr, "coding-agent: invalid option '--wat'\nhint: `coding-agent --help` shows what there is\n");
    world.run(&["work"]).expect(2);
    world.run(&["--json"]).expect(2);
    let ended = world.run(&["--continuous"]).expect(78);
    assert!(ended.stderr.contains("cannot run with --continuous yet\nhint: "), "{}", ended.stderr);
    let ended = world.run(&["--config", "absent.yaml"]).expect(78);
    assert!(ended.stderr.contains("absent.yaml"), "{}", ended.stderr);
    assert_eq!(world.names("contexts"), Vec::<String>::new(), "nothing was done");
}

#[test]
fn help_names_every_exit_code() {
    for exit in [Exit::Done, Exit::TaskFailed, Exit::Usage, Exit::Bug, Exit::Parked, Exit::Host] {
        assert!(HELP.contains(&format!("\n  {:<4}", exit.code())), "{exit:?}");
    }
    assert!(HELP.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let world = World::new();
    let mut child = world.command(&["--help"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
