//! The candidates of one Lease in the order of their election.

use std::cmp::Ordering;

use super::member::{Claim, Member};
use crate::model::Moment;
use crate::ranking::Rank;

/// The candidates, best first. Those that are not admissible come last.
pub(super) type Order<'m> = Vec<&'m mut Member>;

pub(super) fn in_order<'m>(members: impl Iterator<Item = &'m mut Member>, now: Moment) -> Order<'m> {
    let mut order: Order<'m> = members.collect();
    order.sort_by(|a, b| match (a.standing(), b.standing()) {
        (Ok(better), Ok(worse)) => {
            let damped = |member: &Member| member.damping.until(now).is_some();
            damped(a).cmp(&damped(b)).then_with(|| better.rank.order(&worse.rank))
        }
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.name.cmp(&b.name),
    });
    order
}

pub(super) fn standing<'o>(order: &'o Order<'_>) -> impl Iterator<Item = (&'o Member, &'o Claim)> {
    order.iter().filter_map(|member| Some((&**member, member.standing().ok()?)))
}

pub(super) fn standing_mut<'o>(order: &'o mut Order<'_>) -> impl Iterator<Item = &'o mut Member> {
    order.iter_mut().map(|member| &mut **member).filter(|member| member.standing().is_ok())
}

/// The claims that determine the strategy: those of all candidates that are not known to be Unresponsive.
pub(super) fn determining_claims<'m>(members: impl Iterator<Item = &'m Member>) -> impl Iterator<Item = &'m Claim> {
    members.filter(|member| member.failed_at.is_none()).filter_map(|member| member.claim.as_ref().ok())
}

pub(super) fn rank_of<'o>(order: &'o Order<'_>, name: &str) -> Option<&'o Rank> {
    standing(order).find(|(member, _)| *member.name == *name).map(|(_, claim)| &claim.rank)
}
