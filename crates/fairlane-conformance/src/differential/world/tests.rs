//! That random steps reach every kind of answer often, and that the core stays whole on the way.

use std::collections::{BTreeMap, BTreeSet};

use fairlane_core::HashSeed;
use fairlane_core::limits::{LEASE_BYTES_MAX, LEASE_PROMOTES_MAX, VISIT_SKIPS_MAX};

use super::*;

type Tally = BTreeMap<&'static str, u64>;

fn tally(answer: &Answer, counts: &mut Tally) {
    let Answer::Reply(reply) = answer else {
        *counts.entry("token").or_default() += u64::from(*answer != Answer::Token(None));
        return;
    };
    let mut count = |what, times| *counts.entry(what).or_default() += times;
    match &**reply {
        Reply::Enqueued(reply) => reply.receipts.iter().for_each(|receipt| count(receipt_word(receipt), 1)),
        Reply::Leased(Leased::Superseded { .. }) => count("superseded", 1),
        Reply::Leased(Leased::Jobs { jobs, wake_in_us }) => {
            count("leased", jobs.len() as u64);
            let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
            count("leased as many bytes as one lease gives", u64::from(bytes >= LEASE_BYTES_MAX));
            count("leased again", jobs.iter().filter(|job| job.attempt > 1).count() as u64);
            count("leased of a bulk action", jobs.iter().filter(|job| job.bulk.is_some()).count() as u64);
            count("leased with a trace", jobs.iter().filter(|job| job.trace.is_some()).count() as u64);
            count("wake time", u64::from(wake_in_us.is_some()));
        }
        Reply::Extended(reply) => reply.extensions.iter().for_each(|extension| match extension {
            Extension::Until(_) => count("extended", 1),
            Extension::Lost => count("lost", 1),
            Extension::Cancelled(_) => count("extended but unwanted", 1),
        }),
        Reply::Settled(reply) => reply.verdicts.iter().for_each(|verdict| match verdict {
            Verdict::Applied => count("applied", 1),
            Verdict::Stale => count("stale", 1),
            Verdict::Gone => count("gone", 1),
        }),
        Reply::Promoted(reply) => count("promoted", reply.moved as u64),
        Reply::Reclaimed(reply) => {
            count("recovered", reply.recovered as u64);
            count("dead of losses", reply.dead as u64);
            count("lost and unwanted", reply.cancelled as u64);
            count("grace", u64::from(reply.grace_until.is_some()));
        }
        Reply::WholeSet(WholeSet::DisciplineInUse) => count("discipline in use", 1),
        Reply::Admitted(reply) => tally_admitted(reply, count),
        Reply::Inspected(reply) => tally_inspected(reply, count),
        Reply::Listed(reply) => count("listed", reply.jobs.len() as u64),
        Reply::Explained(reply) => count("explained", u64::from(reply.0.is_some())),
        other => tally_bulks(other, count),
    }
}

fn receipt_word(receipt: &JobReceipt) -> &'static str {
    match receipt {
        JobReceipt::Created => "created",
        JobReceipt::Exists { bulk: None } => "exists",
        JobReceipt::Exists { bulk: Some(_) } => "exists in a bulk action",
        JobReceipt::Differs { difference, .. } => match difference {
            Difference::Bulk => "another bulk action",
            Difference::Type => "another type",
            Difference::Level => "another level",
            Difference::Cost => "another cost",
            Difference::Payload => "another payload",
        },
        JobReceipt::Refused { refusal, .. } => match refusal {
            Refusal::GroupFull => "group full",
            Refusal::WholeFull => "whole full",
            Refusal::GroupBytesFull => "group full of bytes",
            Refusal::QueueBytesFull => "queue full of bytes",
            Refusal::TooManyTypes => "too many types",
            Refusal::BulkSealed => "bulk action sealed",
            Refusal::BulkUnknown => "bulk action unknown",
        },
    }
}

fn tally_admitted(reply: &Admitted, mut count: impl FnMut(&'static str, u64)) {
    for admission in &reply.admissions {
        match admission.destination {
            Destination::Ready => count("admitted", 1),
            Destination::Waiting(backoff) => {
                count(if backoff.speed == 0 { "refused, switched off" } else { backoff.level.as_str() }, 1)
            }
        }
    }
    count("ready list full", u64::from(reply.full));
    count("more to admit", u64::from(reply.more));
}

fn tally_inspected(reply: &Inspected, mut count: impl FnMut(&'static str, u64)) {
    match reply {
        Inspected::Type(Some(view)) => {
            let cut = view.rate_milli < view.settings.rate.map(Rate::milli_per_second);
            count("cut rate", u64::from(cut));
            count("closed", u64::from(view.closed_until.is_some()));
            count("ready", view.ready);
        }
        Inspected::Group(Some(view)) => view.lanes.iter().for_each(|lane| match lane.standing {
            LaneStanding::Idle => {}
            LaneStanding::Active => count("active", 1),
            LaneStanding::RateParked(_) => count("rate-parked", 1),
            LaneStanding::SeatParked => count("seat-parked", 1),
            LaneStanding::Paused => count("paused", 1),
            LaneStanding::Clearing(_) => {}
        }),
        Inspected::Job(Some(view)) => count(view.state.as_str(), 1),
        Inspected::Bulk(Some(view)) => {
            count("bulk action shown", 1);
            tally_view(view, count);
        }
        Inspected::Bulks { bulks, next } => {
            bulks.iter().for_each(|view| tally_view(view, &mut count));
            count("bulk actions on a page", bulks.len() as u64);
            count("further page of bulk actions", u64::from(next.is_some()));
        }
        Inspected::Congestion(Some(view)) => {
            count("congested", u64::from(view.backoff_ms > 0));
            count("throttles", view.throttles);
        }
        Inspected::History(snapshots) => count("snapshots", snapshots.len() as u64),
        Inspected::Groups(lines) => count("groups on a page", lines.len() as u64),
        _ => {}
    }
}

fn tally_view(view: &BulkView, mut count: impl FnMut(&'static str, u64)) {
    count(
        match view.state {
            BulkState::Created => "bulk action created",
            BulkState::Dispatched => "bulk action dispatched",
            BulkState::Running => "bulk action running",
            BulkState::Aggregating => "bulk action aggregating",
            BulkState::Completed => "bulk action completed",
            BulkState::Failed => "bulk action failed",
            BulkState::Cancelled => "bulk action cancelled",
        },
        1,
    );
    count("set aside", view.on_hold);
    count("failed by failures", u64::from(view.cause == Some(BulkCause::Failures)));
    count("failed by deadline", u64::from(view.cause == Some(BulkCause::Deadline)));
    count("failed by aggregation", u64::from(view.cause == Some(BulkCause::Aggregation)));
    count("complete without jobs", u64::from(view.state == BulkState::Aggregating && view.total == 0));
}

fn tally_bulks(reply: &Reply, mut count: impl FnMut(&'static str, u64)) {
    match reply {
        Reply::BulkOpened(BulkOpened::Created(_)) => count("opened", 1),
        Reply::BulkOpened(BulkOpened::Full { .. }) => count("no bytes for a bulk action", 1),
        Reply::BulkOpened(BulkOpened::Exists(view)) => {
            count("open already", 1);
            tally_view(view, count);
        }
        Reply::BulkSealed(BulkSealed::Sealed(view)) => {
            count("sealed", 1);
            tally_view(view, count);
        }
        Reply::BulkSealed(BulkSealed::Mismatch { .. }) => count("sealed with a wrong number", 1),
        Reply::BulkSealed(BulkSealed::Unknown) => count("sealed unknown", 1),
        Reply::BulkHeld(BulkHeld(view)) => count(if view.is_some() { "held" } else { "held unknown" }, 1),
        Reply::BulkResumed(BulkResumed(view)) => {
            count(if view.is_some() { "resumed" } else { "resumed unknown" }, 1);
        }
        Reply::BulkCancelled(BulkCancelled(view)) => {
            count(if view.is_some() { "cancelled" } else { "cancelled unknown" }, 1);
        }
        Reply::CompletedTaken(reply) => {
            let ended = reply.bulks.iter().filter(|taken| taken.view.state.is_final());
            count("taken after it had ended", ended.count() as u64);
            count("taken", reply.bulks.len() as u64);
        }
        Reply::BulkFinished(BulkFinished(verdict)) => match verdict {
            Verdict::Applied => count("finished", 1),
            Verdict::Stale => count("finished too late", 1),
            Verdict::Gone => count("finished unknown", 1),
        },
        Reply::JobsCancelled(reply) => reply.cancellations.iter().for_each(|answer| match answer {
            Cancellation::Cancelled => count("job cancelled", 1),
            Cancellation::Requested => count("job asked to stop", 1),
            Cancellation::Ended => count("job had ended", 1),
            Cancellation::Unknown => count("job to cancel unknown", 1),
        }),
        Reply::DeadRequeued(reply) => reply.jobs.iter().for_each(|answer| match answer {
            Requeued::Requeued => count("requeued", 1),
            Requeued::NotDead => count("not dead to requeue", 1),
            Requeued::Full => count("no room to requeue", 1),
            Requeued::Unknown => count("job to requeue unknown", 1),
        }),
        Reply::Discarded(reply) => reply.jobs.iter().for_each(|answer| match answer {
            Disposal::Discarded => count("discarded", 1),
            Disposal::NotDead => count("not dead to discard", 1),
            Disposal::Unknown => count("job to discard unknown", 1),
        }),
        Reply::MadeDue(reply) => {
            count("made due", reply.moved as u64);
            count("further page of waiting jobs", u64::from(reply.next.is_some()));
        }
        Reply::TypeRemoved(reply) => match reply {
            TypeRemoved::Removed => count("type removed", 1),
            TypeRemoved::Unknown => count("type to remove unknown", 1),
            TypeRemoved::HasJobs { .. } => count("type to remove has jobs", 1),
            TypeRemoved::Again => count("type to remove has lanes", 1),
        },
        Reply::Swept(reply) => {
            count("swept: dropped", reply.dropped as u64);
            count("swept: resumed", reply.resumed as u64);
            count("swept: removed", reply.removed as u64);
            count("swept: overdue", reply.overdue as u64);
            count("swept: more", u64::from(reply.more));
        }
        _ => {}
    }
}

fn whole(machine: &mut Machine) -> WholeView {
    match machine.apply(Command::Inspect(Inspect::Whole), START) {
        Reply::Inspected(Inspected::Whole(view)) => view,
        other => unreachable!("{other:?}"),
    }
}

/// Jobs that were stepped over so far: set aside, or dropped.
fn stepped_over(machine: &mut Machine) -> u64 {
    let mut jobs = 0;
    for group in GROUPS {
        let command = Inspect::Bulks { group: group_id(group), after: 0, limit: 500, unfinished: false };
        match machine.apply(Command::Inspect(command), START) {
            Reply::Inspected(Inspected::Bulks { bulks, .. }) => {
                jobs += bulks.iter().map(|bulk| bulk.on_hold + bulk.cancelled).sum::<u64>();
            }
            other => unreachable!("{other:?}"),
        }
    }
    jobs
}

/// Whether some lane has left its order until its head is cleared.
fn has_cleared_lane(machine: &mut Machine) -> bool {
    GROUPS.iter().any(|group| match machine.apply(Command::Inspect(Inspect::Group(group_id(group))), START) {
        Reply::Inspected(Inspected::Group(view)) => view.is_some_and(|view| {
            view.lanes.iter().any(|lane| matches!(lane.standing, LaneStanding::Clearing(_)))
        }),
        other => unreachable!("{other:?}"),
    })
}

#[test]
fn random_steps_reach_every_kind_of_answer_often() {
    let mut counts = Tally::new();
    let mut jobs_most = 0;
    for episode in 0..60 {
        let mut world = World::new(7, episode);
        let (mut machine, mut taken) =
            (Machine::new(Settings::default(), HashSeed::FIXED, START), BTreeSet::new());
        for _ in 0..2000 {
            let step = world.next_step();
            let waiting = whole(&mut machine).waiting;
            let leases = matches!(step.deed, Deed::Command(Command::Lease(_)));
            let before = if leases { stepped_over(&mut machine) } else { 0 };
            let releases = matches!(&step.deed, Deed::Command(Command::FinishBulk(finish))
                if matches!(finish.outcome, Aggregation::Released { .. }));
            let answer = match step.deed {
                Deed::Command(command) => {
                    command.validate().expect("only valid commands are drawn");
                    Answer::Reply(Box::new(machine.apply(command, step.at)))
                }
                Deed::TakeToken(type_id) => Answer::Token(machine.take_token(&[type_id])),
            };
            let view = whole(&mut machine);
            if waiting >= view.waiting + LEASE_PROMOTES_MAX as u64 {
                *counts.entry("as many brought back as one lease may").or_default() += 1;
            }
            if leases && stepped_over(&mut machine) >= before + VISIT_SKIPS_MAX as u64 {
                *counts.entry("as many stepped over as one visit may").or_default() += 1;
            }
            if leases && has_cleared_lane(&mut machine) {
                *counts.entry("left to sweep").or_default() += 1;
            }
            if let Answer::Reply(reply) = &answer {
                tally_hands(reply, releases, &mut taken, &mut counts);
            }
            jobs_most = jobs_most.max(view.backlog + view.in_flight + view.completed + view.failed);
            tally(&answer, &mut counts);
            world.learn(&answer);
        }
    }
    assert!(
        counts.len() == KINDS && counts.values().all(|times| *times >= 5),
        "{} {counts:#?}",
        counts.len()
    );
    assert!(jobs_most <= 240, "{jobs_most} jobs make slow dumps");
}

/// Bulk actions that are given again, and given back.
fn tally_hands(reply: &Reply, releases: bool, taken: &mut BTreeSet<Fence>, counts: &mut Tally) {
    match reply {
        Reply::CompletedTaken(reply) => {
            let again = reply.bulks.iter().filter(|bulk| !taken.insert(bulk.fence)).count();
            *counts.entry("taken again").or_default() += again as u64;
        }
        Reply::BulkFinished(BulkFinished(Verdict::Applied)) if releases => {
            *counts.entry("given back").or_default() += 1;
        }
        _ => {}
    }
}

/// Kinds of answers that are told apart above.
const KINDS: usize = 122;

#[test]
fn the_core_stays_whole_whatever_comes() {
    for episode in 0..24 {
        let mut world = World::new(77, episode);
        let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
        for number in 0..1200 {
            let step = world.next_step();
            let deed = step.deed.clone();
            let answer = match step.deed {
                Deed::Command(command) => Answer::Reply(Box::new(machine.apply(command, step.at))),
                Deed::TakeToken(type_id) => Answer::Token(machine.take_token(&[type_id])),
            };
            if let Err(fault) = machine.check() {
                panic!("episode {episode}, step {number}, after {deed:?}: {fault}");
            }
            world.learn(&answer);
        }
    }
}
