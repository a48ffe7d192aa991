//! A child that lives beside us and is talked to line by line: all three of its pipes are served at
//! once, so that neither side can block the other, with deadlines and bounded memory. It ends with its
//! whole group. Knows nothing of what is said.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, Signal};

use super::launcher::ResourceLimits;
use super::lines::Lines;
use super::process::{Ending, Program, end_group, ending_of, pid_of, timespec};
use super::signal;
use crate::error::{Context as _, Kind, Result};

/// A longer line of stderr is cut.
const LONGEST_SAID_BYTES: usize = 2_000;
/// How long a child is given to end by itself, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long we look for the exit code of a child that closed its pipes.
const EXIT_CODE_WAIT: Duration = Duration::from_millis(500);

/// Why there is no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLine {
    /// The deadline passed.
    TimedOut,
    /// We were asked to end.
    Interrupted,
    /// The line was too long and is dropped; the next one can be read.
    TooLong,
    /// The child ended (how is known where it is given), or closed its pipes.
    Ended(Option<Ending>),
}

/// A running child. Dropped, it is ended.
pub struct Companion {
    child: Child,
    pidfd: Option<OwnedFd>,
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
    to_write: Vec<u8>,
    lines: Lines,
    said: Lines,
    on_said: Box<dyn FnMut(&str)>,
    is_reaped: bool,
}

impl Companion {
    /// Starts `program`; its limits of time and output do not apply. A longer line of its stdout than
    /// `line_limit_bytes` is dropped. `on_said` gets each line of its stderr.
    ///
    /// # Errors
    /// `Kind::Host` when no process can be started. A program that cannot be found ends with code 127.
    pub fn start(program: &Program, line_limit_bytes: usize, on_said: impl FnMut(&str) + 'static) -> Result<Self> {
        let what = || format!("cannot start `{}`", program.program.display());
        let mut child = program
            .in_own_session(ResourceLimits::default())?
            .stdin(Stdio::piped())
            .spawn()
            .context(Kind::Host, what)?;
        let stdin = child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let stdout = child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let stderr = child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let pidfd = pid_of(&child).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        let companion = Self {
            child,
            pidfd,
            stdin,
            stdout,
            stderr,
            to_write: Vec::new(),
            lines: Lines::new(line_limit_bytes),
            said: Lines::new(LONGEST_SAID_BYTES),
            on_said: Box::new(on_said),
            is_reaped: false,
        };
        for pipe in [&companion.stdin, &companion.stdout, &companion.stderr].into_iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true).context(Kind::Host, what)?;
        }
        Ok(companion)
    }

    /// Writes a line. What the child writes meanwhile is kept.
    ///
    /// # Errors
    /// Why it could not be written whole by `deadline`; the rest is written before the next line.
    pub fn write_line(&mut self, line: &[u8], deadline: Instant) -> Result<(), NoLine> {
        self.to_write.extend_from_slice(line);
        self.to_write.push(b'\n');
        loop {
            // A child may answer what it got and be gone before we look.
            if self.to_write.is_empty() && self.stdin.is_some() {
                return Ok(());
            }
            if self.stdin.is_none() || self.stdout.is_none() {
                return Err(NoLine::Ended(self.ending()));
            }
            self.serve(deadline)?;
        }
    }

    /// The next line, without its line break.
    ///
    /// # Errors
    /// Why there is none by `deadline`.
    pub fn read_line(&mut self, deadline: Instant) -> Result<Vec<u8>, NoLine> {
        loop {
            match self.lines.pop() {
                Some(line) if line.is_cut => return Err(NoLine::TooLong),
                Some(line) => return Ok(line.bytes),
                None if self.stdout.is_none() => return Err(NoLine::Ended(self.ending())),
                None => self.serve(deadline)?,
            }
        }
    }

    /// Ends it and all of its group: closes its stdin, waits, SIGTERM, waits, SIGKILL. Collects it, so
    /// nothing is left. A second call does nothing.
    pub fn end(&mut self) {
        if std::mem::replace(&mut self.is_reaped, true) {
            return;
        }
        self.stdin = None;
        self.to_write.clear();
        if !self.is_over_within(GRACE) {
            if let Some(pid) = pid_of(&self.child) {
                let _ = rustix::process::kill_process_group(pid, Signal::TERM);
            }
            self.is_over_within(GRACE);
        }
        end_group(&self.child);
        // Killed, it cannot take long. Nobody could act on a failure.
        let _ = self.child.wait();
    }

    /// Waits until the child ended and nobody holds its pipes any more. What it still writes is read,
    /// since it may be waiting for that.
    fn is_over_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let is_silent = self.stdout.is_none() && self.stderr.is_none();
            if is_silent && !matches!(ending_of(&mut self.child), Ok(None)) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // With the pipes closed only its end is waited for.
            if self.poll_once(left, is_silent).is_err() {
                return false;
            }
            while self.lines.pop().is_some() {}
        }
    }

    /// How it ended, once its pipes are closed; `None` when it runs on without them.
    fn ending(&mut self) -> Option<Ending> {
        let until = Instant::now() + EXIT_CODE_WAIT;
        loop {
            let ending = ending_of(&mut self.child).ok().flatten();
            let left = until.saturating_duration_since(Instant::now());
            if ending.is_some() || left.is_zero() || self.poll_once(left, true).is_err() {
                // What it said last was written before it ended.
                self.read_rest();
                return ending;
            }
        }
    }

    /// Waits until something can be read or written, or the child ends, and does it.
    fn serve(&mut self, deadline: Instant) -> Result<(), NoLine> {
        if signal::termination_requested() {
            return Err(NoLine::Interrupted);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NoLine::TimedOut);
        }
        self.poll_once(left, true).map_err(|_| NoLine::Ended(None))?;
        if ending_of(&mut self.child).is_ok_and(|ending| ending.is_some()) {
            // What it wrote is in the pipes; a stranger that holds them is not waited for.
            self.read_rest();
            self.close_stdout();
        }
        Ok(())
    }

    /// One poll(2) of at most `wait`, and what it allows.
    fn poll_once(&mut self, wait: Duration, watches_end: bool) -> io::Result<()> {
        // A signal must be noticed, and without a pidfd (old kernels) the end of the child.
        let look_again = if self.pidfd.is_some() { Duration::from_secs(1) } else { Duration::from_millis(20) };
        let (mut writes, mut reads, mut hears) = (false, false, false);
        {
            let stdin = self.stdin.as_ref().filter(|_| !self.to_write.is_empty());
            let stdout = self.stdout.as_ref().filter(|_| !self.lines.is_full());
            let stdin = stdin.map(|pipe| PollFd::new(pipe, PollFlags::OUT));
            let stdout = stdout.map(|pipe| PollFd::new(pipe, PollFlags::IN));
            let stderr = self.stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN));
            let pidfd = self.pidfd.as_ref().filter(|_| watches_end);
            let pidfd = pidfd.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
            let flags = [stdin.is_some(), stdout.is_some(), stderr.is_some()];
            let mut fds: Vec<PollFd<'_>> = [stdin, stdout, stderr, pidfd].into_iter().flatten().collect();
            match poll(&mut fds, Some(&timespec(wait.min(look_again)))) {
                // A signal: the caller looks at the flag.
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(_) => {
                    let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
                    for (is_polled, is_ready) in flags.into_iter().zip([&mut writes, &mut reads, &mut hears]) {
                        *is_ready = is_polled && ready.next() == Some(true);
                    }
                }
            }
        }
        if writes {
            self.write();
        }
        if reads {
            self.read_stdout();
        }
        if hears {
            self.read_stderr();
        }
        Ok(())
    }

    /// What the kernel takes; a child that reads no more gets no more.
    fn write(&mut self) {
        let Some(pipe) = &mut self.stdin else { return };
        match pipe.write(&self.to_write) {
            Ok(count) => drop(self.to_write.drain(..count)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => {
                self.stdin = None;
                self.to_write.clear();
            }
        }
    }

    /// Reads what is in the pipes already, and no more than a pipe can hold: who writes on is not waited for.
    fn read_rest(&mut self) {
        const MOST_READS: usize = 64;
        (0..MOST_READS).take_while(|_| !self.lines.is_full() && self.read_stdout()).for_each(drop);
        (0..MOST_READS).take_while(|_| self.read_stderr()).for_each(drop);
    }

    /// Reads once; whether there may be more.
    fn read_stdout(&mut self) -> bool {
        let got = read(&mut self.stdout, &mut self.lines);
        if got == Got::End {
            self.close_stdout();
        }
        got == Got::Bytes
    }

    fn read_stderr(&mut self) -> bool {
        let got = read(&mut self.stderr, &mut self.said);
        if got == Got::End {
            self.stderr = None;
            self.said.finish();
        }
        while let Some(line) = self.said.pop() {
            (self.on_said)(&String::from_utf8_lossy(&line.bytes));
        }
        got == Got::Bytes
    }

    fn close_stdout(&mut self) {
        self.stdout = None;
        self.lines.finish();
    }
}

/// What one read gave.
#[derive(PartialEq)]
enum Got {
    Bytes,
    Nothing,
    End,
}

fn read(pipe: &mut Option<File>, lines: &mut Lines) -> Got {
    let Some(pipe) = pipe else { return Got::Nothing };
    let mut buffer = [0; 64 * 1024];
    match pipe.read(&mut buffer) {
        Ok(0) => Got::End,
        Ok(count) => {
            lines.push(&buffer[..count]);
            Got::Bytes
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Got::Nothing,
        Err(_) => Got::End,
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.end();
    }
}
