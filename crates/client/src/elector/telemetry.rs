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
