//! Case C44, end to end: what is secret in our environment reaches no command's environment, no
//! file of ours and no comment, in none of the forms in which it travels.

use std::path::Path;

use crate::support::{Cassette, World};

const SECRETS: [(&str, &str); 3] = [
    ("GITHUB_PERSONAL_ACCESS_TOKEN", "TOKEN123"),
    ("OPENAI_API_KEY", "sk-TEST-1"),
    ("GITLAB_PERSONAL_ACCESS_TOKEN", r#"glpat-"quoted\backslash"#),
];

/// Every file below `dir` whose bytes hold `needle`.
fn files_with(dir: &Path, needle: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files_with(&entry.path(), needle, found);
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            if bytes.windows(needle.len()).any(|window| window == needle.as_bytes()) {
                found.push(entry.path().display().to_string());
            }
        }
    }
}

fn world_with_secrets(cassette: &Cassette) -> World {
    let mut world = World::with_task(cassette);
    for (name, value) in SECRETS {
        world.set_env(name, value);
    }
    world.set_env("UNRELATED_VARIABLE", "do-not-pass-me-on");
    world
}

fn assert_nowhere(world: &World, texts: &[&str]) {
    for needle in texts {
        let mut found = Vec::new();
        files_with(&world.path("."), needle, &mut found);
        let found: Vec<String> = found.into_iter().filter(|path| !path.ends_with("/replies.jsonl")).collect();
        assert_eq!(found, Vec::<String>::new(), "`{needle}` lies in files");
    }
}

#[test]
fn c44_commands_get_no_secret_and_what_they_find_is_masked() {
    let cassette = Cassette::new()
        .runs("env")
        .runs("tr '\\0' '\\n' < /proc/$PPID/environ; echo looked")
        .runs("base64 -w0 /proc/$PPID/environ | fold -w 76; cat /proc/$PPID/cmdline")
        .runs("cat ~/.config/*/config* ../../../home/.* 2>/dev/null; echo `env` $(env)")
        .runs("echo TOKEN123 sk-TEST-1 >&2; printf 'user:TOKEN123' | base64")
        .runs("echo TOKEN123 > token.txt")
        .finishes("The keys are TOKEN123 and sk-TEST-1. `env` and $(env).");
    let world = world_with_secrets(&cassette);
    world.configure("debug: true");
    let ended = world.run(&[]);
    let log = format!("{}{}", ended.stdout, ended.stderr);
    let history = world.history();
    let results = history.results();
    for name in ["UNRELATED_VARIABLE", "OPENAI_API_KEY", "GITHUB_PERSONAL_ACCESS_TOKEN"] {
        assert!(!results[0].contains(name), "{}", results[0]);
    }
    for (_, value) in SECRETS {
        assert!(!log.contains(value), "{log}");
        assert!(!results.iter().any(|result| result.contains(value)));
    }
    assert!(results[1].contains("looked"), "{}", results[1]);
    assert!(results[4].contains("[secret] [secret]"), "{}", results[4]);
    assert!(!results[4].contains("VE9LRU4xMj"), "base64 of `user:TOKEN123`: {}", results[4]);
    let comment = world.comments("fix");
    assert!(comment.contains("The keys are [secret] and [secret]. `env` and $(env)."), "{comment}");
    assert!(comment.contains("token.txt"), "what was left out is told: {comment}");
    assert_eq!(world.branches(), Vec::<String>::new());
    assert_nowhere(&world, &["TOKEN123", "sk-TEST-1", r#"glpat-\"quoted"#, r#"glpat-"quoted"#]);
}

#[test]
fn c44_a_secret_is_masked_in_the_escaped_form_that_json_gives_it() {
    let world =
        world_with_secrets(&Cassette::new().runs(r#"printf '%s\n' 'glpat-"quoted\backslash'; exit 1"#).finishes("x"));
    world.run(&[]).expect(0);
    let history = world.history();
    assert!(history.results()[0].contains("[secret]"), "{}", history.results()[0]);
    assert_nowhere(&world, &["quoted", "backslash"]);
}

#[test]
fn c44_an_ordinary_user_cannot_even_read_our_environment() {
    use std::os::unix::process::CommandExt as _;
    let world = world_with_secrets(&Cassette::new().runs("wc -c < /proc/$PPID/environ").finishes("x"));
    if is_root() {
        // Root may read everything: run as somebody else.
        let status = std::process::Command::new("chown").args(["-R", "65534:65534"]).arg(world.path(".")).status();
        assert!(status.unwrap().success());
        let mut command = world.command(&[]);
        let output = command.uid(65534).gid(65534).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    } else {
        world.run(&[]).expect(0);
    }
    let history = world.history();
    assert!(history.results()[0].contains("ermission denied"), "{}", history.results()[0]);
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}
