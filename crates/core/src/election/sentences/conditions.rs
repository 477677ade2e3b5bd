//! The messages of the conditions in a status.
//!
//! They are a function of the recorded status, so the messages alone never cause a write.

use crate::model::{Condition, RecordedStatus, Truth};

impl RecordedStatus {
    /// The messages of the conditions `Admissible`, `Responsive` and `Leading`. Each is at most one sentence longer
    /// than [`RecordedStatus::message`], and as stable.
    pub fn condition_messages(&self) -> [String; 3] {
        let admissible = match self.admissible.status {
            Truth::True => "The spec is valid, so this candidate may stand for the Lease.",
            // The message then names the mistake in the spec.
            Truth::False | Truth::Unknown => &self.message,
        };
        let responsive = match self.responsive.status {
            Truth::True if self.responsive.reason == Condition::ANSWERED_BEFORE_PING => {
                "It answered its last ping, but with a renewTime before the pingTime. The answer counts. Correct the clock \
                 of its machine, or its program."
            }
            Truth::True => "It answered its last ping, or renewed the Lease.",
            Truth::False => "It did not answer its last ping within the election window.",
            Truth::Unknown => "It has not been pinged yet: the controller pings only candidates that could win.",
        };
        let leading = if self.leading.reason == Condition::GRANT_NOT_TAKEN_UP {
            format!("It did not take up its last grant. {}", self.message)
        } else {
            self.message.clone()
        };
        [admissible.to_owned(), responsive.to_owned(), leading]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(admissible: Truth, responsive: Truth, leading: &str) -> [String; 3] {
        let condition = |status, reason: &str| Condition { status, reason: reason.to_owned() };
        RecordedStatus {
            message: "Why.".to_owned(),
            admissible: condition(admissible, "A"),
            responsive: condition(responsive, "R"),
            leading: condition(Truth::False, leading),
            ..RecordedStatus::default()
        }
        .condition_messages()
    }

    #[test]
    fn the_condition_of_an_inadmissible_candidate_names_its_mistake() {
        assert_eq!(status(Truth::False, Truth::True, "Inadmissible")[0], "Why.");
        assert_eq!(
            status(Truth::True, Truth::True, "Tie"),
            [
                "The spec is valid, so this candidate may stand for the Lease.",
                "It answered its last ping, or renewed the Lease.",
                "Why."
            ]
        );
    }

    #[test]
    fn a_candidate_that_was_never_pinged_has_not_failed() {
        let [_, responsive, _] = status(Truth::True, Truth::Unknown, "NoHolder");
        assert_eq!(responsive, "It has not been pinged yet: the controller pings only candidates that could win.");
    }

    #[test]
    fn an_unused_grant_is_named_before_the_reason_why_the_candidate_does_not_lead() {
        let [_, responsive, leading] = status(Truth::True, Truth::False, Condition::GRANT_NOT_TAKEN_UP);
        assert_eq!(responsive, "It did not answer its last ping within the election window.");
        assert_eq!(leading, "It did not take up its last grant. Why.");
    }
}
