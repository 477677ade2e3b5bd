//! The timers of an elector: what sets each timer, for how long, and why.

/// What an elector waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Set by each pending request, for the request timeout: then its outcome counts as unknown.
    RequestTimeout,
    /// Set by consecutive failures before a term, for one to four retry periods: a failing server needs rest.
    FailurePause,
    /// Set by a term, until its validity ends: then this process no longer leads.
    Validity,
    /// Set by a term, for one retry period after the last renewal: the holder renews.
    Renewal,
    /// Set by the request to stop the work, for the stop grace: then the caller aborts the work.
    StopGrace,
    /// Set by a stopping holder, for 500 ms: the controller may name a preferred holder until then.
    Successor,
    /// Set by the end of a term, for one lease duration: then the Lease has expired and needs no release.
    GiveUp,
    /// Set by a resignation, for 5 s to 5 min: other electors come first.
    Cooldown,
    /// Set by a Lease that is free or expires, until this elector may claim it.
    Claim,
    /// Set by a holder with a lower key that was asked to hand over, for one lease duration: then it is asked again.
    HandOverRequest,
    /// Set by the last write other than a renewal, for one retry period or longer: then the next may follow.
    Write,
    /// Set by the last read, for one retry period, or by a lost race, for 250 ms: then the elector reads the Lease.
    Read,
    /// Set by each observation, for two retry periods: a silent watch may be broken, so the elector reads.
    Poll,
    /// Set by a Lease without a holder, for 25 s: then no controller is expected to elect.
    ControllerWait,
    /// Set by a list of candidates without a result, for 30 s, or one retry period if it failed.
    List,
    /// Set by a Lease that is empty for 2 s, or unchanged for two thirds of its duration. The candidate then renews
    /// without a ping, as proof of life for the next election.
    ProofOfLife,
    /// Set by the last write of the candidate, for one retry period or longer: then the next may follow.
    CandidateWrite,
    /// Set by a process that stops, for the request timeout: it waits that long for the deletion of its candidate.
    CandidateDeletion,
    /// Set by a candidate of this name that stands for another Lease: for 30 s of silence after a ping, or for 5 min
    /// after a sign of life. Then the elector replaces it, or pings it again.
    Namesake,
}

impl Timer {
    /// The name of the timer, for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestTimeout => "request-timeout",
            Self::FailurePause => "failure-pause",
            Self::Validity => "validity",
            Self::Renewal => "renewal",
            Self::StopGrace => "stop-grace",
            Self::Successor => "successor",
            Self::GiveUp => "give-up",
            Self::Cooldown => "cooldown",
            Self::Claim => "claim",
            Self::HandOverRequest => "hand-over-request",
            Self::Write => "write",
            Self::Read => "read",
            Self::Poll => "poll",
            Self::ControllerWait => "controller-wait",
            Self::List => "list",
            Self::ProofOfLife => "proof-of-life",
            Self::CandidateWrite => "candidate-write",
            Self::CandidateDeletion => "candidate-deletion",
            Self::Namesake => "namesake",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Timer;

    #[test]
    fn the_word_of_each_timer_is_its_name_in_kebab_case() {
        for timer in [
            Timer::RequestTimeout,
            Timer::FailurePause,
            Timer::Validity,
            Timer::Renewal,
            Timer::StopGrace,
            Timer::Successor,
            Timer::GiveUp,
            Timer::Cooldown,
            Timer::Claim,
            Timer::HandOverRequest,
            Timer::Write,
            Timer::Read,
            Timer::Poll,
            Timer::ControllerWait,
            Timer::List,
            Timer::ProofOfLife,
            Timer::CandidateWrite,
            Timer::CandidateDeletion,
            Timer::Namesake,
        ] {
            let name = format!("{timer:?}");
            let words = name.char_indices().fold(String::new(), |words, (index, letter)| {
                let hyphen = if index > 0 && letter.is_ascii_uppercase() { "-" } else { "" };
                format!("{words}{hyphen}{}", letter.to_ascii_lowercase())
            });
            assert_eq!(timer.as_str(), words);
        }
    }
}
