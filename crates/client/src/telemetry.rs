//! Those to whom the task of an elector tells what happens, for people to see. None of them may take long, and nothing
//! depends on what becomes of it.

use std::sync::Arc;
use std::time::Duration;

/// Somebody who is told.
pub(crate) trait Witness: Send + Sync {
    /// A term has begun. `lease_uid` may be empty.
    fn began(&self, lease_uid: &str);

    /// A term is over.
    fn ended(&self, lease_uid: &str);

    /// A renewal was answered after `took`, or given up.
    fn renewed(&self, took: Duration, succeeded: bool);
}

/// All of them.
pub(crate) type Witnesses = Vec<Arc<dyn Witness>>;
