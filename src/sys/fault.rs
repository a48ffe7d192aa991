//! Deliberate faults for tests, behind the feature `faults`: named points at which the process
//! dies, and the n-th write, fsync, rename or link failing. Without the feature all of it compiles
//! to nothing.
//!
//! `CODING_AGENT_FAULT_POINT=name[:n]` kills the process (SIGKILL) the n-th time it passes `name`.
//! `CODING_AGENT_FAULT_IO=n[+]:EIO|ENOSPC` fails the n-th I/O operation (with `+` all from there on).
//! `CODING_AGENT_FAULT_REPORT=path` creates that file when either fires.

/// Dies here when a test says so.
#[inline]
pub fn point(name: &str) {
    #[cfg(feature = "faults")]
    on::point(name);
    #[cfg(not(feature = "faults"))]
    let _ = name;
}

/// Fails here when a test says so; called before each operation that changes the disk.
///
/// # Errors
/// The error a test asked for.
#[inline]
pub fn io() -> std::io::Result<()> {
    #[cfg(feature = "faults")]
    return on::io();
    #[cfg(not(feature = "faults"))]
    Ok(())
}

/// Whether waiting is really waiting; tests set `CODING_AGENT_FAULT_NO_SLEEP` and wait for nothing.
#[inline]
pub fn sleeps() -> bool {
    #[cfg(feature = "faults")]
    return std::env::var_os("CODING_AGENT_FAULT_NO_SLEEP").is_none();
    #[cfg(not(feature = "faults"))]
    true
}

/// Whether file systems in memory are told from disks; tests set `CODING_AGENT_FAULT_MEMORY_IS_DISK`, since
/// what they find must not depend on where they run.
#[inline]
pub fn tells_memory() -> bool {
    #[cfg(feature = "faults")]
    return std::env::var_os("CODING_AGENT_FAULT_MEMORY_IS_DISK").is_none();
    #[cfg(not(feature = "faults"))]
    true
}

/// Whether the kernel is taken to know openat2(2); tests look at both.
#[inline]
pub fn has_openat2() -> bool {
    #[cfg(feature = "faults")]
    return on::has_openat2();
    #[cfg(not(feature = "faults"))]
    true
}

#[cfg(feature = "faults")]
pub use on::{arm, at_point, disarm, without_openat2};

#[cfg(feature = "faults")]
mod on {
    use std::cell::{Cell, RefCell};
    use std::io;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Plan {
        at: u64,
        on_and_on: bool,
        errno: i32,
    }

    static POINT: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let text = std::env::var("CODING_AGENT_FAULT_POINT").ok()?;
        Some(match text.split_once(':') {
            Some((name, nth)) => (name.to_owned(), nth.parse().unwrap_or(1)),
            None => (text, 1),
        })
    });
    static PASSED: AtomicU64 = AtomicU64::new(0);

    static PLAN: LazyLock<Option<Plan>> = LazyLock::new(|| {
        let text = std::env::var("CODING_AGENT_FAULT_IO").ok()?;
        let (at, error) = text.split_once(':')?;
        let errno = if error == "ENOSPC" { rustix::io::Errno::NOSPC } else { rustix::io::Errno::IO };
        Some(Plan {
            at: at.trim_end_matches('+').parse().ok()?,
            on_and_on: at.ends_with('+'),
            errno: errno.raw_os_error(),
        })
    });
    static OPERATIONS: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        static ARMED: Cell<Option<(u64, i32)>> = const { Cell::new(None) };
        static VISITOR: RefCell<Option<Visitor>> = const { RefCell::new(None) };
        static NO_OPENAT2: Cell<bool> = const { Cell::new(false) };
    }

    type Visitor = Box<dyn FnMut(&str)>;

    /// Calls `visitor` with the name of each point that this thread passes, until the next call;
    /// for tests that change the disk between two steps of ours.
    pub fn at_point(visitor: Option<Visitor>) {
        VISITOR.set(visitor);
    }

    /// Makes this thread do without openat2(2), or with it again.
    pub fn without_openat2(without: bool) {
        NO_OPENAT2.set(without);
    }

    pub fn has_openat2() -> bool {
        !NO_OPENAT2.get()
    }

    /// Lets the n-th operation of this thread fail with `errno`; for tests inside one process.
    pub fn arm(nth: u64, errno: i32) {
        ARMED.set(Some((nth, errno)));
    }

    /// Takes the plan back; `true` when it had fired.
    pub fn disarm() -> bool {
        ARMED.replace(None).is_none()
    }

    fn report() {
        if let Ok(path) = std::env::var("CODING_AGENT_FAULT_REPORT") {
            let _ = std::fs::write(path, "");
        }
    }

    pub fn point(name: &str) {
        // Taken out while it runs: what it does may pass points itself.
        if let Some(mut visitor) = VISITOR.take() {
            visitor(name);
            VISITOR.set(Some(visitor));
        }
        if let Some((wanted, nth)) = &*POINT
            && wanted == name
            && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth
        {
            report();
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    pub fn io() -> io::Result<()> {
        if let Some((left, errno)) = ARMED.get() {
            ARMED.set((left > 1).then_some((left - 1, errno)));
            if left <= 1 {
                return Err(io::Error::from_raw_os_error(errno));
            }
        }
        let Some(plan) = &*PLAN else { return Ok(()) };
        let nth = OPERATIONS.fetch_add(1, Ordering::Relaxed) + 1;
        if nth == plan.at || (plan.on_and_on && nth > plan.at) {
            report();
            return Err(io::Error::from_raw_os_error(plan.errno));
        }
        Ok(())
    }
}
