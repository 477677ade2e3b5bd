//! What happens in a lab, as an observer of all processes sees it.

use hustings_core::election::{Event as Report, Observation};
use hustings_core::elector::{Leading, Note};
use hustings_core::model::{LeaseRecord, Reply, Request};

use crate::lab::Lab;
use crate::process::Fate;

/// A process of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The elector of this number.
    Replica(usize),
    /// The controller of this number.
    Controller(usize),
    /// The process of client-go of this number.
    Native(usize),
    /// The bare process of this number.
    Bare(usize),
}

/// One event, with the true time in microseconds and its process.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The true time.
    pub at_micros: i64,
    /// The process.
    pub who: Who,
    /// What happens.
    pub news: News,
}

/// What happens to a process.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// An elector begins to lead.
    Leads(Leading),
    /// An elector stops leading.
    Follows,
    /// The process of an elector has ended.
    Ended,
    /// A controller reports an event.
    Report(Report),
    /// An elector notes something.
    Note(Note),
    /// An elector asks its work to stop.
    StopsWork,
    /// An elector drops its work.
    DropsWork,
    /// A request leaves a process, over a network that delays or loses requests.
    Sent(Request),
    /// A request is lost on its way.
    Lost(Request),
    /// A proxy answers 404 to a request.
    Forged404(Request),
    /// A watch has shown a controller this Pod or this Node.
    Shown(Vec<Observation>),
    /// The server has executed a request.
    Answered {
        /// The request.
        request: Request,
        /// The server's reply.
        reply: Box<Reply>,
        /// The event that a controller publishes if the request succeeds.
        report: Option<Report>,
        /// Whether the reply is lost on its way back.
        is_lost: bool,
    },
    /// A process of client-go or a [`Bare`](crate::Bare) one does this, and may have written the Lease.
    Does(&'static str, Option<Box<LeaseRecord>>),
}

impl News {
    pub(crate) fn answered(request: &Request, reply: &Reply, fate: Fate) -> Self {
        let reply = Box::new(reply.clone());
        Self::Answered { request: request.clone(), reply, report: None, is_lost: fate.answer_lost }
    }
}

impl Lab {
    /// The news since the last call.
    pub fn take_news(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.news)
    }

    pub(crate) fn note(&mut self, who: Who, news: News) {
        self.news.push(Entry { at_micros: self.now_micros, who, news });
    }

    /// Notes something about a request, if anybody reads such news.
    pub(crate) fn note_request(&mut self, who: Who, news: impl FnOnce() -> News) {
        if self.records_requests {
            self.note(who, news());
        }
    }
}
