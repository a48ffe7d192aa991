//! Programs shut in by bubblewrap: they see the system's programs read-only, the directories they
//! are given, a process table of their own, and nothing else of the machine. Made once by a probe.

mod failure;
mod view;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::launcher::ResourceLimits;
use super::process::{Ending, Extras, Finished, Program};
use crate::error::{Context as _, Error, Kind, Result};

pub use failure::reason_and_remedy;

/// Where programs are looked for inside when our own PATH names nothing that can be seen there.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The probe does next to nothing.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// A bubblewrap that works here.
#[derive(Debug, Clone)]
pub struct Bubblewrap {
    program: PathBuf,
    /// Forbids further user namespaces inside, where bubblewrap can (since 0.8).
    can_disable_userns: bool,
    read_only_paths: Vec<PathBuf>,
    path: OsString,
}

/// What one program sees beyond what all see.
#[derive(Debug, Clone, Copy, Default)]
pub struct Inside<'a> {
    /// Directories it may write to, under the paths they have outside.
    pub writable: &'a [&'a Path],
    /// Files and directories it may read, under the paths they have outside.
    pub readable: &'a [&'a Path],
    /// What is `/tmp` inside; without it, and where something writable lies below `/tmp`, an empty
    /// one in memory.
    pub tmp: Option<&'a Path>,
    /// Home directory that the user list inside names.
    pub home: Option<&'a Path>,
    /// Whether it reaches the network of the machine.
    pub network: bool,
}

impl Bubblewrap {
    /// Finds bubblewrap along `path` and sees whether `check` (a name looked up inside, and
    /// arguments) runs in it with all that `read_only_paths` asks for.
    ///
    /// # Errors
    /// `Kind::Host` with the reason and a hint what to do, when it does not.
    pub fn probe(path: Option<OsString>, read_only_paths: &[PathBuf], check: &[&str]) -> Result<Self> {
        let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
        let missing = || Error::host("bubblewrap is not installed").hint("install the package bubblewrap");
        let program = std::env::split_paths(&path)
            .map(|dir| dir.join("bwrap"))
            .find(|program| program.is_absolute() && program.is_file())
            .ok_or_else(missing)?;
        let mut found = Self {
            program,
            can_disable_userns: false,
            path: view::visible_path(&path, read_only_paths, DEFAULT_PATH),
            read_only_paths: read_only_paths.to_vec(),
        };
        found.can_disable_userns = found.help()?.contains("--disable-userns");
        let [check, arguments @ ..] = check else { return Err(Error::bug("nothing to probe bubblewrap with")) };
        let program = found.plain(check, arguments);
        // Without the network: that asks for more than with it.
        let finished = found.run(&program, Inside::default(), ResourceLimits::default())?;
        if finished.succeeded() {
            return Ok(found);
        }
        log::debug!("the probe of bubblewrap ended with {:?}: {}", finished.ending, finished.stderr.to_text());
        Err(Error::host(format!("the program `{check}` cannot be run inside bubblewrap"))
            .hint(format!("name the directory of `{check}` in command_executor.read_only_paths, and in PATH")))
    }

    fn help(&self) -> Result<String> {
        let mut program = self.plain("", &["--help"]);
        program.program = self.program.clone().into();
        Ok(program.run()?.stdout.to_text())
    }

    fn plain(&self, program: &str, arguments: &[&str]) -> Program {
        Program {
            program: program.into(),
            args: arguments.iter().map(OsString::from).collect(),
            env: vec![("PATH".into(), self.path.clone()), ("LC_ALL".into(), "C".into())],
            dir: "/".into(),
            timeout: Some(PROBE_TIMEOUT),
            output_limit_bytes: 64 << 10,
            ends_with_us: false,
        }
    }

    /// The directories of our PATH that can be seen inside.
    pub fn path(&self) -> &OsStr {
        &self.path
    }

    /// The parts of the machine's file tree that every program inside can read.
    pub fn visible(&self) -> impl Iterator<Item = &Path> {
        view::SYSTEM.iter().map(Path::new).chain(self.read_only_paths.iter().map(PathBuf::as_path))
    }

    /// Runs `program` to its end, shut in. Its environment is as given, its directory must be
    /// among what it sees. A program that dies of a signal ends with code 128 + signal, as in a shell.
    ///
    /// # Errors
    /// `Kind::Host` when the sandbox cannot be set up, which is never mistaken for an exit code.
    pub fn run(&self, program: &Program, inside: Inside<'_>, limits: ResourceLimits) -> Result<Finished> {
        let what = || "cannot start bubblewrap".to_owned();
        let (mut status, status_writer) = io::pipe().context(Kind::Host, what)?;
        let [users, groups] = view::user_lists(inside.home);
        let files = [OwnedFd::from(status_writer), filled(&users)?, filled(&groups)?];
        let [status_fd, users_fd, groups_fd] =
            files.each_ref().map(|file| OsString::from(file.as_raw_fd().to_string()));
        let data = ["--ro-bind-data".into(), users_fd, "/etc/passwd".into(), "--ro-bind-data".into(), groups_fd];
        let mut args = vec!["--json-status-fd".into(), status_fd];
        args.extend(view::options(
            inside,
            &self.read_only_paths,
            self.can_disable_userns,
            data.into_iter().chain(["/etc/group".into()]),
        ));
        args.extend(["--chdir".into(), program.dir.clone().into(), "--".into(), program.program.clone()]);
        args.extend(program.args.iter().cloned());
        let outer = Program { program: self.program.clone().into(), args, dir: "/".into(), ..program.clone() };
        let finished = outer.run_with(Extras { limits, inherited: files.into() })?;
        let mut said = Vec::new();
        // Never waits: what there is to say was said before it ended.
        rustix::fs::fcntl_setfl(&status, rustix::fs::OFlags::NONBLOCK).context(Kind::Host, what)?;
        let _ = status.read_to_end(&mut said);
        // Bubblewrap tells an exit code only of a program that it did start.
        if matches!(finished.ending, Ending::Code(_)) && !String::from_utf8_lossy(&said).contains("\"exit-code\"") {
            return Err(failure::error(&finished.stderr.to_text()));
        }
        Ok(finished)
    }

    /// A line for a POSIX shell that runs `program` with `arguments` shut in, the environment and
    /// further arguments passed on. The user list inside is empty.
    pub fn shell_line(&self, program: &[&str], inside: Inside<'_>) -> OsString {
        let options = view::options(inside, &self.read_only_paths, self.can_disable_userns, []);
        let mut line = OsString::from("exec ");
        let program = program.iter().map(OsString::from);
        for word in
            [self.program.clone().into_os_string()].into_iter().chain(options).chain(["--".into()]).chain(program)
        {
            line.push(quoted(&word));
            line.push(" ");
        }
        line
    }
}

/// A pipe that holds `text` and then ends; short texts fit without a reader.
fn filled(text: &str) -> Result<OwnedFd> {
    let (reader, mut writer) = io::pipe().context(Kind::Host, || "cannot make a pipe".into())?;
    writer.write_all(text.as_bytes()).context(Kind::Host, || "cannot write to a pipe".into())?;
    Ok(reader.into())
}

fn quoted(word: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut quoted = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}
