//! What a program inside the sandbox sees, as options of bubblewrap. The order matters: a later
//! mount covers an earlier one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::Inside;

/// The user inside; never root, whoever we are. Files of ours are its files.
const USER: &str = "agent";
const ID: &str = "1000";

/// What every program inside sees of the machine, read-only. Not /opt: applications with their
/// settings live there.
pub(super) const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// What is hidden again: settings of local software.
const HIDDEN: [&str; 1] = ["/usr/local/etc"];

/// The files of /etc that compilers, resolvers and TLS need. None of them holds a secret; not
/// /etc/ssl as a whole (private keys), no settings of git, npm or pip (passwords of servers).
const ETC: [&str; 31] = [
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "hosts",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust/extracted",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "protocols",
    "resolv.conf",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// What root may write to in any `/proc` and thereby change the machine. Read-only for all.
const PROC: [&str; 11] =
    ["acpi", "asound", "bus", "driver", "fs", "irq", "mtrr", "pressure", "scsi", "sys", "sysrq-trigger"];

/// The options for `inside`; `data` are options that add files of our own to /etc.
pub(super) fn options(
    inside: Inside<'_>,
    read_only_paths: &[PathBuf],
    can_disable_userns: bool,
    data: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut options = Options::default();
    options.add(["--die-with-parent", "--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc"]);
    options.add(["--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]);
    options.add(["--uid", ID, "--gid", ID, "--cap-drop", "ALL"]);
    if can_disable_userns {
        options.add(["--disable-userns"]);
    }
    if !inside.network {
        options.add(["--unshare-net"]);
    }
    for path in SYSTEM.iter().map(Path::new) {
        match std::fs::read_link(path) {
            // Where /usr has been merged.
            Ok(target) => options.add([OsStr::new("--symlink"), target.as_os_str(), path.as_os_str()]),
            Err(_) => options.bind("--ro-bind-try", path),
        }
    }
    for path in HIDDEN.iter().filter(|path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())) {
        options.add(["--tmpfs", path]);
    }
    for name in ETC {
        options.bind("--ro-bind-try", &Path::new("/etc").join(name));
    }
    options.0.extend(data);
    options.add(["--proc", "/proc"]);
    for name in PROC {
        options.bind("--ro-bind-try", &Path::new("/proc").join(name));
    }
    options.add(["--dev", "/dev", "--dir", "/run", "--symlink", "../tmp", "/var/tmp"]);
    // A mount point below a /tmp that programs write to could be turned into a link that leads outside.
    let covered = |path: &&Path| path.starts_with("/tmp");
    match inside.tmp.filter(|_| !inside.writable.iter().chain(inside.readable).any(covered)) {
        Some(tmp) => options.add([OsStr::new("--bind"), tmp.as_os_str(), OsStr::new("/tmp")]),
        None => options.add(["--tmpfs", "/tmp"]),
    }
    for path in read_only_paths {
        // It may go while a task is at work.
        options.bind("--ro-bind-try", path);
    }
    for path in inside.writable {
        options.bind("--bind", path);
    }
    for path in inside.readable {
        options.bind("--ro-bind", path);
    }
    options.add(["--remount-ro", "/"]);
    options.0
}

#[derive(Default)]
struct Options(Vec<OsString>);

impl Options {
    fn add<S: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = S>) {
        self.0.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
    }

    /// The same path inside as outside.
    fn bind(&mut self, how: &str, path: &Path) {
        self.add([OsStr::new(how), path.as_os_str(), path.as_os_str()]);
    }
}

/// `/etc/passwd` and `/etc/group` inside: nobody of the machine's users.
pub(super) fn user_lists(home: Option<&Path>) -> [String; 2] {
    let home = home.and_then(Path::to_str).filter(|home| !home.contains([':', '\n'])).unwrap_or("/");
    [
        format!("root:x:0:0::/:/bin/sh\n{USER}:x:{ID}:{ID}::{home}:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"),
        format!("root:x:0:\n{USER}:x:{ID}:\nnogroup:x:65534:\n"),
    ]
}

/// The directories of `path` that can be seen inside, and those of `default`.
pub(super) fn visible_path(path: &OsStr, read_only_paths: &[PathBuf], default: &str) -> OsString {
    let mut kept: Vec<PathBuf> = Vec::new();
    let roots: Vec<&Path> = SYSTEM.iter().map(Path::new).chain(read_only_paths.iter().map(PathBuf::as_path)).collect();
    for dir in std::env::split_paths(path).chain(std::env::split_paths(default)) {
        if roots.iter().any(|root| dir.starts_with(root)) && !kept.contains(&dir) {
            kept.push(dir);
        }
    }
    std::env::join_paths(kept).unwrap_or_else(|_| default.into())
}
