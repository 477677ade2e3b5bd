//! The lines of a campaign over the store in memory, in virtual time.

use std::time::Duration;

use hustings_client::ElectorBuilder;
use hustings_client::testing::MemoryStore;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::lines::Line;
use super::*;

/// A campaign of `a` for the Lease `n/l`.
struct Run {
    printed: mpsc::UnboundedReceiver<String>,
    shutdown: CancellationToken,
    leadership: Leadership,
    task: JoinHandle<anyhow::Result<()>>,
}

/// A printer that writes at once, its builder of lines, and the lines.
fn printer(
    elector: &Elector,
    output: Output,
    shutdown: &CancellationToken,
) -> (LinePrinter, LineBuilder, mpsc::UnboundedReceiver<String>) {
    let (sender, printed) = mpsc::unbounded_channel();
    let (leadership, shutdown) = (elector.leadership(), shutdown.clone());
    let builder = LineBuilder { output, leadership: leadership.clone(), shutdown, announced: Arc::default() };
    let lines = builder.clone();
    let write = Arc::new(move |(report, written): Job| {
        for line in lines.lines(report).split_inclusive('\n') {
            sender.send(line.to_owned()).unwrap();
        }
        // The printer may have given up.
        let _ = written.send(());
    });
    (LinePrinter { write, leadership }, builder, printed)
}

fn run(builder: ElectorBuilder, output: Output) -> Run {
    let shutdown = CancellationToken::new();
    let elector = builder.shutdown(&shutdown).build().unwrap();
    let leadership = elector.leadership();
    let (printer, _, lines) = printer(&elector, output, &shutdown);
    let task = tokio::spawn(async move { stand(elector, &printer).await });
    Run { printed: lines, shutdown, leadership, task }
}

fn direct(store: &MemoryStore, identity: &str) -> ElectorBuilder {
    Elector::direct(store, "n", "l").identity(identity)
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
    let other = direct(&store, "b").build().unwrap().start();
    other.leadership().wait_until_leader().await.unwrap();
    let mut run = run(direct(&store, "a"), Output::Text);
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
        let mut run = run(direct(&store, "a"), Output::Text);
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
    let builder = Elector::coordinated(&store, "n", "other", "1.2.0").identity("a");
    let first = builder.build().unwrap().start();
    sleep(Duration::from_secs(1)).await;
    let builder = Elector::coordinated(&store, "n", "l", "1.2.0").identity("a").fallback(false);
    let mut run = run(builder, Output::Text);
    settle().await;
    let hint = "give each elector an identity of its own (--identity)";
    let expected = format!("a has failed: LeaseCandidate a stands for Lease other and not for n/l: {hint}");
    assert_eq!(lines(&mut run.printed), [expected.as_str()]);
    // Another change does not repeat it.
    let holder = direct(&store, "b").build().unwrap().start();
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
    let elector = direct(&store, "a").build().unwrap();
    let (described, builder, mut printed) = printer(&elector, Output::Text, &CancellationToken::new());
    let campaign = elector.start();
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    // The task that waits for the end of the term has not run since then.
    *builder.announced.lock().unwrap() = Some(term.clone());
    store.edit_lease("n", "l", |lease| lease.holder = Some("c".to_owned()));
    term.cancelled().await;
    let observing = tokio::time::timeout(Duration::from_secs(1), described.observe());
    assert!(observing.await.is_err(), "it goes on");
    assert_eq!(lines(&mut printed), ["a no longer leads: the term has ended", "c holds the Lease"]);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_already_over_is_not_printed() {
    let elector = direct(&MemoryStore::new(), "a").build().unwrap();
    let (described, _, mut printed) = printer(&elector, Output::Text, &CancellationToken::new());
    let campaign = elector.start();
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    campaign.abort();
    campaign.leadership().ended().await;
    described.lead(term).await;
    assert_eq!(lines(&mut printed), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_line_of_json_has_every_field() {
    let mut run = run(direct(&MemoryStore::new(), "a"), Output::Json);
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

#[tokio::test(start_paused = true)]
async fn lines_that_wait_for_their_reader_are_true_when_it_reads_them() {
    let elector = direct(&MemoryStore::new(), "a").build().unwrap();
    let (_, builder, _) = printer(&elector, Output::Text, &CancellationToken::new());
    let campaign = elector.start();
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    let text = |report| builder.lines(report).lines().map(|line| line[29..].to_owned()).collect::<Vec<_>>();
    assert_eq!(text(CampaignReport::End), [""; 0]);
    assert_eq!(text(CampaignReport::Leading(term.clone())), ["a leads, term 1, token 1"]);
    campaign.abort();
    campaign.leadership().ended().await;
    let exiting = CampaignReport::Event(LineKind::Exiting, String::new());
    assert_eq!(text(exiting), ["a no longer leads: the term has ended", "a has stopped"]);
    assert_eq!(text(CampaignReport::Leading(term)), [""; 0], "it is over");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_whose_reader_reads_nothing_ends_within_a_bound() {
    let shutdown = CancellationToken::new();
    let elector = direct(&MemoryStore::new(), "a").shutdown(&shutdown).build().unwrap();
    let leadership = elector.leadership();
    let (stuck, never_written) = std::sync::mpsc::channel();
    let write = Arc::new(move |job: Job| stuck.send(job).unwrap());
    let printer = LinePrinter { write, leadership: leadership.clone() };
    let task = tokio::spawn(async move { stand(elector, &printer).await });
    leadership.wait_until_leader().await.unwrap();
    shutdown.cancel();
    let ended = timeout(Duration::from_mins(1), task).await.expect("it ends").unwrap();
    assert!(ended.unwrap_err().to_string().contains("nobody read the last lines"));
    drop(never_written);
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
