//! The lines of a campaign over the store in memory, in virtual time.

use std::time::Duration;

use hustings_client::ElectorBuilder;
use hustings_client::testing::MemoryStore;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;

/// A campaign of `a` for the Lease `n/l`.
struct Run {
    printed: mpsc::UnboundedReceiver<String>,
    shutdown: CancellationToken,
    leadership: Leadership,
    task: JoinHandle<anyhow::Result<()>>,
}

fn printer(elector: &Elector, output: Output) -> (LinePrinter, mpsc::UnboundedReceiver<String>) {
    let (sender, printed) = mpsc::unbounded_channel();
    let write = Arc::new(move |line: &str| sender.send(line.to_owned()).unwrap());
    let (leadership, shutdown) = (elector.leadership(), CancellationToken::new());
    (LinePrinter { write, output, leadership, shutdown, announced: Arc::default() }, printed)
}

fn run(store: &MemoryStore, output: Output, build: impl FnOnce(ElectorBuilder) -> Elector) -> Run {
    let shutdown = CancellationToken::new();
    let elector = build(Elector::in_memory(store, "n", "l").identity("a").shutdown(&shutdown));
    let leadership = elector.leadership();
    let (unstoppable, lines) = printer(&elector, output);
    let printer = LinePrinter { shutdown: shutdown.clone(), ..unstoppable };
    let task = tokio::spawn(async move { stand(elector, &printer).await });
    Run { printed: lines, shutdown, leadership, task }
}

fn direct(builder: ElectorBuilder) -> Elector {
    builder.direct().build().unwrap()
}

/// The lines so far, without their times.
fn lines(printed: &mut mpsc::UnboundedReceiver<String>) -> Vec<String> {
    let lines = std::iter::from_fn(|| printed.try_recv().ok());
    lines.map(|line| line.strip_suffix('\n').unwrap().split_once("Z  ").unwrap().1.to_owned()).collect()
}

/// Time for the electors to observe and to write.
async fn settle() {
    sleep(Duration::from_secs(20)).await;
}

#[tokio::test(start_paused = true)]
async fn each_holder_and_the_own_term_are_printed() {
    let store = MemoryStore::new();
    let other = direct(Elector::in_memory(&store, "n", "l").identity("b")).start();
    other.leadership().wait_until_leader().await.unwrap();
    let mut run = run(&store, Output::Text, direct);
    settle().await;
    assert_eq!(lines(&mut run.printed), ["b holds the Lease"]);
    store.edit_lease("n", "l", |lease| lease.hold = Some("a test".to_owned()));
    other.stop().await.unwrap();
    settle().await;
    assert_eq!(lines(&mut run.printed), ["the Lease has no holder"]);
    store.edit_lease("n", "l", |lease| lease.hold = None);
    settle().await;
    let token = store.lease("n", "l").unwrap().token.unwrap();
    assert_eq!(lines(&mut run.printed), [format!("a leads, term 2, token {token}"), "a holds the Lease".to_owned()]);
    run.shutdown.cancel();
    run.task.await.unwrap().unwrap();
    assert_eq!(lines(&mut run.printed), ["a no longer leads: stopping", "a has stopped"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_term_is_printed_once_with_its_cause() {
    for (is_lost, expected) in
        [(false, "a no longer leads: handing over"), (true, "a no longer leads: the term has ended")]
    {
        let store = MemoryStore::new();
        let mut run = run(&store, Output::Text, direct);
        let term = run.leadership.wait_until_leader().await.unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(lines(&mut run.printed), ["a leads, term 1, token 1", "a holds the Lease"]);
        if is_lost {
            store.edit_lease("n", "l", |lease| lease.holder = Some("c".to_owned()));
        } else {
            term.resign();
        }
        settle().await;
        let printed = lines(&mut run.printed);
        assert_eq!(
            (printed[0].as_str(), printed.iter().filter(|line| line.contains("no longer")).count()),
            (expected, 1)
        );
        assert!(!is_lost || printed.contains(&"c holds the Lease".to_owned()), "{printed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_another_lease_owns_is_printed_as_a_failure() {
    let store = MemoryStore::new();
    let builder = Elector::in_memory(&store, "n", "other").identity("a").binary_version("1.2.0");
    let first = builder.build().unwrap().start();
    sleep(Duration::from_secs(1)).await;
    let mut run = run(&store, Output::Text, |builder| builder.binary_version("1.2.0").fallback(false).build().unwrap());
    settle().await;
    let hint = "give each elector an identity of its own (--identity)";
    let expected = format!("a has failed: LeaseCandidate a stands for Lease other and not for n/l: {hint}");
    assert_eq!(lines(&mut run.printed), [expected.as_str()]);
    // Another change does not repeat it.
    let holder = direct(Elector::in_memory(&store, "n", "l").identity("b")).start();
    settle().await;
    assert_eq!(lines(&mut run.printed), ["b holds the Lease"]);
    holder.stop().await.unwrap();
    settle().await;
    assert_eq!(lines(&mut run.printed), ["the Lease has no holder"]);
    // It is printed anew when it stands anew.
    first.stop().await.unwrap();
    settle().await;
    assert_eq!(lines(&mut run.printed), [""; 0]);
    store.edit_candidate("n", "a", |candidate| candidate.lease_name = "other".to_owned());
    settle().await;
    assert_eq!(lines(&mut run.printed), [expected.as_str()]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_term_is_printed_before_what_was_observed_since() {
    let store = MemoryStore::new();
    let elector = direct(Elector::in_memory(&store, "n", "l").identity("a"));
    let (described, mut printed) = printer(&elector, Output::Text);
    let campaign = elector.start();
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    // The task that waits for the end of the term has not run since then.
    *described.announced.lock().unwrap() = Some(term.clone());
    store.edit_lease("n", "l", |lease| lease.holder = Some("c".to_owned()));
    term.cancelled().await;
    let observing = tokio::time::timeout(Duration::from_secs(1), described.observe());
    assert!(observing.await.is_err(), "it goes on");
    assert_eq!(lines(&mut printed), ["a no longer leads: the term has ended", "c holds the Lease"]);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_already_over_is_not_printed() {
    let elector = direct(Elector::in_memory(&MemoryStore::new(), "n", "l").identity("a"));
    let (described, mut printed) = printer(&elector, Output::Text);
    let campaign = elector.start();
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    campaign.abort();
    campaign.leadership().ended().await;
    described.lead(term).await;
    assert_eq!(lines(&mut printed), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_line_of_json_has_every_field() {
    let mut run = run(&MemoryStore::new(), Output::Json, direct);
    settle().await;
    let line = run.printed.recv().await.unwrap();
    assert!(line.ends_with("}\n"), "{line}");
    let mut line: Value = serde_json::from_str(&line).unwrap();
    let time = line["time"].take();
    assert_eq!(time.as_str().unwrap().len(), "2026-01-02T03:04:05.000000Z".len(), "{time}");
    let expected = json!({ "time": null, "event": "leading", "identity": "a", "holder": "a", "term": 1, "token": 1,
        "message": "" });
    assert_eq!(line, expected);
}

#[test]
fn each_event_has_a_text_of_its_own() {
    let text = |event, holder: Option<&str>, token: Option<u64>, message| {
        let holder = holder.map(str::to_owned);
        let line =
            Line { time: "TIME".to_owned(), event, identity: "a", holder, term: token.map(|_| 3), token, message };
        line.text("n/l")
    };
    assert_eq!(text(LineKind::Started, None, None, ""), "TIME  a stands for Lease n/l");
    assert_eq!(text(LineKind::Leading, Some("a"), Some(7), ""), "TIME  a leads, term 3, token 7");
    assert_eq!(text(LineKind::Leading, Some("a"), None, ""), "TIME  a leads");
    assert_eq!(text(LineKind::Stopped, Some("a"), Some(7), "why"), "TIME  a no longer leads: why");
    assert_eq!(text(LineKind::Observed, Some("b"), None, ""), "TIME  b holds the Lease");
    assert_eq!(text(LineKind::Observed, None, None, "no holder"), "TIME  no holder");
    assert_eq!(text(LineKind::Exiting, None, None, ""), "TIME  a has stopped");
    assert_eq!(text(LineKind::Error, None, None, "why"), "TIME  a has failed: why");
}
