//! Observers of an elector's task, for metrics and events. An observer must return quickly. The elector does not depend
//! on its success.

use std::sync::Arc;
use std::time::Duration;

/// An observer of one elector.
pub(crate) trait Observer: Send + Sync {
    /// A term has begun. `lease_uid` may be empty.
    fn began(&self, lease_uid: &str);

    /// A term is over.
    fn ended(&self, lease_uid: &str);

    /// A renewal ended after `took`, successfully or not.
    fn renewed(&self, took: Duration, succeeded: bool);
}

/// All observers of one elector.
pub(crate) type Observers = Vec<Arc<dyn Observer>>;

/// Reports which term is over and which has begun, by their tokens. One may follow the other directly.
pub(crate) fn report_terms(observers: &Observers, former: Option<u64>, current: Option<u64>, lease_uid: &str) {
    for observer in observers.iter().filter(|_| former != current) {
        if former.is_some() {
            observer.ended(lease_uid);
        }
        if current.is_some() {
            observer.began(lease_uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Reports(Mutex<Vec<String>>);

    impl Observer for Reports {
        fn began(&self, lease_uid: &str) {
            self.0.lock().unwrap().push(format!("{lease_uid} began"));
        }

        fn ended(&self, lease_uid: &str) {
            self.0.lock().unwrap().push(format!("{lease_uid} ended"));
        }

        fn renewed(&self, _: Duration, _: bool) {}
    }

    #[test]
    fn a_term_that_follows_another_directly_is_reported_after_the_end_of_that_one() {
        let reports = Arc::<Reports>::default();
        let observers: Observers = vec![reports.clone()];
        for (former, current, expected) in [
            (None, Some(1), &["u began"][..]),
            (Some(1), Some(1), &[]),
            (Some(1), Some(2), &["u ended", "u began"]),
            (Some(2), None, &["u ended"]),
            (None, None, &[]),
        ] {
            report_terms(&observers, former, current, "u");
            assert_eq!(std::mem::take(&mut *reports.0.lock().unwrap()), expected, "{former:?} {current:?}");
        }
    }
}
