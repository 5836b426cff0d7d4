//! `list_jobs`: pages of jobs, in the order of the list they are in.

use std::collections::BTreeMap;

use fairlane_core::limits::{LIST_BYTES_MAX, LIST_JOBS_MAX, LIST_STEP_JOBS, LIST_STRIDE, PAYLOAD_BYTES_MAX};
use fairlane_core::queue::*;
use fairlane_core::{Level, TypeId};

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    where_nothing_is_nothing_is_listed,
    a_groups_pending_jobs_come_lane_by_lane,
    what_came_back_to_a_lane_comes_before_its_backlog,
    waiting_jobs_come_by_the_time_they_are_due,
    ready_jobs_come_by_type_in_the_order_they_were_admitted,
    leased_jobs_come_by_the_end_of_their_leases,
    an_extended_job_is_listed_under_its_new_end_only,
    dead_jobs_come_oldest_first_with_their_reasons,
    finished_jobs_come_oldest_first,
    jobs_of_a_bulk_action_come_in_the_order_they_ended,
    a_dead_job_that_runs_again_has_left_its_bulk_action,
    jobs_set_aside_are_listed_with_their_bulk_action,
    pages_follow_one_another_without_gap_or_repetition,
    a_page_ends_within_a_chunk_and_goes_on_there,
    a_filter_drops_what_it_does_not_name_and_the_page_says_where_to_go_on,
    a_type_filter_skips_the_lanes_of_other_types,
    a_page_with_large_payloads_ends_early,
    a_page_ends_after_as_many_entries_as_one_call_reads,
    a_listed_job_shows_what_its_inspection_shows,
    every_job_is_in_exactly_one_listing,
    listing_changes_nothing,
    a_page_of_none_or_too_many_is_refused,
];

fn page(listing: Listing, cursor: u64, limit: usize) -> ListJobs {
    ListJobs { listing, group: None, type_id: None, cursor, limit }
}

async fn listed(queue: &Subject, command: ListJobs) -> Listed {
    queue.engine.call(command).await.expect("list_jobs is answered")
}

/// All pages of `limit` jobs.
async fn all_pages(queue: &Subject, listing: Listing, limit: usize) -> Vec<JobLine> {
    let (mut jobs, mut cursor) = (Vec::new(), Some(0));
    while let Some(from) = cursor {
        let page = listed(queue, page(listing.clone(), from, limit)).await;
        assert!(page.jobs.len() <= limit && page.next.is_none_or(|next| next > from));
        jobs.extend(page.jobs);
        cursor = page.next;
    }
    jobs
}

async fn names_in(queue: &Subject, listing: Listing) -> Vec<String> {
    line_names(&all_pages(queue, listing, 100).await)
}

fn line_names(lines: &[JobLine]) -> Vec<String> {
    lines.iter().map(|line| format!("{}/{}", line.job.group, line.job.id)).collect()
}

fn pending(group: &str) -> Listing {
    Listing::Pending(group_id(group))
}

fn of_bulk(group: &str, id: &str) -> Listing {
    Listing::OfBulk(bulk_ref(group, id))
}

async fn where_nothing_is_nothing_is_listed(queue: Subject) {
    let everywhere = [
        pending("g"),
        Listing::Ready,
        Listing::Waiting,
        Listing::InFlight,
        Listing::Dead,
        Listing::Finished,
        of_bulk("g", "b"),
        Listing::OnHold(bulk_ref("g", "b")),
    ];
    let empty = Listed { jobs: vec![], next: None };
    for listing in everywhere.clone() {
        assert_eq!(listed(&queue, page(listing, 0, 10)).await, empty);
    }
    queue.add([job("g", "1")]).await;
    for listing in everywhere {
        assert_eq!(listed(&queue, page(listing, 5000, 10)).await, empty, "beyond the end");
    }
}

async fn a_groups_pending_jobs_come_lane_by_lane(queue: Subject) {
    queue.add([job_of("b", "g", "1"), job_of("a", "g", "2"), job_of("a", "g", "3"), job("h", "1")]).await;
    queue.add([NewJob { level: Level::High, ..job_of("b", "g", "4") }, delayed(100, "g", "5")]).await;
    assert_eq!(names_in(&queue, pending("g")).await, ["g/4", "g/2", "g/3", "g/1"]);
    assert_eq!(names_in(&queue, pending("h")).await, ["h/1"]);
}

async fn what_came_back_to_a_lane_comes_before_its_backlog(queue: Subject) {
    queue.add(jobs("g", 4)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[1], retry(0)).await;
    queue.promote(10).await;
    queue.settle(&leased[0], Outcome::Released).await;
    assert_eq!(names_in(&queue, pending("g")).await, ["g/1", "g/2", "g/3", "g/4"]);
    for limit in 1..4 {
        assert_eq!(line_names(&all_pages(&queue, pending("g"), limit).await).len(), 4);
    }
}

async fn waiting_jobs_come_by_the_time_they_are_due(queue: Subject) {
    queue.add([delayed(3000, "g", "late"), delayed(1000, "h", "soon"), delayed(2000, "g", "then")]).await;
    let lines = all_pages(&queue, Listing::Waiting, 2).await;
    assert_eq!(line_names(&lines), ["h/soon", "g/then", "g/late"]);
    assert_eq!(lines[0].until, Some(START.plus_ms(1000)));
    assert!(lines.iter().all(|line| line.state == JobState::Waiting));
}

async fn ready_jobs_come_by_type_in_the_order_they_were_admitted(queue: Subject) {
    queue.classic(100).await;
    queue.add([job_of("b", "g", "1"), job_of("a", "g", "2"), job_of("b", "h", "3")]).await;
    assert_eq!(queue.admit(10).await.admissions.len(), 3);
    let lines = all_pages(&queue, Listing::Ready, 1).await;
    assert_eq!(line_names(&lines)[0], "g/2", "types by name");
    assert!(lines.len() == 3 && lines.iter().all(|line| line.state == JobState::Ready));
    let of_b = ListJobs { type_id: Some(type_id("b")), ..page(Listing::Ready, 0, 10) };
    let expected = line_names(&lines)[1..].to_vec();
    assert_eq!(line_names(&listed(&queue, of_b).await.jobs), expected);
}

async fn leased_jobs_come_by_the_end_of_their_leases(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let first = queue.lease(2).await;
    queue.leased(Lease { lease_ms: 1000, ..queue.next_request("other", 1) }).await;
    let lines = all_pages(&queue, Listing::InFlight, 1).await;
    assert_eq!(line_names(&lines), ["g/3", "g/1", "g/2"]);
    assert_eq!(lines[0].until, Some(START.plus_ms(1000)));
    assert_eq!(lines[1].fence, Some(first[0].fence));
    queue.succeed(&first[..1]).await;
    assert_eq!(names_in(&queue, Listing::InFlight).await, ["g/3", "g/2"], "what has ended is gone");
}

async fn an_extended_job_is_listed_under_its_new_end_only(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(3).await;
    queue.advance_ms(1000);
    queue.extend(&leased[0], LEASE_MS).await;
    let lines = all_pages(&queue, Listing::InFlight, 2).await;
    assert_eq!(line_names(&lines), ["g/2", "g/3", "g/1"]);
    assert_eq!(lines[2].until, Some(START.plus_ms(1000 + LEASE_MS)));
}

async fn dead_jobs_come_oldest_first_with_their_reasons(queue: Subject) {
    for id in ["c", "a", "b"] {
        queue.add_dead(job("g", id)).await;
        queue.advance_ms(10);
    }
    let lines = all_pages(&queue, Listing::Dead, 2).await;
    assert_eq!(line_names(&lines), ["g/c", "g/a", "g/b"]);
    assert!(lines.iter().all(|line| line.state == JobState::Failed && *line.note == *b"broken"));
}

async fn finished_jobs_come_oldest_first(queue: Subject) {
    queue.add(jobs("g", 4)).await;
    let leased = queue.lease(3).await;
    queue.succeed(&leased[2..]).await;
    queue.advance_ms(5);
    queue.succeed(&leased[..2]).await;
    queue.add([delayed(1000, "g", "never")]).await;
    queue.cancel("g", &["never"]).await;
    let lines = all_pages(&queue, Listing::Finished, 100).await;
    assert_eq!(line_names(&lines), ["g/3", "g/1", "g/2", "g/never"]);
    assert_eq!((lines[0].state, lines[3].state), (JobState::Completed, JobState::Cancelled));
}

async fn jobs_of_a_bulk_action_come_in_the_order_they_ended(queue: Subject) {
    queue.open_with_jobs("g", "b", 4).await;
    queue.add([job("g", "other")]).await;
    let leased = queue.lease(4).await;
    queue.settle(&leased[1], failed()).await;
    queue.succeed(&[leased[3].clone(), leased[0].clone()]).await;
    let lines = all_pages(&queue, of_bulk("g", "b"), 2).await;
    assert_eq!(line_names(&lines), ["g/b2", "g/b4", "g/b1"]);
    assert!(lines.iter().all(|line| line.bulk == Some(bulk_id("b"))));
    assert_eq!(names_in(&queue, Listing::Finished).await, Vec::<String>::new(), "they stay with it");
}

async fn a_dead_job_that_runs_again_has_left_its_bulk_action(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    for leased in queue.lease(2).await {
        queue.settle(&leased, failed()).await;
    }
    queue.requeue("g", &["b1"]).await;
    assert_eq!(names_in(&queue, of_bulk("g", "b")).await, ["g/b2"]);
    queue.discard("g", &["b2"]).await;
    let command = page(of_bulk("g", "b"), 0, 1);
    let first = listed(&queue, command.clone()).await;
    assert_eq!((first.jobs.len(), first.next.is_some()), (0, true), "they still count as examined");
    assert_eq!(names_in(&queue, of_bulk("g", "b")).await, Vec::<String>::new());
}

async fn jobs_set_aside_are_listed_with_their_bulk_action(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    assert_eq!(queue.lease(10).await, []);
    let lines = all_pages(&queue, Listing::OnHold(bulk_ref("g", "b")), 2).await;
    assert_eq!(line_names(&lines), ["g/b1", "g/b2", "g/b3"]);
    assert_eq!(names_in(&queue, pending("g")).await, Vec::<String>::new());
}

async fn pages_follow_one_another_without_gap_or_repetition(queue: Subject) {
    queue.add(jobs("g", 30)).await;
    let leased = queue.lease(25).await;
    for ended in leased.chunks(4) {
        queue.succeed(&ended[..1]).await;
    }
    for listing in [pending("g"), Listing::InFlight, Listing::Finished] {
        let at_once = all_pages(&queue, listing.clone(), 100).await;
        for limit in [1, 2, 3, 7] {
            assert_eq!(all_pages(&queue, listing.clone(), limit).await, at_once, "pages of {limit}");
        }
    }
}

async fn a_page_ends_within_a_chunk_and_goes_on_there(queue: Subject) {
    queue.add(jobs("g", 10)).await;
    let settlements = queue.lease(10).await.into_iter().map(|leased| Settlement {
        job: leased.job,
        fence: leased.fence,
        outcome: succeeded(),
    });
    queue.settle_all(settlements.collect()).await;
    let first = listed(&queue, page(Listing::Finished, 0, 4)).await;
    assert_eq!((first.jobs.len(), first.next), (4, Some(4)));
    let last = listed(&queue, page(Listing::Finished, 4, 6)).await;
    assert_eq!((line_names(&last.jobs)[0].as_str(), last.jobs.len(), last.next), ("g/5", 6, None));
    queue.add([job("h", "1")]).await;
    queue.succeed(&queue.lease(1).await).await;
    let whole_chunk = listed(&queue, page(Listing::Finished, 4, 6)).await;
    assert_eq!(whole_chunk.next, Some(LIST_STRIDE), "the next chunk");
}

async fn a_filter_drops_what_it_does_not_name_and_the_page_says_where_to_go_on(queue: Subject) {
    queue.add([delayed(1000, "g", "1"), delayed(2000, "g", "2"), delayed(3000, "h", "3")]).await;
    let of_h = |cursor| ListJobs { group: Some(group_id("h")), ..page(Listing::Waiting, cursor, 2) };
    let first = listed(&queue, of_h(0)).await;
    assert_eq!((line_names(&first.jobs).len(), first.next), (0, Some(2)));
    let second = listed(&queue, of_h(2)).await;
    assert_eq!((line_names(&second.jobs), second.next), (vec!["h/3".to_owned()], None));
    let of_type = |name: TypeId| ListJobs { type_id: Some(name), ..page(Listing::Waiting, 0, 10) };
    assert_eq!(listed(&queue, of_type(type_id("t"))).await.jobs.len(), 3);
    assert_eq!(listed(&queue, of_type(type_id("u"))).await.jobs, []);
}

async fn a_type_filter_skips_the_lanes_of_other_types(queue: Subject) {
    queue.add((0..20).map(|number| job_of("a", "g", &format!("a{number}")))).await;
    queue.add([job_of("b", "g", "b")]).await;
    let of_b = ListJobs { type_id: Some(type_id("b")), ..page(pending("g"), 0, 1) };
    let found = listed(&queue, of_b).await;
    assert_eq!((line_names(&found.jobs), found.next), (vec!["g/b".to_owned()], None));
}

async fn a_page_with_large_payloads_ends_early(queue: Subject) {
    let large = |number: usize| NewJob {
        payload: vec![b'x'; PAYLOAD_BYTES_MAX].into(),
        ..job("g", &number.to_string())
    };
    queue.add((0..5).map(large)).await;
    let first = listed(&queue, page(pending("g"), 0, 100)).await;
    let most = LIST_BYTES_MAX / PAYLOAD_BYTES_MAX;
    assert_eq!((first.jobs.len(), first.next), (most, Some(most as u64)));
    assert_eq!(all_pages(&queue, pending("g"), 100).await.len(), 5);
}

async fn a_listed_job_shows_what_its_inspection_shows(queue: Subject) {
    queue.open("g", "b").await;
    queue.add([in_bulk("b", NewJob { cost: cost(3), ..job_at(Level::Low, "g", "1") })]).await;
    let traced = |new: NewJob| NewJob { trace: trace_of(&new.job), ..new };
    queue.add([job("g", "2"), job("g", "3"), delayed(500, "g", "4")].map(traced)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], retry(700)).await;
    for listing in [pending("g"), Listing::Waiting, Listing::InFlight] {
        for line in all_pages(&queue, listing, 10).await {
            let view = queue.find_job("g", &line.job.id.to_string()).await.expect("it was listed");
            assert_eq!(line, JobLine::from(view));
        }
    }
}

async fn every_job_is_in_exactly_one_listing(queue: Subject) {
    let groups = ["g", "h"];
    for group in groups {
        queue.open_with_jobs(group, "b", 6).await;
        queue.add(jobs(group, 12)).await;
        queue.add([delayed(60_000, group, "late")]).await;
    }
    let outcomes = [succeeded(), failed(), retry(5000), throttled(5000, 0), Outcome::Released];
    let leased = queue.lease(20).await;
    for (leased, outcome) in leased.iter().zip(outcomes.iter().cycle()).take(15) {
        queue.settle(leased, outcome.clone()).await;
    }
    queue.extend(&leased[16], LEASE_MS).await;
    queue.hold("h", "b").await;
    queue.cancel("g", &["12", "late"]).await;
    let mut listings: Vec<Listing> =
        vec![Listing::Waiting, Listing::InFlight, Listing::Dead, Listing::Finished];
    for group in groups {
        listings.extend([pending(group), of_bulk(group, "b"), Listing::OnHold(bulk_ref(group, "b"))]);
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for listing in listings {
        // A dead job of a bulk action is among the dead, too.
        let of_bulk = matches!(listing, Listing::OfBulk(_));
        let mut lines = all_pages(&queue, listing, 3).await;
        lines.retain(|line| !of_bulk || line.state != JobState::Failed);
        for name in line_names(&lines) {
            *seen.entry(name).or_default() += 1;
        }
    }
    assert!(seen.len() == 38 && seen.values().all(|times| *times == 1), "{seen:?}");
}

async fn a_page_ends_after_as_many_entries_as_one_call_reads(queue: Subject) {
    queue.add(jobs("g", LIST_STEP_JOBS + 1)).await;
    let first = listed(&queue, page(pending("g"), 0, LIST_JOBS_MAX)).await;
    assert_eq!((first.jobs.len(), first.next), (LIST_STEP_JOBS, Some(LIST_STEP_JOBS as u64)));
    assert_eq!(all_pages(&queue, pending("g"), LIST_JOBS_MAX).await.len(), LIST_STEP_JOBS + 1);
}

async fn listing_changes_nothing(queue: Subject) {
    queue.add(jobs("g", 5)).await;
    queue.lease(2).await;
    queue.drain_wakes().await;
    let before = (queue.queue_view().await, queue.group("g").await, queue.type_view("t").await);
    for listing in [pending("g"), Listing::InFlight, Listing::Waiting] {
        assert_eq!(names_in(&queue, listing.clone()).await, names_in(&queue, listing).await);
    }
    assert_eq!((queue.queue_view().await, queue.group("g").await, queue.type_view("t").await), before);
    assert!(queue.is_silent().await);
}

async fn a_page_of_none_or_too_many_is_refused(queue: Subject) {
    for limit in [0, LIST_JOBS_MAX + 1] {
        let refused = queue.engine.call(page(Listing::Dead, 0, limit)).await;
        assert!(refused.is_err_and(|error| !error.is_retryable()));
    }
    assert_eq!(listed(&queue, page(Listing::Dead, 0, LIST_JOBS_MAX)).await.jobs, []);
}
