//! Calls of the `git` program: what environment it gets, what it may not do, and what its failures
//! mean. Two kinds: outside the tree (talks to the remote, never sees what the model wrote as
//! configuration) and in the tree (no remote, no credentials, no hooks, no configuration but the tree's).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Settings;
use crate::error::{Error, Kind, Result};
use crate::ports::RepositorySource;
use crate::sys::bubblewrap::{Bubblewrap, Inside};
use crate::sys::launcher::ResourceLimits;
use crate::sys::process::{Ending, Finished, Program};
use crate::text::head;

/// A clone of a large repository over a slow line takes long; a hang must end all the same.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// A git that hangs must not keep us from saying so.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The first version that can be told to read no configuration of a person (`GIT_CONFIG_GLOBAL`); settings
/// in the environment (`GIT_CONFIG_COUNT`), which hold what opens the remote, came one before (release notes).
const OLDEST: (u32, u32) = (2, 32);
/// Of what it says of itself.
const MOST_SAID_BYTES: usize = 300;
/// Lists of names of large repositories fit; a runaway does not.
const OUTPUT_LIMIT_BYTES: usize = 64 << 20;

/// Overrides in both kinds of calls: hooks and monitors are somebody else's programs, and signing
/// would ask for a key. The rest is taste of a person that would change what git does for us.
const ALWAYS: [&str; 26] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "color.ui=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "log.diffMerges=separate",
    "-c",
    "submodule.recurse=false",
    "-c",
    "push.recurseSubmodules=no",
    "-c",
    "push.followTags=false",
    // A URL that names a program to start.
    "-c",
    "protocol.ext.allow=never",
];

/// How to call git in one directory.
// No Debug: the environment can hold a credential.
#[derive(Clone)]
pub struct Git {
    dir: PathBuf,
    env: Vec<(String, OsString)>,
    sandbox: Option<Bubblewrap>,
    /// A file beside the tree that git may read in the sandbox.
    readable: Option<PathBuf>,
}

/// Whether git can be started and is new enough; what it says of its version.
///
/// # Errors
/// `Kind::Host` when it is missing, broken or too old.
pub fn check_installed(settings: &Settings) -> Result<String> {
    let finished = Git::outside(Path::new("/"), settings).finish_within(VERSION_TIMEOUT, ["--version"])?;
    let broken = |what: String| Error::host(what).hint("see whether `git --version` works for this user");
    let how = match finished.ending {
        Ending::Code(0) => {
            let version = finished.stdout.to_text().trim().to_owned();
            let (major, minor) = OLDEST;
            return match number_of(&version) {
                Some(found) if found < OLDEST => {
                    Err(Error::host(format!("{} is too old", head(&version, MOST_SAID_BYTES)))
                        .hint(format!("install git {major}.{minor} or later")))
                }
                // A version that nobody can read may be any.
                _ => Ok(head(&version, MOST_SAID_BYTES).to_owned()),
            };
        }
        Ending::TimedOut => {
            return Err(broken(format!("git does not answer within {} s", VERSION_TIMEOUT.as_secs())));
        }
        Ending::Signal(signal) => format!("was killed by signal {signal}"),
        Ending::Code(code) => format!("ended with exit code {code}"),
        Ending::Interrupted | Ending::TooManyProcesses(_) => "was ended".to_owned(),
    };
    let stderr = finished.stderr.to_text();
    let said = stderr.lines().map(str::trim).find(|line| !line.is_empty());
    let said = said.map_or("said nothing".to_owned(), |line| format!("said: {}", head(line, MOST_SAID_BYTES)));
    Err(broken(format!("`git --version` {how} and {said}")))
}

/// Major and minor number in `git version 2.47.3`.
fn number_of(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("git version ")?.split('.').map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

impl Git {
    /// Calls in a directory of ours.
    pub fn outside(dir: &Path, settings: &Settings) -> Self {
        Self::at(dir, environment(settings, settings.env.clone()))
    }

    fn at(dir: &Path, env: Vec<(String, OsString)>) -> Self {
        Self { dir: dir.to_path_buf(), env, sandbox: None, readable: None }
    }

    /// Calls in our bare repository, which a person's `safe.bareRepository` would not find.
    pub fn bare(dir: &Path, settings: &Settings) -> Self {
        let mut git = Self::outside(dir, settings);
        git.env.push(("GIT_DIR".into(), ".".into()));
        git
    }

    /// Calls in our bare repository that talk to nobody and must not depend on a person's taste.
    pub fn bare_alone(dir: &Path, settings: &Settings) -> Self {
        let mut git = Self::without_configuration(dir, settings);
        git.env.push(("GIT_DIR".into(), ".".into()));
        git
    }

    /// Calls in the model's tree, shut in where there is a sandbox: its configuration can make git
    /// start programs (filters, for one). Its repository is named, not searched for: were it damaged,
    /// git would take one further up for it; and who owns the files does not matter then.
    pub fn in_tree(dir: &Path, settings: &Settings) -> Self {
        let mut git = Self::in_fresh_tree(dir, settings);
        git.sandbox = settings.sandbox.clone();
        git
    }

    /// Calls in a tree that no model has seen yet: its configuration is ours.
    pub fn in_fresh_tree(dir: &Path, settings: &Settings) -> Self {
        let mut git = Self::without_configuration(dir, settings);
        let own = [
            ("GIT_DIR", ".git"),
            ("GIT_WORK_TREE", "."),
            // Commits as they are and as they would be pushed; and no remote of the model's is asked for more.
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
        ];
        git.env.extend(own.map(|(name, value)| (name.into(), value.into())));
        git
    }

    /// Calls that know nothing of the person whose account this is.
    pub fn without_configuration(dir: &Path, settings: &Settings) -> Self {
        let path = settings.env.iter().filter(|(name, _)| name == "PATH").cloned().collect();
        let mut env = environment(settings, path);
        // Nothing a person configured for himself runs in a tree that a model wrote.
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_ATTR_NOSYSTEM", "1"),
        ] {
            env.push((name.into(), value.into()));
        }
        Self::at(dir, env)
    }

    /// The same calls with `path`, a file beside the tree, to read.
    #[must_use]
    pub fn reading(mut self, path: &Path) -> Self {
        self.readable = Some(path.to_path_buf());
        self
    }

    /// The same calls with what opens `remote` and nothing else: bound to that one address, in the
    /// environment only, never followed to another host, and no helper of a person is asked or told.
    #[must_use]
    pub fn toward(mut self, remote: &RepositorySource) -> Self {
        let Some(credential) = &remote.credential else { return self };
        let basic = STANDARD.encode(format!("{}:{}", credential.username, credential.password.expose()));
        let settings = [
            (format!("http.{}.extraHeader", remote.url), format!("Authorization: Basic {basic}")),
            ("credential.helper".to_owned(), String::new()),
            ("http.followRedirects".to_owned(), "false".to_owned()),
        ];
        self.env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (index, (key, value)) in settings.into_iter().enumerate() {
            self.env.push((format!("GIT_CONFIG_KEY_{index}"), key.into()));
            self.env.push((format!("GIT_CONFIG_VALUE_{index}"), value.into()));
        }
        self
    }

    /// Runs git and returns how it ended, good or bad.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be started, `Kind::Later` when it hangs.
    pub fn finish<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<Finished> {
        let finished = self.finish_within(TIMEOUT, args)?;
        match finished.ending {
            Ending::TimedOut => Err(Error::later("git did not end within an hour")),
            _ => Ok(finished),
        }
    }

    fn finish_within<S: AsRef<OsStr>>(&self, timeout: Duration, args: impl IntoIterator<Item = S>) -> Result<Finished> {
        let program = Program {
            program: "git".into(),
            args: ALWAYS
                .iter()
                .map(OsString::from)
                .chain(args.into_iter().map(|arg| arg.as_ref().to_owned()))
                .collect(),
            env: self.env.clone(),
            dir: self.dir.clone(),
            timeout: Some(timeout),
            output_limit_bytes: OUTPUT_LIMIT_BYTES,
            ends_with_us: false,
        };
        let finished = self.start(&program)?;
        match finished.ending {
            Ending::Code(127) => {
                Err(Error::host("cannot find the program `git`")
                    .hint("install git, and see that PATH names its directory"))
            }
            _ => Ok(finished),
        }
    }

    fn start(&self, program: &Program) -> Result<Finished> {
        let Some(sandbox) = &self.sandbox else { return program.run() };
        let readable: Vec<&Path> = self.readable.iter().map(PathBuf::as_path).collect();
        let inside = Inside { writable: &[&self.dir], readable: &readable, ..Inside::default() };
        let mut program = program.clone();
        program.env.retain(|(name, _)| name != "PATH");
        program.env.push(("PATH".into(), sandbox.path().to_owned()));
        sandbox.run(&program, inside, ResourceLimits::default())
    }

    /// Runs git, which must succeed; its output without the last line break.
    ///
    /// # Errors
    /// Of the kind its words suggest, with `what` as the sentence ("cannot clone `url`").
    pub fn run<S: AsRef<OsStr>>(&self, what: &str, args: impl IntoIterator<Item = S>) -> Result<String> {
        let mut text = String::from_utf8_lossy(&self.run_bytes(what, args)?).into_owned();
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    /// The same with the output as it is: file names need not be UTF-8.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub fn run_bytes<S: AsRef<OsStr>>(&self, what: &str, args: impl IntoIterator<Item = S>) -> Result<Vec<u8>> {
        let finished = self.finish(args)?;
        if finished.succeeded() { Ok(finished.stdout.to_bytes()) } else { Err(failure(what, &finished)) }
    }

    /// Whether git ends with code 0; for questions such as `diff --quiet`.
    ///
    /// # Errors
    /// As [`Git::finish`].
    pub fn says_yes<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<bool> {
        Ok(self.finish(args)?.succeeded())
    }
}

fn environment(settings: &Settings, base: Vec<(String, OsString)>) -> Vec<(String, OsString)> {
    let mut env = base;
    let fixed = [
        // Its messages are read below.
        ("LC_ALL", "C"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "false"),
        ("SSH_ASKPASS_REQUIRE", "never"),
        ("GIT_EDITOR", "false"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
    ];
    env.extend(fixed.map(|(name, value)| (name.into(), value.into())));
    // Works without HOME and without any configuration of the user (case C52).
    for role in ["AUTHOR", "COMMITTER"] {
        env.push((format!("GIT_{role}_NAME"), settings.author_name.clone().into()));
        env.push((format!("GIT_{role}_EMAIL"), settings.author_email.clone().into()));
    }
    if !env.iter().any(|(name, _)| name == "GIT_SSH_COMMAND") {
        env.push(("GIT_SSH_COMMAND".into(), "ssh -o BatchMode=yes".into()));
    }
    env
}

/// What a failed git call means, from its words; unknown words concern this task only.
pub fn failure(what: &str, finished: &Finished) -> Error {
    let stderr = finished.stderr.to_text();
    let says = |needles: &[&str]| needles.iter().any(|needle| stderr.contains(needle));
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_owned();
    let (kind, reason, hint) = if says(&["No space left on device", "Disk quota exceeded"]) {
        (Kind::Host, "the disk is full", "free some space")
    } else if says(&["certificate verification failed", "certificate problem", "SSL certificate"]) {
        let hint = "a certificate of your own goes into ca_file";
        (Kind::Host, "the certificate of the remote is not trusted", hint)
    } else if says(&["Another git process seems to be running", ".lock': File exists"]) {
        (Kind::Later, "another git is still at work there", "")
    } else if says(&["dubious ownership"]) {
        let hint = "run as the user who owns it, or add it to safe.directory in the git configuration of that user";
        (Kind::Task, "the repository belongs to another user of this machine", hint)
    } else if says(&["Remote branch", "couldn't find remote ref"]) {
        (Kind::Task, "there is no such branch (any more)", "")
    } else if says(&[
        "does not exist",
        "not found",
        "does not appear to be a git repository",
        "No such file or directory",
    ]) {
        (Kind::Task, "there is no such repository, or we may not see it", "check the repository's address")
    } else if says(&["Authentication failed", "could not read Username", "Permission denied", "HTTP 403", "error: 403"])
    {
        (Kind::Task, "we may not access it", "check the rights of the account")
    } else if says(&[
        "Could not resolve host",
        "unable to access",
        "Connection",
        "No route to host",
        "Network is unreachable",
        "timed out",
        "early EOF",
        "the remote end hung up",
        "error: 5",
    ]) {
        (Kind::Later, "the remote cannot be reached", "")
    } else {
        (Kind::Task, "git refused", "")
    };
    log::debug!("{what}: git says: {stderr}");
    let error = Error::new(kind, format!("{what}: {reason}")).caused_by(std::io::Error::other(format!("git: {last}")));
    if hint.is_empty() { error } else { error.hint(hint) }
}
