//! The colors of states on a terminal.

use anstyle::AnsiColor;

use super::snapshot::LeaseState;

/// The color of a Lease's state. Red needs a person; yellow is temporary or intentional.
pub(crate) const fn color_of(state: LeaseState) -> AnsiColor {
    match state {
        LeaseState::Held => AnsiColor::Green,
        LeaseState::Granted | LeaseState::Hold => AnsiColor::Yellow,
        LeaseState::Expired | LeaseState::Unheld | LeaseState::NoCandidate | LeaseState::Missing => AnsiColor::Red,
    }
}

/// The color of a candidate's state, if it has one.
pub(crate) fn color_of_candidate(state: &str) -> Option<AnsiColor> {
    match state {
        "Holder" => Some(AnsiColor::Green),
        "Preferred" | "Damped" => Some(AnsiColor::Yellow),
        "Unresponsive" | "Invalid" => Some(AnsiColor::Red),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn red_states_need_a_person_and_yellow_ones_are_temporary_or_intentional() {
        for (state, color) in [
            (LeaseState::Held, AnsiColor::Green),
            (LeaseState::Granted, AnsiColor::Yellow),
            (LeaseState::Hold, AnsiColor::Yellow),
            (LeaseState::Expired, AnsiColor::Red),
            (LeaseState::Missing, AnsiColor::Red),
        ] {
            assert_eq!(color_of(state), color, "{state:?}");
        }
        for (state, color) in [
            ("Holder", Some(AnsiColor::Green)),
            ("Preferred", Some(AnsiColor::Yellow)),
            ("Damped", Some(AnsiColor::Yellow)),
            ("Unresponsive", Some(AnsiColor::Red)),
            ("Invalid", Some(AnsiColor::Red)),
            ("Standby", None),
        ] {
            assert_eq!(color_of_candidate(state), color, "{state}");
        }
    }
}
