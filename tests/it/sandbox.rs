//! Commands in a real bubblewrap: what they see and what they can change. Where bubblewrap does not
//! work these tests are left out with a line on stderr, unless CODING_AGENT_TESTS_NEED_SANDBOX is set.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use coding_agent::tools::command_executor::Sandboxed;
use serde_json::json;

use super::command_executor::what_asks_a_person_ends;
use crate::support::shell::{LIMITS, Shell, bubblewrap};

const CANARY: &str = "canary-that-nobody-may-see";

/// Every entry below `dir` with its kind, mode and bytes.
fn picture(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut entries = BTreeMap::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            let bytes = match metadata.file_type() {
                kind if kind.is_symlink() => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                kind if kind.is_file() => std::fs::read(&path).unwrap(),
                _ => Vec::new(),
            };
            if metadata.is_dir() {
                dirs.push(path.clone());
            }
            entries.insert(path, (metadata.permissions().mode(), bytes));
        }
    }
    entries
}

#[test]
fn a_command_runs_in_the_tree_under_its_own_path() {
    let Some(mut shell) = Shell::shut_in() else { return };
    let tree = shell.tree().canonicalize().unwrap();
    assert_eq!(shell.output("pwd; echo x > made; id -u; id -un"), format!("{}\n1000\nagent", tree.display()));
    assert_eq!(std::fs::read_to_string(tree.join("made")).unwrap(), "x\n");
    assert_eq!(shell.run("echo out; echo err >&2; exit 7")["exit_code"], 7);
    assert_eq!(shell.run("no-such-program-anywhere")["exit_code"], 127);
    // What a shell says of a program that died of a signal.
    assert_eq!(shell.run("kill -SEGV $$")["exit_code"], 128 + 11);
    std::fs::create_dir(tree.join("a b")).unwrap();
    let report = shell.report(json!({ "command": "pwd", "working_directory": "a b" }));
    assert_eq!(report["stdout"], format!("{}/a b\n", tree.display()));
    shell.refuses(json!({ "command": "true", "working_directory": "/usr" }), "inside the work tree");
}

#[test]
fn no_file_of_the_machine_is_seen() {
    let Some(mut shell) = Shell::shut_in() else { return };
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".into());
    let places =
        [home.as_str(), "/home", "/root", "/var/tmp", "/var/lib", "/opt", "/srv", "/etc", "/mnt", "/run", "/tmp"];
    // Gone when dropped.
    let mut canaries: Vec<tempfile::NamedTempFile> =
        places.iter().filter_map(|place| tempfile::Builder::new().prefix("canary").tempfile_in(place).ok()).collect();
    canaries.push(tempfile::NamedTempFile::new_in(shell.dir.path()).unwrap());
    for canary in &mut canaries {
        std::io::Write::write_all(canary, CANARY.as_bytes()).unwrap();
        let path = canary.path().display();
        assert_ne!(shell.run(&format!("test -e '{path}'"))["exit_code"], 0, "{path}");
    }
    let split: Vec<&str> = CANARY.split("that").collect();
    // Put together inside, or it would find its own command line.
    let search = format!(
        "grep -rlI --exclude-dir=usr --exclude-dir=proc --exclude-dir=dev \"{}$(echo that){}\" / 2>/dev/null; true",
        split[0], split[1]
    );
    assert_eq!(shell.output(&search), "", "{} canaries", canaries.len());
    assert_eq!(
        shell.output(&format!("{search}; cat /dev/null; echo \"$(echo {CANARY})\" > found; {search}")).lines().count(),
        1
    );
    for path in [
        "/etc/shadow",
        "/etc/gitconfig",
        "/etc/environment",
        "/etc/ssl/private",
        "/etc/ssh",
        "/etc/npmrc",
        "/etc/pip.conf",
        "/root",
        "/home",
        "/opt",
        "/srv",
        "/mnt",
        "/media",
        "/boot",
        "/sys",
        "/var/lib",
        "/var/log",
        "/run/systemd",
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/dev/kmsg",
        "/dev/mem",
        "/dev/vda",
        "/dev/fuse",
    ] {
        assert_ne!(shell.run(&format!("test -e {path}"))["exit_code"], 0, "{path}");
    }
    let users = shell.output("cat /etc/passwd /etc/group | cut -d: -f1 | sort -u | tr '\\n' ' '");
    assert_eq!(users.trim(), "agent nobody nogroup root");
    assert_eq!(shell.output("ls -A /usr/local/etc 2>/dev/null; ls -A /run; hostname"), "sandbox");
}

#[test]
fn what_a_toolchain_needs_is_there() {
    let Some(mut shell) = Shell::shut_in() else { return };
    shell.output("git --version && sh -c true && test -r /etc/ld.so.cache && test -c /dev/null && test -d /dev/shm");
    shell.output("head -c 8 /dev/urandom | wc -c; echo x > /dev/shm/x; mktemp; test -w /var/tmp; echo x | grep -q x");
    shell.output("git init -q . && git config user.name a && git config user.email a && echo 1 > f && git add f && git commit -qm x");
    if Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        shell.output("test -r /etc/ssl/certs/ca-certificates.crt");
    }
    if Path::new("/usr/bin/cc").exists() {
        assert_eq!(shell.output("echo 'int main(){return 0;}' > a.c && cc a.c -o a && ./a && echo built"), "built");
    }
}

#[test]
fn nothing_outside_can_be_changed() {
    let Some(mut shell) = Shell::shut_in() else { return };
    let root = shell.dir.path().to_path_buf();
    for place in ["spool/queue", "contexts/running/x", "workspaces/other/tree", "repo.git", "scratch-not"] {
        std::fs::create_dir_all(root.join(place)).unwrap();
        std::fs::write(root.join(place).join("file"), CANARY).unwrap();
    }
    std::fs::write(root.join("config.yaml"), CANARY).unwrap();
    symlink("config.yaml", root.join("link")).unwrap();
    // Made before the model comes: links in the tree that lead out of it.
    symlink(&root, shell.tree().join("out")).unwrap();
    symlink("../config.yaml", shell.tree().join("settings")).unwrap();
    symlink("/proc/1/root", shell.tree().join("init")).unwrap();
    let before = picture_without(&root, &["tree", "scratch"]);
    let core_pattern = std::fs::read("/proc/sys/kernel/core_pattern").unwrap();
    let there = root.display();
    for command in [
        format!("echo gone > {there}/config.yaml; echo gone > settings; echo gone > out/config.yaml"),
        format!("rm -rf {there}/spool {there}/contexts out/spool ../repo.git ../../*; mkdir {there}/new; touch ../new"),
        format!("ln -s /etc {there}/etc; chmod 777 {there}/config.yaml ..; mv ../tree ../moved; rmdir ../scratch"),
        format!("ln {there}/config.yaml hard; cp -r {there} copy; cat out/config.yaml settings init{there}/config.yaml"),
        format!("for p in /proc/[0-9]*; do cat $p/root{there}/config.yaml; echo gone > $p/root{there}/config.yaml; done"),
        format!("echo gone > init{there}/config.yaml; cat /proc/*/cwd/../config.yaml"),
        format!("mount -o remount,rw /; mount --bind /usr {there}; umount /tmp; umount -l {there}/tree; pivot_root . ."),
        "for f in /usr/bin/x /bin/x /etc/x /etc/passwd /x /lib/x /run/x; do echo gone > $f; done".into(),
        "echo '|/bin/sh' > /proc/sys/kernel/core_pattern; echo 3 > /proc/sys/vm/drop_caches; echo b > /proc/sysrq-trigger"
            .into(),
        "unshare -Urm sh -c 'mount -t tmpfs x /usr; echo 1 > /proc/sys/kernel/hostname'; chroot /proc/1/root true".into(),
        "mknod disk b 254 0 && cat disk | head -c 1; mknod /dev/disk b 8 0; chown 0:0 .; su root -c id; sudo -n id".into(),
    ] {
        let report = shell.run(&format!("exec 2>&1; {command}"));
        assert!(!report["stdout"].as_str().unwrap().contains(CANARY), "`{command}`: {report}");
    }
    assert_eq!(picture_without(&root, &["tree", "scratch"]), before);
    assert_eq!(std::fs::read("/proc/sys/kernel/core_pattern").unwrap(), core_pattern);
    assert!(!Path::new("/usr/bin/x").exists() && !Path::new("/etc/x").exists() && !Path::new("/x").exists());
    // Nothing in the kernel's tree is writable but what belongs to the own processes. That is what
    // keeps root, whose files these are, inside.
    let writable = "find /proc -not -path '/proc/[0-9]*' -not -path '/proc/self*' -not -path '/proc/thread-self*' -not -type l -writable";
    assert_eq!(shell.output(&format!("{writable} 2>/dev/null; true")), "");
    // Of the root only the places where something else is mounted.
    assert_eq!(shell.output("find / -xdev -writable -not -type l 2>/dev/null | sort; true"), "/dev\n/tmp");
}

fn picture_without(dir: &Path, left_out: &[&str]) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut entries = picture(dir);
    entries.retain(|path, _| !left_out.iter().any(|name| path.starts_with(dir.join(name))));
    entries
}

#[test]
fn a_link_in_the_tree_leads_nowhere() {
    let Some(mut shell) = Shell::shut_in() else { return };
    for (name, target) in
        [("a", "/etc/shadow"), ("b", "../../../../../../../../etc/shadow"), ("c", "/root"), ("d", "..")]
    {
        symlink(target, shell.tree().join(name)).unwrap();
    }
    std::fs::write(shell.dir.path().join("beside"), CANARY).unwrap();
    for command in ["cat a", "cat b", "ls c/", "cat d/beside", "test -e a || test -e b || test -e c"] {
        assert_ne!(shell.run(command)["exit_code"], 0, "{command}");
    }
    assert_eq!(shell.output("ls d/"), "scratch\ntree", "the way down to the tree and nothing else");
}

#[test]
fn no_process_of_the_machine_is_seen_or_reached() {
    let Some(mut shell) = Shell::shut_in() else { return };
    let mut outside = std::process::Command::new("sleep").arg("3000.25").env("KEY", CANARY).spawn().unwrap();
    let numbers = shell.output("ls /proc | grep -c '^[0-9]'");
    assert!(numbers.parse::<u32>().unwrap() <= 5, "{numbers}");
    let seen = shell.output("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr '\\0' '\\n'");
    assert!(!seen.contains("3000.25") && !seen.contains(CANARY), "{seen}");
    let pid = outside.id();
    for command in [format!("kill -9 {pid}"), "kill -9 -1".into(), "kill -9 0".into(), "kill -9 1".into()] {
        shell.report(json!({ "command": command }));
        assert!(outside.try_wait().unwrap().is_none(), "{command}");
    }
    outside.kill().unwrap();
    outside.wait().unwrap();
}

#[test]
fn a_command_has_no_rights_to_win_back() {
    let Some(mut shell) = Shell::shut_in() else { return };
    let status = shell.output("grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status | cut -f2 | sort -u");
    assert_eq!(status, "0000000000000000\n1");
    let open = shell.output("ls -l /proc/self/fd | grep -vc 'pipe:\\|/dev/null\\|/proc/\\|total'; true");
    assert_eq!(open, "0", "no open file but its own three");
    let maps = shell.output("cat /proc/self/uid_map | tr -s ' '");
    assert!(maps.trim().starts_with("1000 ") && maps.trim().ends_with(" 1"), "{maps}");
}

#[test]
fn the_environment_is_the_same_short_list_as_on_the_host() {
    let Some(mut shell) = Shell::shut_in() else { return };
    let names = "env | cut -d= -f1 | grep -v -x -e OLDPWD -e SHLVL -e _ | sort";
    let inside = shell.output(names);
    assert_eq!(inside, Shell::on_host().output(names));
    let home = shell.dir.path().canonicalize().unwrap().join("scratch/home");
    assert_eq!(shell.output("echo $HOME; echo $TMPDIR"), format!("{}\n/tmp", home.display()));
    let path = shell.output("echo $PATH");
    assert!(path.split(':').all(|dir| ["/usr", "/bin", "/sbin"].iter().any(|root| dir.starts_with(root))), "{path}");
    // The first process inside is bubblewrap itself: it has no more than the command.
    assert_eq!(
        shell.output("tr '\\0' '\\n' < /proc/1/environ | cut -d= -f1 | grep -v -x PWD | sort"),
        inside.replace("PWD\n", "")
    );
}

#[test]
fn home_and_tmp_last_as_long_as_the_task() {
    // Where the tree is not below /tmp, /tmp inside is a directory of the task on the disk.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(mut shell) = Shell::shut_in_with(dir, LIMITS, false) else { return };
    shell.output("echo kept > ~/file; echo kept > /tmp/file; mkdir /tmp/dir");
    assert_eq!(shell.output("cat ~/file /tmp/file; ls /tmp"), "kept\nkept\ndir\nfile");
    assert!(shell.dir.path().join("scratch/tmp/file").exists());
    // Below /tmp an own mount point would have to stand in what commands write to.
    let Some(mut shell) = Shell::shut_in() else { return };
    let below_tmp = shell.tree().starts_with("/tmp");
    shell.output("echo kept > ~/file; echo lost > /tmp/file");
    assert_eq!(shell.output("cat ~/file; test -e /tmp/file && echo there; true") == "kept", below_tmp);
    symlink("/oldroot/etc", shell.dir.path().join("scratch/tmp/out")).unwrap();
    shell.output("true");
}

#[test]
fn paths_that_are_asked_for_can_be_read_and_not_written() {
    let toolchain = tempfile::tempdir_in("/var/tmp").unwrap();
    crate::support::repositories::install_program(&toolchain.path().join("bin/tool"), "echo works");
    let Some(sandbox) = bubblewrap(&[toolchain.path().to_path_buf()]) else { return };
    let mut shell = Shell::new(tempfile::tempdir().unwrap(), LIMITS, |uuid, tree, scratch| {
        Box::new(Sandboxed::new(sandbox, false, uuid, tree, scratch).unwrap())
    });
    let bin = toolchain.path().join("bin");
    assert_eq!(shell.output(&format!("PATH={}:$PATH; tool", bin.display())), "works");
    assert_ne!(shell.run(&format!("echo gone > {}/tool", bin.display()))["exit_code"], 0);
    assert_ne!(shell.run(&format!("touch {}/new", bin.display()))["exit_code"], 0);
    // One that has gone meanwhile takes nothing else away.
    coding_agent::sys::bubblewrap::Bubblewrap::probe(
        std::env::var_os("PATH"),
        &[toolchain.path().join("absent")],
        &["git", "--version"],
    )
    .unwrap();
}

#[test]
fn the_network_is_there_only_when_it_is_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let reach = format!("git ls-remote http://127.0.0.1:{port}/x 2>&1; true");
    listener.set_nonblocking(true).unwrap();
    let Some(mut off) = Shell::shut_in_with(tempfile::tempdir().unwrap(), LIMITS, false) else { return };
    let said = off.output(&reach);
    assert!(said.contains("onnect"), "{said}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came");
    assert_eq!(off.output("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo");
    let mut on = Shell::shut_in_with(tempfile::tempdir().unwrap(), LIMITS, true).unwrap();
    // Nobody answers: it waits until it is killed, but it has come.
    on.report(json!({ "command": reach, "timeout_seconds": 1 }));
    listener.accept().unwrap();
    assert!(on.tool_description().contains("sandbox") && !on.tool_description().contains("without a network"));
    assert!(off.tool_description().contains("without a network"));
}

#[test]
fn c43_what_asks_a_person_ends_by_itself_inside_too() {
    let Some(mut shell) = Shell::shut_in() else { return };
    what_asks_a_person_ends(&mut shell);
    let fields = shell.output("cut -d' ' -f7 /proc/$$/stat; ls -l /proc/self/fd/0; tty; true");
    assert!(fields.starts_with("0\n") && fields.contains("/dev/null") && fields.contains("not a tty"), "{fields}");
}

#[test]
fn a_sandbox_that_cannot_be_set_up_is_no_exit_code() {
    let Some(mut shell) = Shell::shut_in() else { return };
    std::fs::remove_dir(shell.dir.path().join("scratch/home")).unwrap();
    let result = shell.call(json!({ "command": "true" }));
    assert!(result.is_error && result.exit_code.is_none(), "{}", result.text);
    assert!(result.text.contains("scratch/home: No such file or directory"), "{}", result.text);
    // The same words from a command are a result.
    std::fs::create_dir(shell.dir.path().join("scratch/home")).unwrap();
    assert_eq!(shell.run("echo 'bwrap: No permissions to create new namespace' >&2; exit 1")["exit_code"], 1);
}
