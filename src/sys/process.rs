//! Child processes: started without our environment, in their own session, ended with their whole
//! group; output read with poll(2), deadlines and bounded memory. Knows nothing of what it runs.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};

use super::launcher::{EXEC_SUBCOMMAND, ResourceLimits};
use super::process_table::Census;
use super::signal;
use crate::error::{Context as _, Error, Kind, Result};
use crate::text::bytes_left_out;

/// How long output is still read after the child ended, should a grandchild keep the pipe open.
const DRAIN_AFTER_EXIT: Duration = Duration::from_millis(200);
/// A program to run. The environment is exactly `env`; stdin is `/dev/null`.
#[derive(Debug, Clone)]
pub struct Program {
    /// Path, or a name looked up in the PATH of `env`.
    pub program: OsString,
    /// Arguments.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(String, OsString)>,
    /// Working directory.
    pub dir: PathBuf,
    /// After this long the whole group is killed; `None` = no limit.
    pub timeout: Option<Duration>,
    /// Bytes kept of each of stdout and stderr, half from the start and half from the end.
    pub output_limit_bytes: usize,
    /// End it when we are asked to end.
    pub ends_with_us: bool,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Killed at its time limit.
    TimedOut,
    /// Killed because we were asked to end.
    Interrupted,
    /// Killed for having more processes and threads than this.
    TooManyProcesses(u64),
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

/// What a child gets beyond what its `Program` says.
#[derive(Debug, Default)]
pub struct Extras {
    /// Limits on it and everything it starts.
    pub limits: ResourceLimits,
    /// Files that stay open in it, under the same numbers.
    pub inherited: Vec<OwnedFd>,
}

/// A program that ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// What it wrote to stdout.
    pub stdout: Captured,
    /// What it wrote to stderr.
    pub stderr: Captured,
    /// How long it ran.
    pub duration: Duration,
}

impl Finished {
    /// Whether it ended by itself with code 0.
    pub fn succeeded(&self) -> bool {
        self.ending == Ending::Code(0)
    }
}

/// Head and tail of a stream, in bounded memory.
#[derive(Debug)]
pub struct Captured {
    half_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out_bytes: u64,
}

impl Captured {
    fn new(limit_bytes: usize) -> Self {
        Self { half_bytes: limit_bytes / 2, head: Vec::new(), tail: VecDeque::new(), left_out_bytes: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let to_head = bytes.len().min(self.half_bytes - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        self.tail.extend(&bytes[to_head..]);
        let over = self.tail.len().saturating_sub(self.half_bytes);
        self.tail.drain(..over);
        self.left_out_bytes += over as u64;
    }

    /// The bytes, with a line where some were left out.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        if self.left_out_bytes > 0 {
            bytes.extend(bytes_left_out(self.left_out_bytes).bytes());
        }
        bytes.extend(&self.tail);
        bytes
    }

    /// What was written first, how many bytes were left out, and what was written last.
    pub fn parts(&self) -> (&[u8], u64, Vec<u8>) {
        (&self.head, self.left_out_bytes, self.tail.iter().copied().collect())
    }

    /// The same as text, invalid UTF-8 replaced.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.to_bytes()).into_owned()
    }
}

static LAUNCHER: OnceLock<PathBuf> = OnceLock::new();

/// Names the binary that understands `__exec`; for tests and benches, which are another binary.
pub fn use_launcher(path: impl Into<PathBuf>) {
    let _ = LAUNCHER.set(path.into());
}

/// Shuts other processes of our user off from our memory and environment, where tokens may be
/// (case C44). Children are ordinary again as soon as they run their program. Root sees all the same.
pub fn shut_off_from_others() {
    // An old kernel that refuses leaves us where we were.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

impl Program {
    /// Runs it to its end.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be started or waited for. A program that cannot be found makes
    /// the launcher end with code 127, as a shell would.
    pub fn run(&self) -> Result<Finished> {
        self.run_with(Extras::default())
    }

    /// The same with limits and open files.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_with(&self, extras: Extras) -> Result<Finished> {
        let started = Instant::now();
        let what = || format!("cannot run `{}`", self.program.display());
        for file in &extras.inherited {
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).context(Kind::Host, what)?;
        }
        let mut child = self.in_own_session(extras.limits)?.stdin(Stdio::null()).spawn().context(Kind::Host, what)?;
        let Extras { limits, inherited } = extras;
        drop(inherited);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut streams = [
            Stream::new(stdout.map(OwnedFd::from), self.output_limit_bytes),
            Stream::new(stderr.map(OwnedFd::from), self.output_limit_bytes),
        ];
        let watched = self.watch(&mut child, &mut streams, started, limits.processes);
        end_group(&child);
        // The group is dead now: what is left in the pipes is read, a stranger that keeps them is not waited for.
        drain(&mut streams, Instant::now() + DRAIN_AFTER_EXIT);
        let status = child.wait().context(Kind::Host, what)?;
        let ending = watched.context(Kind::Host, what)?.unwrap_or_else(|| status.into());
        let [stdout, stderr] = streams.map(|stream| stream.captured);
        Ok(Finished { ending, stdout, stderr, duration: started.elapsed() })
    }

    /// The command line of the launcher that becomes this program, with pipes for its output.
    ///
    /// # Errors
    /// `Kind::Bug` in a binary that is its own launcher and does not know it: it would start itself for ever.
    pub(super) fn in_own_session(&self, limits: ResourceLimits) -> Result<Command> {
        if std::env::args_os().nth(1).is_some_and(|first| first == EXEC_SUBCOMMAND) {
            return Err(Error::bug(format!("this binary does not handle `{EXEC_SUBCOMMAND}`")));
        }
        let launcher = LAUNCHER.get().map_or(Path::new("/proc/self/exe"), PathBuf::as_path);
        let mut command = Command::new(launcher);
        command
            .arg(EXEC_SUBCOMMAND)
            .arg(std::process::id().to_string())
            .args(limits.to_args())
            .arg(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }

    /// Runs it to its end with our own stdout and stderr, for a person who watches; `true` when it
    /// ended with code 0. Limits do not apply.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be started.
    pub fn run_visibly(&self) -> Result<bool> {
        let status = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .status()
            .context(Kind::Host, || format!("cannot run `{}`", self.program.display()))?;
        Ok(status.success())
    }

    /// Reads until the child ends; the reason when it has to be ended by us.
    fn watch(
        &self,
        child: &mut Child,
        streams: &mut [Stream; 2],
        started: Instant,
        most_processes: Option<u64>,
    ) -> io::Result<Option<Ending>> {
        // The pidfd becomes readable when the child ends. Without one (old kernels) we look now and then.
        let pidfd = pid_of(child).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        let mut census = most_processes.map(|most| Census::new(child.id(), most));
        loop {
            if ending_of(child)?.is_some() {
                return Ok(None);
            }
            if self.ends_with_us && signal::termination_requested() {
                return Ok(Some(Ending::Interrupted));
            }
            if let Some(most) = census.as_mut().and_then(Census::exceeded) {
                return Ok(Some(Ending::TooManyProcesses(most)));
            }
            let left = self.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(Some(Ending::TimedOut));
            }
            let mut look_again = if pidfd.is_some() { Duration::from_secs(1) } else { Duration::from_millis(20) };
            if census.is_some() {
                look_again = look_again.min(Census::EVERY);
            }
            wait_and_read(streams, pidfd.as_ref().map(OwnedFd::as_fd), left.unwrap_or(look_again).min(look_again))?;
        }
    }
}

struct Stream {
    pipe: Option<fs::File>,
    captured: Captured,
}

impl Stream {
    fn new(pipe: Option<OwnedFd>, limit_bytes: usize) -> Self {
        Self { pipe: pipe.map(fs::File::from), captured: Captured::new(limit_bytes) }
    }
}

/// Waits until a pipe has something or `also` is readable, reads what is there; `true` when
/// anything happened.
fn wait_and_read(streams: &mut [Stream; 2], also: Option<BorrowedFd<'_>>, wait: Duration) -> io::Result<bool> {
    let ready: Vec<bool> = {
        let mut fds: Vec<PollFd<'_>> =
            streams.iter().filter_map(|s| s.pipe.as_ref()).map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        let pipes = fds.len();
        fds.extend(also.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&timespec(wait))) {
            // A signal: the caller looks at the flag.
            Err(rustix::io::Errno::INTR) | Ok(0) => return Ok(false),
            Err(errno) => return Err(errno.into()),
            Ok(_) => fds[..pipes].iter().map(|fd| !fd.revents().is_empty()).collect(),
        }
    };
    let mut ready = ready.into_iter();
    let mut buffer = [0u8; 64 * 1024];
    for stream in streams {
        let Some(pipe) = &mut stream.pipe else { continue };
        if ready.next() == Some(true) {
            match pipe.read(&mut buffer) {
                Ok(0) => stream.pipe = None,
                Ok(count) => stream.captured.push(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(true)
}

pub(super) fn timespec(wait: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(wait.as_secs()).unwrap_or(1), tv_nsec: wait.subsec_nanos().into() }
}

fn drain(streams: &mut [Stream; 2], until: Instant) {
    while streams.iter().any(|stream| stream.pipe.is_some()) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || wait_and_read(streams, None, left).is_err() {
            break;
        }
    }
}

/// How the child ended, without reaping it: its number stays taken until its group was killed.
pub(super) fn ending_of(child: &mut Child) -> io::Result<Option<Ending>> {
    let Some(pid) = pid_of(child) else { return Ok(child.try_wait()?.map(Ending::from)) };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match rustix::process::waitid(WaitId::Pid(pid), look) {
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(errno) => Err(errno.into()),
        Ok(status) => Ok(status.map(|status| match status.exit_status() {
            Some(code) => Ending::Code(code),
            None => Ending::Signal(status.terminating_signal().unwrap_or(0)),
        })),
    }
}

pub(super) fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Kills everything in the child's session group. The child is not reaped yet, so its number
/// cannot belong to somebody else.
pub(super) fn end_group(child: &Child) {
    if let Some(pid) = pid_of(child) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        // Had `__exec` not reached setsid yet, the group would not exist.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Kills every process of our user whose environment holds `mark` (`NAME=value`), ourselves apart.
/// Returns how many were found. Used after a crash, when only the mark tells whose they were.
pub fn end_marked(mark: &str) -> usize {
    let mut ended = 0;
    // What is killed may have just started another: look again until nothing is found.
    for _ in 0..20 {
        let found = marked(mark);
        if found.is_empty() {
            break;
        }
        ended += found.len();
        for pid in found {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    ended
}

fn marked(mark: &str) -> Vec<Pid> {
    let (own, uid) = (rustix::process::getpid(), rustix::process::getuid().as_raw());
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    pids.filter(|pid| *pid != own)
        .filter(|pid| {
            let dir = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
            let ours = fs::metadata(&dir).is_ok_and(|metadata| metadata.uid() == uid);
            ours && fs::read(dir.join("environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
        })
        .collect()
}
