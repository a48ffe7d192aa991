//! The hidden subcommand `__exec`: what a child of ours does with itself before it becomes the
//! program it was started for. Safe calls only, which the time between fork and exec does not allow.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;

use rustix::process::{Resource, Rlimit, Signal};

use crate::error::{Error, Result};

/// Name of the hidden subcommand.
pub const EXEC_SUBCOMMAND: &str = "__exec";

/// How far commands step back behind other processes.
const NICE: i32 = 10;

/// Where no limit is meant.
const NO_LIMIT: &str = "-";

/// What a child and everything it starts may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceLimits {
    /// Bytes of memory each single process may ask for.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at a time; with one more all of them are killed.
    pub processes: Option<u64>,
}

impl ResourceLimits {
    /// The arguments of `__exec` that carry the limits it sets, before the program.
    pub(super) fn to_args(self) -> [OsString; 1] {
        [self.memory_bytes.map_or_else(|| NO_LIMIT.into(), |bytes| bytes.to_string().into())]
    }
}

/// The body of `__exec <parent> <memory> <program> [args]`: own session, killed when the parent
/// dies, limits set, then becomes the program. Returns only when that fails.
pub fn exec_in_own_session(args: &[OsString]) -> Error {
    let [parent, memory, program, rest @ ..] = args else {
        return Error::usage("`__exec` needs a parent, a memory limit and a program");
    };
    // Fails only for a group leader, which a fresh child is not.
    let _ = rustix::process::setsid();
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have died before the line above took effect.
    let parent_now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if parent.to_str() != Some(&parent_now.to_string()) {
        return Error::host("the parent of this child is gone");
    }
    if let Err(error) = limit(memory) {
        return error;
    }
    let source = std::process::Command::new(program).args(rest).exec();
    Error::host(format!("cannot start `{}`", program.display())).caused_by(source)
}

fn limit(memory: &OsStr) -> Result<()> {
    // A core dump in a work tree is of no use to anybody.
    let _ = lower(Resource::Core, 0);
    if memory == NO_LIMIT {
        return Ok(());
    }
    let bytes = memory.to_str().and_then(|text| text.parse().ok());
    let bytes = bytes.ok_or_else(|| Error::usage("the memory limit of `__exec` is a number of bytes"))?;
    // Not RLIMIT_AS: node, java and go reserve far more address space than they ever use. This one
    // counts what is writable and private.
    lower(Resource::Data, bytes).map_err(|errno| Error::host("cannot limit the memory of a child").caused_by(errno))?;
    // And for the processor: whoever watches them must get his turn, however many they are.
    let _ = rustix::process::setpriority_process(None, NICE);
    // Should the whole machine run out of memory, commands go first and not the agent or sshd.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

/// Sets both the soft and the hard limit, never above the hard limit there is.
fn lower(resource: Resource, limit: u64) -> rustix::io::Result<()> {
    let hard = rustix::process::getrlimit(resource).maximum;
    let limit = Some(hard.map_or(limit, |hard| hard.min(limit)));
    rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit })
}
