//! What `/proc` tells about other processes: who descends from whom and how many they are, whether
//! the kernel killed for want of memory. Looks only.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// How often the processes of a child are really counted, whatever the machine's total says.
const COUNT_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// So many times the limit more on the whole machine than before: then nobody is asked whose they are.
const BEYOND_DOUBT: u64 = 4;

/// Watches how many processes a child has. Not left to RLIMIT_NPROC: that counts all processes of a
/// user together, and does not hold for root, not even in a user namespace.
pub(super) struct Census {
    root: u32,
    most: u64,
    fewest_on_machine: u64,
    looked: Instant,
    counted: Instant,
}

impl Census {
    /// How often to look: a fork bomb makes some hundreds of processes in that time.
    pub(super) const EVERY: Duration = Duration::from_millis(50);

    /// Watches the process `root` and all that descend from it.
    pub(super) fn new(root: u32, most: u64) -> Self {
        let now = Instant::now();
        let fewest_on_machine = tasks_of_machine().unwrap_or(0);
        Self { root, most, fewest_on_machine, looked: now, counted: now }
    }

    /// The limit, when there are more.
    pub(super) fn exceeded(&mut self) -> Option<u64> {
        if self.looked.elapsed() < Self::EVERY {
            return None;
        }
        self.looked = Instant::now();
        // As long as the whole machine has not that many more than before, nobody has them.
        let on_machine = tasks_of_machine().unwrap_or(u64::MAX);
        self.fewest_on_machine = self.fewest_on_machine.min(on_machine);
        let possible = on_machine - self.fewest_on_machine > self.most;
        if !possible && self.counted.elapsed() < COUNT_AT_LEAST_EVERY {
            return None;
        }
        self.counted = Instant::now();
        // A bomb grows while it is counted, and counting gets slower with it.
        if on_machine - self.fewest_on_machine > self.most.saturating_mul(BEYOND_DOUBT) {
            return Some(self.most);
        }
        tasks_below(self.root).filter(|tasks| *tasks > self.most).map(|_| self.most)
    }
}

/// Processes and threads of all descendants of `root`, itself included; `None` when it is gone.
///
/// Inside a process namespace orphans go to the first process there, so none gets lost.
fn tasks_below(root: u32) -> Option<u64> {
    let mut children: HashMap<u32, Vec<(u32, u64)>> = HashMap::new();
    let mut total = None;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Some((parent, threads)) = parent_and_threads(pid) else { continue };
        if pid == root {
            total = Some(threads);
        } else {
            children.entry(parent).or_default().push((pid, threads));
        }
    }
    let mut total = total?;
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for (pid, threads) in children.remove(&parent).unwrap_or_default() {
            total += threads;
            parents.push(pid);
        }
    }
    Some(total)
}

/// Fields 4 and 20 of `/proc/<pid>/stat` (see proc(5)). The name before them may hold anything.
fn parent_and_threads(pid: u32) -> Option<(u32, u64)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.nth(1)?.parse().ok()?, fields.nth(15)?.parse().ok()?))
}

/// Processes and threads of the whole machine, which is cheap to ask; `None` without `/proc`.
fn tasks_of_machine() -> Option<u64> {
    let loadavg = fs::read_to_string("/proc/loadavg").ok()?;
    loadavg.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// How often the kernel has killed a process of this machine for want of memory; 0 where it does not say.
pub fn out_of_memory_kills() -> u64 {
    let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
