//! Functions that run together in each term.
//!
//! Each function runs in its own task, so that a panic is caught and no function keeps the others from stopping. The
//! rule that must hold: the elector does not give the Lease up while a function runs. A task counts as running until it
//! has been dropped; aborting it is not enough.

use std::collections::HashMap;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use tokio::task::{Id, JoinSet};
use tracing::Instrument;

use crate::elector::{CampaignError, Elector};
use crate::leadership::{Leadership, Term};
use crate::work::panics::as_work;

/// How long aborted functions may take to be dropped before they count as blocking their threads.
const ABORT_LIMIT: Duration = Duration::from_secs(1);

/// An elector with the functions that run in each of its terms; see [`Elector::function`].
#[must_use = "nothing runs before `run`"]
pub struct Functions {
    elector: Elector,
    functions: Vec<Function>,
}

/// What happens to the term when a function fails, that is, returns an error or panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The term is [resigned](Term::resign): all functions stop, the elector gives the Lease up, and campaigns again
    /// after a pause.
    #[default]
    EndTerm,
    /// The failure is logged, and the other functions continue.
    KeepTerm,
}

/// The return type of a function: nothing, or a result.
pub trait FunctionResult: Send + 'static {
    /// Returns the error, if the function failed.
    fn into_result(self) -> Result<(), BoxError>;
}

type BoxError = Box<dyn Error + Send + Sync>;

struct Function {
    name: Arc<str>,
    on_failure: OnFailure,
    start: Arc<dyn Fn(Term) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>,
}

/// The functions of one term that have not ended.
struct RunningFunctions<'a> {
    leadership: &'a Leadership,
    term: Term,
    tasks: JoinSet<Result<(), BoxError>>,
    functions: HashMap<Id, (Arc<str>, OnFailure)>,
}

impl FunctionResult for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError> + Send + 'static> FunctionResult for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

impl Elector {
    /// Adds a function: `work` runs in each term, and logs name it `name`. If it fails, the term ends
    /// ([`OnFailure::EndTerm`]).
    ///
    /// ```
    /// # use hustings_client::{Elector, OnFailure, testing::MemoryStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shutdown = tokio_util::sync::CancellationToken::new();
    /// # let store = MemoryStore::new();
    /// # let elector = Elector::direct(&store, "n", "l").identity("a").shutdown(&shutdown).build()?;
    /// elector
    ///     .function("reconcile", |term| async move {
    ///         term.cancelled().await; // work here until then
    ///         Ok::<(), std::io::Error>(())
    ///     })
    ///     .function_with("report", OnFailure::KeepTerm, |term| async move {
    ///         println!("term {} has begun", term.number);
    ///         # shutdown_now();
    ///     })
    ///     # .function("stop", move |_| { let shutdown = shutdown.clone(); async move { shutdown.cancel() } })
    ///     .run()
    ///     .await?;
    /// # fn shutdown_now() {}
    /// # Ok(())
    /// # }
    /// ```
    pub fn function<F>(self, name: &str, work: impl Fn(Term) -> F + Send + Sync + 'static) -> Functions
    where
        F: Future<Output: FunctionResult> + Send + 'static,
    {
        self.function_with(name, OnFailure::EndTerm, work)
    }

    /// Like [`Elector::function`], with a choice of what happens to the term when `work` fails.
    pub fn function_with<F>(
        self,
        name: &str,
        on_failure: OnFailure,
        work: impl Fn(Term) -> F + Send + Sync + 'static,
    ) -> Functions
    where
        F: Future<Output: FunctionResult> + Send + 'static,
    {
        Functions { elector: self, functions: Vec::new() }.function_with(name, on_failure, work)
    }
}

impl Functions {
    /// Adds a function; see [`Elector::function`].
    pub fn function<F>(self, name: &str, work: impl Fn(Term) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: FunctionResult> + Send + 'static,
    {
        self.function_with(name, OnFailure::EndTerm, work)
    }

    /// Adds a function, with a choice of what happens to the term when it fails; see [`Elector::function_with`].
    pub fn function_with<F>(
        mut self,
        name: &str,
        on_failure: OnFailure,
        work: impl Fn(Term) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output: FunctionResult> + Send + 'static,
    {
        let work = Arc::new(work);
        let start = move |term| {
            let work = Arc::clone(&work);
            // Call it inside the task, where a panic is caught too.
            async move { work(term).await.into_result() }.boxed()
        };
        self.functions.push(Function { name: name.into(), on_failure, start: Arc::new(start) });
        self
    }

    /// Returns a handle for checking whether this process leads.
    pub fn leadership(&self) -> Leadership {
        self.elector.leadership()
    }

    /// Campaigns, and runs all functions concurrently in each term, until the shutdown token is cancelled.
    ///
    /// When a term must end, the elector first [cancels](Term::cancelled) it. A function that has not ended within the
    /// grace is dropped, and the elector lets the Lease expire instead of giving it up. A function that blocks its
    /// thread cannot be dropped; the elector campaigns again when the function has ended. A function that returns on
    /// its own does not end the term.
    ///
    /// At shutdown, these steps follow in this order:
    /// 1. All functions stop.
    /// 2. [`Leadership::is_leader`] becomes false.
    /// 3. The elector gives the Lease up.
    /// 4. This method returns.
    ///
    /// If the caller drops the future, all functions are dropped, and the elector gives the Lease up as in
    /// [`Elector::run`].
    ///
    /// # Errors
    /// Fails if the elector's task panicked or was aborted.
    pub async fn run(self) -> Result<(), CampaignError> {
        let Self { elector, functions } = self;
        let campaign = elector.start();
        let leadership = campaign.leadership();
        let mut former = None;
        while let Some(term) = leadership.next_term(former.as_ref()).await {
            RunningFunctions::start(&functions, &leadership, term.clone()).finish().await;
            former = Some(term);
        }
        campaign.ended().await
    }
}

impl<'a> RunningFunctions<'a> {
    fn start(functions: &[Function], leadership: &'a Leadership, term: Term) -> Self {
        let mut running = Self { leadership, term, tasks: JoinSet::new(), functions: HashMap::new() };
        for Function { name, on_failure, start } in functions {
            let Some(working) = running.term.begin_work() else { break };
            let (start, term) = (Arc::clone(start), running.term.clone());
            let span = tracing::info_span!("function", name = &**name, lease = leadership.lease(), token = term.token);
            // The work ends when the task is dropped.
            let task = as_work(working, async move { start(term).await });
            let id = running.tasks.spawn(task.instrument(span)).id();
            running.functions.insert(id, (Arc::clone(name), *on_failure));
        }
        running
    }

    /// Waits until all functions have ended or their grace is over. Aborts those that still run.
    async fn finish(mut self) {
        let (leadership, term) = (self.leadership, self.term.clone());
        let mut overdue = pin!(leadership.overdue(&term));
        loop {
            tokio::select! {
                biased;
                () = self.term.aborted() => break,
                () = &mut overdue => break,
                ended = self.tasks.join_next_with_id() => match ended {
                    None => return,
                    Some(Ok((id, Ok(())))) => _ = self.functions.remove(&id),
                    Some(Ok((id, Err(error)))) => self.failed(id, &*error, false),
                    Some(Err(error)) => self.failed(error.id(), &error, error.is_panic()),
                }
            }
        }
        self.tasks.abort_all();
        let clock = self.leadership.clock();
        let until = clock.now().after(ABORT_LIMIT);
        let dropped = async { while self.tasks.join_next().await.is_some() {} };
        if let Either::Right(_) = select(Box::pin(dropped), clock.sleep_until(until)).await {
            tracing::error!(lease = self.leadership.lease(), "a function blocks its thread and cannot be dropped");
        }
    }

    fn failed(&mut self, id: Id, error: &(dyn Error + 'static), has_panicked: bool) {
        let Some((function, on_failure)) = self.functions.remove(&id) else { return };
        let (lease, function) = (self.leadership.lease(), &*function);
        match on_failure {
            _ if self.term.cancellation().is_cancelled() && has_panicked => {
                tracing::error!(lease, function, error, "a function panicked after its term was cancelled");
            }
            _ if self.term.cancellation().is_cancelled() => {
                tracing::info!(lease, function, error, "a function failed after its term was cancelled");
            }
            OnFailure::KeepTerm => tracing::warn!(lease, function, error, "a function failed; the term continues"),
            OnFailure::EndTerm => {
                tracing::warn!(lease, function, error, "a function failed; the term is given up");
                self.term.resign();
            }
        }
    }
}

#[cfg(test)]
mod tests;
