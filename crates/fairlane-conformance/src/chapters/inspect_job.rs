//! `inspect_job`: shows one job and changes nothing.

use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] =
    cases![an_unknown_job_is_none, every_state_has_its_word, a_job_shows_its_trace_in_every_state,];

async fn an_unknown_job_is_none(queue: Subject) {
    assert_eq!(queue.find_job("g", "1").await, None);
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.find_job("g", "2").await, None);
    assert_eq!(queue.find_job("h", "1").await, None);
    assert_eq!(queue.find_group("h").await, None, "inspecting creates no group");
}

/// Erratum Q14.
async fn every_state_has_its_word(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    queue.add([delayed(1000, "g", "late")]).await;
    let mut words = vec![queue.state("g", "1").await.as_str(), queue.state("g", "late").await.as_str()];
    let leased = queue.lease(3).await;
    words.push(queue.state("g", "1").await.as_str());
    queue.settle(&leased[1], succeeded()).await;
    queue.settle(&leased[2], failed()).await;
    words.push(queue.state("g", "2").await.as_str());
    words.push(queue.state("g", "3").await.as_str());
    queue.add([job("g", "unwanted")]).await;
    queue.cancel("g", &["unwanted"]).await;
    words.push(queue.state("g", "unwanted").await.as_str());
    assert_eq!(words, ["pending", "waiting", "in_flight", "completed", "dead", "cancelled"]);
}

async fn a_job_shows_its_trace_in_every_state(queue: Subject) {
    let trace = trace("4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    queue.add(jobs("g", 4).into_iter().map(|new| NewJob { trace: Some(trace.clone()), ..new })).await;
    let leased = queue.lease(3).await;
    queue.settle(&leased[0], succeeded()).await;
    queue.settle(&leased[1], failed()).await;
    assert_eq!(queue.cancel("g", &["4"]).await, [Cancellation::Cancelled]);
    for (id, state) in ["completed", "dead", "in_flight", "cancelled"].into_iter().enumerate() {
        let view = queue.job("g", &(id + 1).to_string()).await;
        assert_eq!((view.state.as_str(), view.trace.as_ref()), (state, Some(&trace)));
        assert_eq!(&*view.payload, b"{}");
    }
}
