//! The reasons and sentences of events.

use std::fmt;

use super::acts::By;
use super::short::Short;
use super::{NAME, OnHold, Why, advantage, refused};
use crate::election::{Event, NoEffect, Write};
use crate::model::{Cause, Ending, Transfer};
use crate::ranking::Criterion;

impl Event {
    /// The event's `reason`, one word in CamelCase.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Elected { .. } => "Elected",
            Self::Preferred { .. } => "HandOverAsked",
            Self::Withdrawn { .. } => "HandOverWithdrawn",
            Self::OnHold(_) => "OnHold",
            Self::NoLiveCandidate { .. } => "NoLiveCandidate",
            Self::Act { act, .. } => act.as_str(),
            Self::TransferRefused { .. } => "TransferRefused",
            Self::MalformedAct { .. } => "MalformedAct",
            Self::Inadmissible { why, .. } => refused(why),
            Self::WriteHasNoEffect { .. } => "WriteHasNoEffect",
            Self::HolderIgnoresPreferred { .. } => "HolderIgnoresPreferred",
            Self::SecondController => "SecondController",
            Self::HandedOver { .. } => "HandedOver",
            Self::Released { .. } => "Released",
            // client-go's reason. People and tools search for it.
            Self::BecameLeader { .. } => "LeaderElection",
        }
    }

    /// Whether a person has to act on it.
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::Elected { .. }
            | Self::Preferred { .. }
            | Self::Withdrawn { .. }
            | Self::Act { .. }
            | Self::BecameLeader { .. }
            | Self::HandedOver { .. }
            | Self::Released { .. } => false,
            Self::OnHold(_)
            | Self::NoLiveCandidate { .. }
            | Self::TransferRefused { .. }
            | Self::MalformedAct { .. }
            | Self::Inadmissible { .. }
            | Self::WriteHasNoEffect { .. }
            | Self::SecondController
            | Self::HolderIgnoresPreferred { .. } => true,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elected { candidate, why, after } => {
                write!(f, "{candidate} was elected")?;
                match after {
                    Ending::ProvenDead(evidence) => write!(f, " after {evidence}")?,
                    Ending::Released(cause) => write_unasked(f, *cause)?,
                    _ => {}
                }
                write!(f, ": {}.", Why(*why))
            }
            Self::Preferred { holder, candidate, criterion: None, .. } => {
                write!(f, "{holder} is about to stop and was asked to hand over to {candidate}.")
            }
            Self::Preferred { holder, candidate, criterion: Some(criterion), asked_by } => {
                write!(f, "{holder} was asked to hand over to {candidate}")?;
                let by = By(asked_by.as_deref());
                match criterion {
                    Criterion::Exclusion => write!(f, ": an administrator excludes {holder}."),
                    Criterion::Pin => write!(f, ": an administrator pinned the Lease to it{by}."),
                    Criterion::Transfer => write!(f, ": an administrator transfers the Lease{by}."),
                    merit => write!(f, ", which has {}.", advantage(*merit)),
                }
            }
            Self::BecameLeader { holder } => write!(f, "{} became leader", holder.name),
            Self::HandedOver { holder, candidate, cause } => {
                write!(f, "{holder} handed over to {candidate}")?;
                write_unasked(f, *cause)?;
                f.write_str(".")
            }
            Self::Released { holder, evidence } => {
                write!(f, "The Lease of {} was released: {evidence}.", Short(holder, NAME))
            }
            Self::Withdrawn { holder, preferred, why } => {
                write!(f, "{holder} is no longer asked to hand over to {}: {why}", Short(&preferred.to_string(), NAME))
            }
            Self::OnHold(hold) => OnHold(hold).fmt(f),
            Self::NoLiveCandidate { silent, inadmissible, excluded } => {
                f.write_str("No candidate can be elected: ")?;
                let causes = [
                    (silent, "did not answer a ping"),
                    (inadmissible, "not admissible"),
                    (excluded, "excluded by an administrator"),
                ];
                let mut separator = "";
                for (count, cause) in causes.into_iter().filter(|(count, _)| **count > 0) {
                    write!(f, "{separator}{count} {cause}")?;
                    separator = ", ";
                }
                f.write_str(".")
            }
            Self::Act { act, asked_by } => write!(f, "{act}{}.", By(asked_by.as_deref())),
            Self::TransferRefused { to, why } => {
                let to = if let Transfer::To(name) = to { name } else { "another candidate" };
                write!(f, "The Lease is not transferred to {}: {why}", Short(to, NAME))
            }
            Self::MalformedAct { malformed, .. } => malformed.fmt(f),
            Self::Inadmissible { why, .. } => why.fmt(f),
            Self::WriteHasNoEffect { write, why, candidate } => {
                let object = if candidate.is_some() { "LeaseCandidate" } else { "Lease" };
                write_no_effect(f, *write, *why, object)
            }
            Self::SecondController => f.write_str(
                "A second controller elects for this Lease, so each undoes writes of the other. Uninstall one of them, or \
                 give each its own namespaces. \"hustings check\" lists the controllers of the cluster.",
            ),
            Self::HolderIgnoresPreferred { holder, preferred } => {
                write!(
                    f,
                    "{holder} was asked to hand over to {} long ago and has not done so. Check that its work stops.",
                    Short(&preferred.to_string(), NAME)
                )
            }
        }
    }
}

impl fmt::Display for NoEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped(part) => f.write_str(part),
            Self::Reverted(part) => write!(f, "{part}, which another client reverts"),
        }
    }
}

fn write_no_effect(f: &mut fmt::Formatter<'_>, write: Write, why: NoEffect, object: &str) -> fmt::Result {
    let accepted = format_args!("The API server accepts the write {:?}, but", write.as_str());
    match (write, why) {
        (Write::Create, NoEffect::Dropped(_)) => {
            write!(f, "{accepted} the Lease is deleted at once. Find the controller that deletes it.")
        }
        (Write::Create, NoEffect::Reverted(_)) => {
            write!(f, "{accepted} another client deletes the Lease soon after each creation. Find that client.")
        }
        (Write::Delete, _) => write!(
            f,
            "{accepted} a finalizer keeps the LeaseCandidate. Remove the finalizer, or repair the controller that should \
             remove it."
        ),
        (_, NoEffect::Dropped(part)) => write!(
            f,
            "{accepted} does not keep the {part}. Exempt this {object} from the admission policy or webhook that changes \
             it."
        ),
        (_, NoEffect::Reverted(part)) => write!(
            f,
            "{accepted} another client reverts the {part}. Exempt this {object} from that client: \"kubectl get -o yaml \
             --show-managed-fields\" names it."
        ),
    }
}

/// Writes why a holder gave the Lease up although nobody asked for that.
fn write_unasked(f: &mut fmt::Formatter<'_>, cause: Cause) -> fmt::Result {
    cause.end_of_work().map_or(Ok(()), |sentence| write!(f, " after {sentence}"))
}
