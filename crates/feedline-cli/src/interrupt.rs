//! Ctrl-C: the first one asks to stop, the second one ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on, Ctrl-C and SIGTERM only set a flag, so that the work can end cleanly. A second one ends the
/// process at once. Other handlers (Python's) are called too.
pub(crate) fn watch() {
    let asked = ASKED.get_or_init(|| {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the flag of the first signal arms the shutdown by the second. If no handler can be
            // installed, the signal ends the process as usual; packs survive that too.
            let _ = flag::register_conditional_shutdown(signal, 130, asked.clone())
                .and_then(|_| flag::register(signal, asked.clone()));
        }
        asked
    });
    asked.store(false, Ordering::Relaxed);
}

/// Whether the user asked to stop since [`watch`].
pub(crate) fn asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}
