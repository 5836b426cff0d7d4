//! Short differential runs, and a test that a run notices a fault.

use fairlane_conformance::differential::{Run, run};
use fairlane_engine::redis::ScriptEdit;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

#[tokio::test]
async fn random_commands_give_the_same_in_core_and_redis() {
    let server = RedisServer::start(ServerOptions::default());
    for seed in [11, 12] {
        let outcome = run(&Run::new(server.url(), seed, 6000), |_| {}).await;
        if let Some(divergence) = outcome.divergence {
            panic!("{divergence}");
        }
        assert_eq!(outcome.steps, 6000);
    }
}

#[tokio::test]
async fn random_commands_give_the_same_in_core_and_in_scripts() {
    let server = RedisServer::start(ServerOptions::default());
    server.refuse_functions();
    let outcome = run(&Run { sent_at_once: 1, ..Run::new(server.url(), 13, 6000) }, |_| {}).await;
    if let Some(divergence) = outcome.divergence {
        panic!("{divergence}");
    }
    let stats = server.command(&["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_evalsha:") && stats.contains("cmdstat_fcall:calls=0,"), "{stats}");
}

/// A script with one line changed; the line must be there.
fn planted(stem: &str, source: &str, where_to: &str, line: &str, changed: &str) -> String {
    if stem != where_to {
        return source.to_owned();
    }
    assert!(source.contains(line), "{stem} has no line {line:?}");
    source.replacen(line, changed, 1)
}

const DEARER_JOBS: ScriptEdit =
    |stem, source| planted(stem, source, "popped_lanes", "cost * order.units", "(cost + 1) * order.units");

fn planted_run(server: &RedisServer, edit: ScriptEdit) -> Run {
    Run { edit_script: Some(edit), episode_steps: 250, ..Run::new(server.url(), 21, 10_000) }
}

#[tokio::test]
async fn a_divergence_is_shrunk_to_few_steps() {
    let server = RedisServer::start(ServerOptions::default());
    let outcome = run(&planted_run(&server, DEARER_JOBS), |_| {}).await;
    let divergence = outcome.divergence.expect("the planted change shows");
    assert!(divergence.steps.len() <= 12, "shrunk to few steps, not {divergence}");
}

#[tokio::test]
async fn a_planted_change_in_one_script_line_is_caught() {
    let edits: [ScriptEdit; 6] = [
        DEARER_JOBS,
        |stem, source| planted(stem, source, "outcome", "held.cost * 5040", "held.cost * 5041"),
        |stem, source| {
            planted(
                stem,
                source,
                "reclaim",
                "cx.partition.reclaimed_at = cx.now",
                "cx.partition.reclaimed_at = cx.now - 1",
            )
        },
        |stem, source| {
            let line = "score_tag(cx, group)\n  queue.insert_lane";
            let changed = "score_tag(cx, group) + 1\n  queue.insert_lane";
            planted(stem, source, "admit", line, changed)
        },
        |stem, source| planted(stem, source, "waiting", "known.waiting - 1", "known.waiting"),
        |stem, source| {
            planted(
                stem,
                source,
                "sweep",
                "bulk.cause, cx.overdue = 'deadline'",
                "bulk.cause, cx.overdue = 'failures'",
            )
        },
    ];
    let server = RedisServer::start(ServerOptions::default());
    for edit in edits {
        // Shrinking takes most of the time and has a test of its own.
        let outcome = run(&Run { replays_max: 0, ..planted_run(&server, edit) }, |_| {}).await;
        let divergence = outcome.divergence.expect("the planted change shows");
        println!("after {} steps: {divergence}", outcome.steps);
    }
}
