//! SIGTERM and SIGINT as a flag that checkpoints read. Nothing is done inside a handler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Context, Kind, Result};

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Starts listening. A second signal of the same kind ends the process at once, as a person at a
/// terminal expects.
///
/// # Errors
/// `Kind::Host` when the system refuses.
pub fn listen() -> Result<()> {
    for signal in [SIGTERM, SIGINT] {
        let listening = signal_hook::flag::register_conditional_shutdown(signal, 75, Arc::clone(&REQUESTED))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&REQUESTED)));
        listening.context(Kind::Host, || "cannot listen for SIGTERM".into())?;
    }
    Ok(())
}

/// Whether somebody asked us to end.
pub fn termination_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
