//! S6: nothing panics. tokio catches what panics in a task, so it is heard where it is thrown.

use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Hears of everything that panics in this thread from now on.
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

/// What has panicked since.
pub(super) fn heard() -> Vec<String> {
    PANICS.take()
}
