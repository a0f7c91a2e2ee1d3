//! Catches panics of other crates and turns them into errors without printing them. All other panics are printed as
//! before.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`. A panic in it becomes an error and is not printed.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, ()> {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    done.map_err(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caught_panics_are_silent_errors_and_others_are_printed() {
        assert_eq!(catch(|| 3), Ok(3));
        assert_eq!(catch(|| -> u8 { panic!("nobody reads this") }), Err(()));
        assert!(!QUIET.get());
        assert_eq!(catch(|| catch(|| 1).is_ok() && QUIET.get()), Ok(true));
    }
}
