//! S6: no code panics. tokio catches panics in tasks, so a panic hook records them.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records every panic in this thread from now on.
pub(super) fn listen() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
            former(panic);
        }));
    });
    PANICS.take();
}

/// Returns the panics that were recorded, and forgets them.
pub(super) fn take() -> Vec<String> {
    PANICS.take()
}
