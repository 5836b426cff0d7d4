//! Tests that random steps reach every kind of reply often, and that the core keeps its invariants
//! meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use fairlane_core::limits::{LEASE_BYTES_MAX, LEASE_PROMOTES_MAX, LOCK_STEP_WAITERS_MAX, VISIT_SKIPS_MAX};
use fairlane_core::{HashSeed, Machines, Rate, lock, room};

use super::*;
use crate::differential::{apply_step, apply_to_all};

type Tally = BTreeMap<&'static str, u64>;

fn tally(response: &Response, counts: &mut Tally) {
    let Response::Reply(reply) = response else {
        *counts.entry("token").or_default() += u64::from(*response != Response::Token(None));
        return;
    };
    let mut count = |what, times| *counts.entry(what).or_default() += times;
    match &**reply {
        Reply::Enqueue(reply) => reply.receipts.iter().for_each(|receipt| count(receipt_name(receipt), 1)),
        Reply::Lease(Leased::Superseded { .. }) => count("superseded", 1),
        Reply::Lease(Leased::Jobs { jobs, wake_in_us }) => {
            count("leased", jobs.len() as u64);
            let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
            count("leased as many bytes as one lease gives", u64::from(bytes >= LEASE_BYTES_MAX));
            count("leased again", jobs.iter().filter(|job| job.attempt > 1).count() as u64);
            count("leased of a bulk action", jobs.iter().filter(|job| job.bulk.is_some()).count() as u64);
            count("leased with a trace", jobs.iter().filter(|job| job.trace.is_some()).count() as u64);
            count("wake time", u64::from(wake_in_us.is_some()));
        }
        Reply::Extend(reply) => reply.extensions.iter().for_each(|extension| match extension {
            Extension::Until(_) => count("extended", 1),
            Extension::Lost => count("lost", 1),
            Extension::Cancelled(_) => count("extended but unwanted", 1),
        }),
        Reply::Settle(reply) => reply.verdicts.iter().for_each(|verdict| match verdict {
            Verdict::Applied => count("applied", 1),
            Verdict::Stale => count("stale", 1),
            Verdict::Gone => count("gone", 1),
        }),
        Reply::Promote(reply) => count("promoted", reply.moved as u64),
        Reply::Reclaim(reply) => {
            count("recovered", reply.recovered as u64);
            count("dead of losses", reply.dead as u64);
            count("lost and unwanted", reply.cancelled as u64);
            count("grace", u64::from(reply.grace_us.is_some()));
        }
        Reply::SetQueue(QueueSet::DisciplineInUse) => count("discipline in use", 1),
        Reply::Admit(reply) => tally_admitted(reply, count),
        other => tally_reads(other, count),
    }
}

fn receipt_name(receipt: &JobReceipt) -> &'static str {
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
            Refusal::QueueFull => "queue full",
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

fn tally_reads(reply: &Reply, mut count: impl FnMut(&'static str, u64)) {
    match reply {
        Reply::InspectType(Some(view)) => {
            let cut = view.rate_milli < view.settings.rate.map(Rate::milli_per_second);
            count("cut rate", u64::from(cut));
            count("closed", u64::from(view.closed_until.is_some()));
            count("ready", view.ready);
        }
        Reply::InspectGroup(Some(view)) => view.lanes.iter().for_each(|lane| match lane.standing {
            LaneStanding::Idle => {}
            LaneStanding::Active => count("active", 1),
            LaneStanding::RateParked(_) => count("rate-parked", 1),
            LaneStanding::SeatParked => count("seat-parked", 1),
            LaneStanding::Paused => count("paused", 1),
            LaneStanding::Clearing(_) => {}
        }),
        Reply::InspectJob(Some(view)) => {
            let kind = match view.state {
                JobState::Pending => "a pending job",
                JobState::Ready => "a ready job",
                JobState::Waiting => "a waiting job",
                JobState::Processing => "a job in flight",
                JobState::Completed => "a completed job",
                JobState::Failed => "a dead job",
                JobState::Cancelled => "a cancelled job",
            };
            count(kind, 1);
        }
        Reply::InspectBulk(Some(view)) => {
            count("bulk action shown", 1);
            tally_view(view, count);
        }
        Reply::ListBulks(BulkPage { bulks, next }) => {
            bulks.iter().for_each(|view| tally_view(view, &mut count));
            count("bulk actions on a page", bulks.len() as u64);
            count("further page of bulk actions", u64::from(next.is_some()));
        }
        Reply::InspectCongestion(Some(view)) => {
            count("congested", u64::from(view.backoff_ms > 0));
            count("throttles", view.throttles);
        }
        Reply::ListSnapshots(snapshots) => count("snapshots", snapshots.len() as u64),
        Reply::ListGroups(lines) => count("groups on a page", lines.len() as u64),
        Reply::ListLargestGroups(page) => {
            count("groups on a page of the largest", page.groups.len() as u64);
            let has_large = page.groups.first().is_some_and(|line| line.backlog >= 8);
            count("a large group on a page", u64::from(has_large));
        }
        Reply::ListJobs(reply) => count("listed", reply.jobs.len() as u64),
        Reply::Explain(reply) => count("explained", u64::from(reply.0.is_some())),
        other => tally_bulks(other, count),
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
        Reply::OpenBulk(BulkOpened::Created(_)) => count("opened", 1),
        Reply::OpenBulk(BulkOpened::Full { .. }) => count("no bytes for a bulk action", 1),
        Reply::OpenBulk(BulkOpened::Exists(view)) => {
            count("open already", 1);
            tally_view(view, count);
        }
        Reply::SealBulk(BulkSealed::Sealed(view)) => {
            count("sealed", 1);
            tally_view(view, count);
        }
        Reply::SealBulk(BulkSealed::Mismatch { .. }) => count("sealed with a wrong number", 1),
        Reply::SealBulk(BulkSealed::Unknown) => count("sealed unknown", 1),
        Reply::HoldBulk(BulkHeld(view)) => count(if view.is_some() { "held" } else { "held unknown" }, 1),
        Reply::ResumeBulk(BulkResumed(view)) => {
            count(if view.is_some() { "resumed" } else { "resumed unknown" }, 1);
        }
        Reply::CancelBulk(BulkCancelled(view)) => {
            count(if view.is_some() { "cancelled" } else { "cancelled unknown" }, 1);
        }
        Reply::LeaseBulks(reply) => {
            let ended = reply.bulks.iter().filter(|leased| leased.view.state.is_final());
            count("bulk action leased after it had ended", ended.count() as u64);
            count("bulk action leased", reply.bulks.len() as u64);
        }
        Reply::SettleBulk(BulkSettled(verdict)) => match verdict {
            Verdict::Applied => count("bulk action settled", 1),
            Verdict::Stale => count("bulk action settled too late", 1),
            Verdict::Gone => count("unknown bulk action settled", 1),
        },
        Reply::CancelJob(reply) => reply.cancellations.iter().for_each(|answer| match answer {
            Cancellation::Cancelled => count("job cancelled", 1),
            Cancellation::Requested => count("job asked to stop", 1),
            Cancellation::Ended => count("job had ended", 1),
            Cancellation::Unknown => count("job to cancel unknown", 1),
        }),
        Reply::RequeueDead(reply) => reply.jobs.iter().for_each(|answer| match answer {
            Requeued::Requeued => count("requeued", 1),
            Requeued::NotDead => count("not dead to requeue", 1),
            Requeued::Full => count("no room to requeue", 1),
            Requeued::Unknown => count("job to requeue unknown", 1),
        }),
        Reply::Discard(reply) => reply.jobs.iter().for_each(|answer| match answer {
            Disposal::Discarded => count("discarded", 1),
            Disposal::NotDead => count("not dead to discard", 1),
            Disposal::Unknown => count("job to discard unknown", 1),
        }),
        Reply::MakeDue(reply) => {
            count("made due", reply.moved as u64);
            count("further page of waiting jobs", u64::from(reply.next.is_some()));
        }
        Reply::RemoveType(reply) => match reply {
            TypeRemoved::Removed => count("type removed", 1),
            TypeRemoved::Unknown => count("type to remove unknown", 1),
            TypeRemoved::HasJobs { .. } => count("type to remove has jobs", 1),
            TypeRemoved::Again => count("type to remove has lanes", 1),
        },
        Reply::Sweep(reply) => {
            count("swept: dropped", reply.dropped as u64);
            count("swept: resumed", reply.resumed as u64);
            count("swept: removed", reply.removed as u64);
            count("swept: overdue", reply.overdue as u64);
            count("swept: more", u64::from(reply.more));
        }
        _ => {}
    }
}

fn queue_view(machine: &mut Machine) -> QueueView {
    machine.call(InspectQueue, START)
}

/// Jobs that were skipped so far: set aside, or dropped.
fn skipped(machine: &mut Machine) -> u64 {
    let mut jobs = 0;
    for group in GROUPS {
        let command = ListBulks { group: group_id(group), after: 0, limit: 500, unfinished: false };
        let page = machine.call(command, START);
        jobs += page.bulks.iter().map(|bulk| bulk.on_hold + bulk.cancelled).sum::<u64>();
    }
    jobs
}

/// Whether some lane has left its order until its head is cleared.
fn has_cleared_lane(machine: &mut Machine) -> bool {
    GROUPS.iter().any(|group| {
        let view = machine.call(InspectGroup { group: group_id(group) }, START);
        view.is_some_and(|view| {
            view.lanes.iter().any(|lane| matches!(lane.standing, LaneStanding::Clearing(_)))
        })
    })
}

#[test]
fn random_steps_reach_every_kind_of_reply_often() {
    let mut counts = Tally::new();
    let mut jobs_most = 0;
    for episode in 0..60 {
        let mut generator = Generator::new(7, episode);
        let (mut machine, mut fences) =
            (Machine::new(Settings::default(), HashSeed::FIXED, START), BTreeSet::new());
        for _ in 0..2000 {
            let step = generator.next_step();
            let waiting = queue_view(&mut machine).waiting;
            let leases = matches!(step.action, Action::Command(Command::Lease(_)));
            let before = if leases { skipped(&mut machine) } else { 0 };
            let releases = matches!(&step.action, Action::Command(Command::SettleBulk(settle))
                if matches!(settle.outcome, Aggregation::Released { .. }));
            if let Action::Command(command) = &step.action {
                command.validate().expect("only valid commands are drawn");
            }
            let response = apply_step(&mut machine, &step);
            let view = queue_view(&mut machine);
            if waiting >= view.waiting + LEASE_PROMOTES_MAX as u64 {
                *counts.entry("as many promoted as one lease may").or_default() += 1;
            }
            if leases && skipped(&mut machine) >= before + VISIT_SKIPS_MAX as u64 {
                *counts.entry("as many skipped as one visit may").or_default() += 1;
            }
            if leases && has_cleared_lane(&mut machine) {
                *counts.entry("left to sweep").or_default() += 1;
            }
            if let Response::Reply(reply) = &response {
                tally_leased_bulks(reply, releases, &mut fences, &mut counts);
            }
            jobs_most = jobs_most.max(view.backlog + view.in_flight + view.completed + view.failed);
            tally(&response, &mut counts);
            generator.observe(&response);
        }
    }
    assert!(
        counts.len() == KINDS && counts.values().all(|times| *times >= 5),
        "{} {counts:#?}",
        counts.len()
    );
    assert!(jobs_most <= 240, "{jobs_most} jobs make slow dumps");
}

/// Counts bulk actions that are leased again under the same fence, and released.
fn tally_leased_bulks(reply: &Reply, releases: bool, fences: &mut BTreeSet<Fence>, counts: &mut Tally) {
    match reply {
        Reply::LeaseBulks(reply) => {
            let again = reply.bulks.iter().filter(|bulk| !fences.insert(bulk.fence)).count();
            *counts.entry("bulk action leased again").or_default() += again as u64;
        }
        Reply::SettleBulk(BulkSettled(Verdict::Applied)) if releases => {
            *counts.entry("bulk action released").or_default() += 1;
        }
        _ => {}
    }
}

/// The number of kinds of replies that the tallies distinguish.
const KINDS: usize = 124;

#[test]
fn random_steps_on_locks_keep_the_invariants_and_reach_every_kind_of_reply() {
    let mut counts = Tally::new();
    for episode in 0..24 {
        let mut generator = Generator::of_other(5, episode, 0);
        let mut machines = Machines::new(HashSeed::FIXED, START);
        for number in 0..2000 {
            let step = generator.next_step();
            let response = apply_to_all(&mut machines, &step);
            if let Err(fault) = machines.lock.check() {
                panic!("episode {episode}, step {number}, after {:?}: {fault}", step.action);
            }
            if let Response::Other(reply) = &response
                && let Some(reply) = reply.lock()
            {
                tally_locks(reply, &mut counts);
            }
            *counts.entry("signals").or_default() += machines.take_signals().len() as u64;
            generator.observe(&response);
        }
    }
    assert!(counts.len() == 20 && counts.values().all(|times| *times >= 5), "{} {counts:#?}", counts.len());
}

fn tally_locks(reply: &lock::Reply, counts: &mut Tally) {
    use fairlane_core::lock::*;
    let mut count = |what, times| *counts.entry(what).or_default() += times;
    match reply {
        Reply::AcquireLock(LockAcquired::Held { .. }) => count("held", 1),
        Reply::AcquireLock(LockAcquired::Waiting { position, blocked }) => {
            count("waiting", 1);
            count("waiting behind a crowd", u64::from(*position > LOCK_STEP_WAITERS_MAX as u64));
            count("reserved for another", u64::from(blocked.holder.is_none()));
        }
        Reply::AcquireLock(LockAcquired::Busy(_)) => count("busy", 1),
        Reply::AcquireLock(LockAcquired::Refused(_)) => count("another kind", 1),
        Reply::RenewLocks(reply) => reply.renewals.iter().for_each(|renewal| match renewal {
            LockRenewal::Renewed { .. } => count("renewed", 1),
            LockRenewal::Lost => count("lost", 1),
        }),
        Reply::ReleaseLock(LockReleased::Released) => count("released", 1),
        Reply::ReleaseLock(LockReleased::Withdrawn) => count("withdrawn", 1),
        Reply::ReleaseLock(LockReleased::NotHeld) => count("not held", 1),
        Reply::AttendLocks(reply) => count("claims", reply.claims.len() as u64),
        Reply::InspectLock(LockInspected(view)) => {
            count("lock shown", u64::from(view.is_some()));
            let view = view.as_ref();
            count("several holders", u64::from(view.is_some_and(|view| view.holders > 1)));
            count("delay", u64::from(view.is_some_and(|view| view.delay_us > 0)));
        }
        Reply::ListLocks(reply) => {
            count("locks on a page", reply.locks.len() as u64);
            count("further page of locks", u64::from(reply.next.is_some()));
        }
        Reply::BreakLock(reply) => count("broken", reply.holders),
        Reply::SweepLocks(reply) => count("locks swept", reply.locks as u64),
    }
}

#[test]
fn random_steps_on_rooms_keep_the_invariants_and_reach_every_kind_of_reply() {
    let mut counts = Tally::new();
    for episode in 0..24 {
        let mut generator = Generator::of_other(5, episode, 1);
        let mut machines = Machines::new(HashSeed::FIXED, START);
        for number in 0..2000 {
            let step = generator.next_step();
            let response = apply_to_all(&mut machines, &step);
            if let Err(fault) = machines.room.check() {
                panic!("episode {episode}, step {number}, after {:?}: {fault}", step.action);
            }
            if let Response::Other(reply) = &response
                && let Some(reply) = reply.room()
            {
                tally_rooms(reply, &mut counts);
            }
            generator.observe(&response);
        }
    }
    assert!(counts.len() == 32 && counts.values().all(|times| *times >= 5), "{} {counts:#?}", counts.len());
}

fn tally_rooms(reply: &room::Reply, counts: &mut Tally) {
    use fairlane_core::room::*;
    let mut count = |what, times: bool| *counts.entry(what).or_default() += u64::from(times);
    match reply {
        Reply::JoinRoom(RoomJoined::Joined { status, .. }) => tally_place(&status.place, "join", counts),
        Reply::JoinRoom(RoomJoined::TicketNeeded { .. }) => count("ticket needed", true),
        Reply::JoinRoom(RoomJoined::Refused(RoomRefusal::Closed)) => count("closed", true),
        Reply::JoinRoom(RoomJoined::Refused(RoomRefusal::UnknownClass)) => count("unknown class", true),
        Reply::JoinRoom(RoomJoined::Refused(_)) => count("token in use", true),
        Reply::ShowPlace(status) | Reply::KeepPlace(status) => tally_place(&status.place, "place", counts),
        Reply::AdmitWaiters(reply) => {
            count("moved by time", reply.admitted + reply.expired + reply.silent > 0);
            count("expired", reply.expired > 0);
            count("dropped", reply.silent > 0);
        }
        Reply::LeaveRoom(reply) => count("left", reply.was_there),
        Reply::RevokePlace(reply) => count("revoked", reply.was_there),
        Reply::SetRoom(reply) => {
            count("set", matches!(reply, RoomSet::Set { .. }));
            count("class in use", *reply == RoomSet::ClassInUse);
        }
        Reply::SetPhase(PhaseSet::Set { phase, .. }) => count(phase.as_str(), true),
        Reply::SetPhase(_) => count("not empty", true),
        Reply::PauseRoom(_) => count("paused", true),
        Reply::ReportRoom(reply) => count("rate cut", reply.rate_milli.is_some()),
        Reply::InspectRoom(RoomInspected(view)) => {
            count("room shown", view.is_some());
            count(
                "draw revealed",
                view.as_ref().is_some_and(|view| view.draw.as_ref().is_some_and(|draw| draw.seed.is_some())),
            );
        }
        Reply::ListRooms(reply) => count("further page of rooms", reply.next.is_some()),
        Reply::ListPlaces(reply) => {
            count("places on a page", !reply.places.is_empty());
            count("further page of places", reply.next.is_some());
        }
        Reply::SweepRooms(reply) => count("rooms swept", reply.rooms > 0),
    }
}

fn tally_place(place: &room::PlaceView, of: &'static str, counts: &mut Tally) {
    use fairlane_core::room::PlaceView;
    let mut count = |what, times: bool| *counts.entry(what).or_default() += u64::from(times);
    match place {
        PlaceView::Active { .. } => count("active", true),
        PlaceView::Unknown => count("unknown", true),
        PlaceView::Waiting { position, eta, next_poll_ms, paused, .. } => {
            count(of, true);
            count("before opening", position.is_none());
            count("behind others", position.is_some_and(|position| position > 1));
            count("time until admission", eta.is_some());
            count("longer poll", *next_poll_ms > 1000);
            count("waiting in a pause", paused.is_some());
        }
    }
}

#[test]
fn the_core_keeps_its_invariants_under_random_steps() {
    for episode in 0..24 {
        let mut generator = Generator::new(77, episode);
        let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
        for number in 0..1200 {
            let step = generator.next_step();
            let response = apply_step(&mut machine, &step);
            if let Err(fault) = machine.check() {
                panic!("episode {episode}, step {number}, after {:?}: {fault}", step.action);
            }
            generator.observe(&response);
        }
    }
}
