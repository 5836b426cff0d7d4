//! Seeded random steps through two machines: one that runs on, and one that is restored from its
//! rows on disk every few steps. They must not differ, so this detects state that a restart loses.

use std::path::Path;

use fairlane_core::kernel::{Dump, Registered};
use fairlane_core::limits::ROOM_TTL_MS_MAX;
use fairlane_core::queue::{Command, Listing};
use fairlane_core::{Command as Other, HashSeed, Machines, Micros, lock, room};
use fairlane_engine::embedded::disk::{Disk, Sync};

use super::generator::{Generator, ROOMS};
use super::{Action, Step, apply_to_all};
use crate::subject::{START, room_name};

/// Runs an episode of `steps` steps, with a restart after each `every`; the error is the first
/// difference.
pub fn restarts(folder: &Path, seed: u64, steps: usize, every: usize) -> Result<(), String> {
    let mut generator = Generator::mixed(seed, seed);
    let mut running = Machines::new(HashSeed::FIXED, START);
    let mut restarted = Machines::new(HashSeed::FIXED, START);
    restarted.record();
    let mut disk = open(folder);
    for step in rooms_with_retention() {
        apply_to_all(&mut running, &step);
        apply_to_all(&mut restarted, &step);
    }
    for number in 1..=steps {
        let step = without_silence(without_waiters(generator.next_step()));
        let (mine, other) = (apply_to_all(&mut running, &step), apply_to_all(&mut restarted, &step));
        if mine != other && !pages_over_leases(&step) {
            return Err(format!("step {number}, {step:?}\n  running   {mine:?}\n  restarted {other:?}"));
        }
        generator.observe(&mine);
        if number % 7 == 0 {
            disk.write(&restarted.take_changes()).map_err(|error| error.to_string())?;
        }
        if number % every == 0 {
            disk.write(&restarted.take_changes()).map_err(|error| error.to_string())?;
            drop(disk);
            disk = open(folder);
            let loaded = disk.load(&mut |_| {}).map_err(|error| format!("step {number}: {error}"))?;
            restarted = loaded.ok_or("nothing was written")?;
            restarted.check().map_err(|fault| format!("after step {number}: {fault}"))?;
            let now = step.at;
            let (mine, other) = (dump_without_silence(&running, now), dump_without_silence(&restarted, now));
            if mine != other {
                return Err(format!("after step {number}:\n{}", mine.difference(&other)));
            }
        }
    }
    Ok(())
}

/// The step without waiters for locks, which are not stored because they register again.
fn without_waiters(mut step: Step) -> Step {
    match &mut step.action {
        Action::Other(Other::Lock(lock::Command::AcquireLock(acquire))) => acquire.wait = false,
        Action::Other(Other::Lock(command @ lock::Command::AttendLocks(_))) => {
            *command = lock::Command::SweepLocks(lock::SweepLocks { locks_max: 1 });
        }
        _ => {}
    }
    step
}

/// The step without effects of silent waiters, because polls in waiting rooms are not stored: no
/// waiter is dropped, and sweeps, which depend on the next waiter to be dropped, are left out.
fn without_silence(mut step: Step) -> Step {
    match &mut step.action {
        Action::Other(Other::Room(room::Command::SetRoom(set))) => {
            set.settings.retention_ms = ROOM_TTL_MS_MAX
        }
        Action::Other(Other::Room(command @ room::Command::SweepRooms(_))) => {
            *command = room::Command::AdmitWaiters(room::AdmitWaiters { room: room_name("default") });
        }
        _ => {}
    }
    step
}

/// Steps that give every room the longest retention.
fn rooms_with_retention() -> impl Iterator<Item = Step> {
    let settings = room::RoomSettings { retention_ms: ROOM_TTL_MS_MAX, ..Default::default() };
    let set = move |name: &&str| room::SetRoom { room: room_name(name), settings: settings.clone() };
    ROOMS.iter().map(set).map(|set| Step { at: START, action: Action::Other(set.into_command()) })
}

fn dump_without_silence(machines: &Machines, now: Micros) -> Dump {
    let mut dump = machines.dump(now);
    dump.0
        .retain(|key, _| key != "room-deadlines" && !(key.starts_with("queue:") && key.ends_with("silent")));
    dump
}

/// Whether a step lists leases page by page. Pages also count the positions of jobs whose lease has
/// ended, and a restart closes these gaps.
fn pages_over_leases(step: &Step) -> bool {
    let Action::Command(Command::ListJobs(list)) = &step.action else { return false };
    list.listing == Listing::InFlight
}

fn open(folder: &Path) -> Disk {
    Disk::open(folder, Sync::Never, 0).expect("a folder of its own")
}
