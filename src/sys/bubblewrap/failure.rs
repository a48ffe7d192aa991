//! Why bubblewrap does not work here and what to do about it, from its words and the kernel's settings.

use std::io;

use crate::error::Error;

/// Settings of the kernel that shut user namespaces, the value that does it, and the remedy.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("kernel/unprivileged_userns_clone", "0", "run `sysctl kernel.unprivileged_userns_clone=1`"),
    ("user/max_user_namespaces", "0", "run `sysctl user.max_user_namespaces=15000`"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "give bwrap an AppArmor profile that allows `userns`, or run `sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
];

/// Words of bubblewrap that tell a refused namespace (bubblewrap 0.4 to 0.11).
const NAMESPACE_WORDS: [&str; 6] = [
    "No permissions to create new namespace",
    "No permissions to creating new namespace",
    "Creating new namespace failed",
    "setting up uid map",
    "Failed RTM_NEWADDR",
    "unshare user ns",
];

/// The reason in one sentence, and what to do. `setting` reads a file below `/proc/sys`.
pub fn reason_and_remedy(stderr: &str, setting: impl Fn(&str) -> Option<String>) -> (String, String) {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing").trim();
    let last = last.strip_prefix("bwrap: ").unwrap_or(last).trim_end_matches('.');
    if !NAMESPACE_WORDS.iter().any(|words| stderr.contains(words)) {
        let hint = if last.contains("mount proc") {
            "a container, or ProtectKernelTunables= of a systemd unit, hides parts of /proc and allows no second one: \
             take that away, or let the container be the wall and set command_executor.backend to host"
        } else {
            "see whether `bwrap --ro-bind / / true` works for the user of the agent"
        };
        return (format!("bubblewrap does not work here: {last}"), hint.to_owned());
    }
    let shut = SETTINGS.iter().find(|(name, shuts, _)| setting(name).is_some_and(|value| value.trim() == *shuts));
    match shut {
        Some((name, shuts, remedy)) => {
            let name = name.replacen('/', ".", 1);
            (format!("bubblewrap gets no user namespace: {name} is {shuts}"), (*remedy).to_owned())
        }
        None => (
            format!("bubblewrap gets no user namespace: {last}"),
            "see that the kernel, the container and the systemd unit (RestrictNamespaces=no) allow user namespaces"
                .to_owned(),
        ),
    }
}

/// A sandbox that could not be set up.
pub(super) fn error(stderr: &str) -> Error {
    let (reason, remedy) = reason_and_remedy(stderr, |name| std::fs::read_to_string(format!("/proc/sys/{name}")).ok());
    Error::host(reason).hint(remedy).caused_by(io::Error::other(stderr.trim().to_owned()))
}
