//! An admission policy that reverts writes of one field: the server answers 200, and the field is unchanged.

use serde_json::Value;

use super::kind::Kind;
use super::write::set;

/// The field that stays unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The kind of the objects.
    pub kind: Kind,
    /// The path of the field, whose parent is an object.
    pub field: &'static [&'static str],
}

impl Policy {
    /// Reverts the field in an object that was created or replaces `former`. Returns whether it had changed.
    pub(super) fn apply(&self, kind: Kind, object: &mut Value, former: Option<&Value>) -> bool {
        let Some((field, way)) = self.field.split_last().filter(|_| kind == self.kind) else { return false };
        let stood = former.and_then(|former| way.iter().try_fold(former, |place, part| place.get(part))?.get(field));
        let Some(place) = way.iter().try_fold(object, |place, part| place.get_mut(part)) else { return false };
        let is_changed = place.get(field) != stood;
        set(place, field, stood.cloned());
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_field_of_the_policy_stays_unchanged() {
        let policy = Policy { kind: Kind::Lease, field: &["metadata", "labels", "a"] };
        let former = json!({ "metadata": { "labels": { "a": "1", "b": "1" } } });
        let mut object = json!({ "metadata": { "labels": { "a": "2", "b": "2" } } });
        assert!(policy.apply(Kind::Lease, &mut object, Some(&former)));
        assert_eq!(object, json!({ "metadata": { "labels": { "a": "1", "b": "2" } } }));
        assert!(policy.apply(Kind::Lease, &mut object, None));
        assert!(!policy.apply(Kind::Lease, &mut object, None), "nothing is left to revert");
        assert_eq!(object, json!({ "metadata": { "labels": { "b": "2" } } }));
    }
}
