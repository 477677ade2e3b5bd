//! Edits of the elector's own candidate by another client.
//!
//! Versions, strategy and lease duration decide who leads. If another client changes them, for example by applying an
//! old file, the elector writes its own values again, and a note says which field had which value. An administrator may
//! own the priority, so the elector leaves that alone.
//!
//! Two writers must not fight:
//!
//! - Each repair within a minute of the former one waits longer, up to half a minute.
//! - A later process of the same name writes its own values and its session, and this elector leaves them. The
//!   `renewTime` of such a process is later than the one before; that of an old file is not.

use std::time::Duration;

use crate::elector::plan::Plan;
use crate::elector::{EditedField, Note};
use crate::model::{CandidateRecord, Moment, Nomination, Pod, Strategy};

/// How long after a repair the next edit counts as the first one again.
const SERIES_ENDS_AFTER: Duration = Duration::from_mins(1);

/// After how many repairs in a row the notes end.
const MOST_NOTES: u32 = 3;

/// The edits of one candidate, and their repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Edits {
    /// The fields of the newest version that another client has changed.
    fields: Vec<EditedField>,
    /// Another process of this name has written its own values.
    is_overtaken: bool,
    /// The last repair, and the earliest time of the next one in a row.
    last: Option<(Moment, Moment)>,
    repairs_in_a_row: u32,
}

impl Edits {
    /// Records a version of the object into which this process has written its values. `former` is the version before.
    pub(super) fn observe(
        &mut self,
        own: &Nomination,
        former: Option<&CandidateRecord>,
        record: &CandidateRecord,
        names_owner: bool,
    ) {
        let is_later = former.is_some_and(|former| former.renewed_at() < record.renewed_at());
        let has_own_session = record.session.as_deref() == Some(&own.session);
        let is_of_another = record.session.is_some() && !has_own_session && is_later;
        self.is_overtaken = !has_own_session && (self.is_overtaken || is_of_another);
        self.fields = if self.is_overtaken { Vec::new() } else { edited_fields(own, record, names_owner) };
    }

    /// Whether a repair is needed, now or later.
    pub(super) const fn need_repair(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The earliest time for the repair.
    pub(super) fn not_before(&self, now: Moment) -> Moment {
        self.last.filter(|(at, _)| now < at.after(SERIES_ENDS_AFTER)).map_or(now, |(_, next_at)| next_at)
    }

    /// Records that a repair is sent.
    pub(super) fn observe_sent(&mut self, now: Moment, plan: &mut Plan) {
        if self.last.is_none_or(|(at, _)| now >= at.after(SERIES_ENDS_AFTER)) {
            self.repairs_in_a_row = 0;
        }
        self.repairs_in_a_row = self.repairs_in_a_row.saturating_add(1);
        self.last = Some((now, plan.retry_after(self.repairs_in_a_row)));
        if self.repairs_in_a_row <= MOST_NOTES {
            let is_last = self.repairs_in_a_row == MOST_NOTES;
            plan.note(Note::CandidateEdited { fields: self.fields.clone(), again_and_again: is_last });
        }
    }
}

/// The fields of `record` that do not have the values of the nomination.
fn edited_fields(own: &Nomination, record: &CandidateRecord, names_owner: bool) -> Vec<EditedField> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    // An absent strategy is the default one.
    let strategy = |text: &Option<String>| {
        Strategy::read(text.as_deref())
            .map_or_else(|_| text.clone().unwrap_or_default(), |known| known.as_str().to_owned())
    };
    let pod = |pod: &Option<Pod>| {
        pod.as_ref().filter(|_| names_owner && own.pod.is_some()).map_or_else(String::new, |pod| pod.uid.clone())
    };
    let seconds = |seconds: Option<u32>| seconds.map_or_else(String::new, |seconds| seconds.to_string());
    let fields = [
        ("spec.binaryVersion", record.binary_version.clone(), own.binary_version.clone()),
        ("spec.emulationVersion", text(&record.emulation_version), text(&own.emulation_version)),
        ("spec.strategy", strategy(&record.strategy), strategy(&own.strategy)),
        (
            "hustings.io/lease-duration",
            seconds(record.lease_duration_seconds),
            seconds(Some(own.lease_duration_seconds)),
        ),
        ("hustings.io/session", text(&record.session), own.session.clone()),
        ("metadata.ownerReferences", pod(&record.pod), pod(&own.pod)),
    ];
    let edited = fields.into_iter().filter(|(_, found, own)| found != own);
    edited.map(|(field, found, own)| EditedField { field, found, own }).collect()
}
