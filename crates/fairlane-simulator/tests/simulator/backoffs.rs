//! The backoff of `classic` on the real core: it grows in steps, depends on the current speed, and
//! falls as the queue drains.

use fairlane_core::congestion::Backoff;
use fairlane_core::queue::{
    Admit, Destination, Discipline, Enqueue, JobRef, Machine, NewJob, Promote, Settings,
};
use fairlane_core::{Cost, GroupId, HashSeed, JobId, Micros, TypeId};

const START: Micros = Micros::from_millis(1_700_000_000_000);

fn classic(global_rps: u64) -> Machine {
    let (discipline, ready_queue_max_size) = (Discipline::Classic, 100_000);
    let settings = Settings { discipline, global_rps, ready_queue_max_size, ..Settings::default() };
    Machine::new(settings, HashSeed::FIXED, START)
}

fn enqueue(machine: &mut Machine, group: &str, jobs: u64) {
    for first in (0..jobs).step_by(200) {
        let new_job = |number: u64| NewJob {
            cost: Cost::new(1).expect("one is a valid cost"),
            ..NewJob::new(
                JobRef {
                    group: GroupId::new(group).expect("a plain name"),
                    id: JobId::new(number.to_string()).expect("a number is a valid name"),
                },
                TypeId::new("work").expect("a plain name"),
                [].into(),
            )
        };
        let jobs = (first..jobs.min(first + 200)).map(new_job).collect();
        machine.call(Enqueue { jobs }, START);
    }
}

/// Admits or refuses all jobs at a time, and returns the backoffs of the refused ones.
fn refusals(machine: &mut Machine, at: Micros) -> Vec<Backoff> {
    let mut backoffs = Vec::new();
    loop {
        let admitted = machine.call(Admit { jobs_max: 500 }, at);
        if admitted.admissions.is_empty() {
            return backoffs;
        }
        for admission in admitted.admissions {
            if let Destination::Waiting(backoff) = admission.destination {
                backoffs.push(backoff);
            }
        }
    }
}

fn promote(machine: &mut Machine, at: Micros) -> usize {
    let mut moved = 0;
    loop {
        let promoted = machine.call(Promote { jobs_max: 500 }, at);
        if promoted.moved == 0 {
            return moved;
        }
        moved += promoted.moved;
    }
}

#[test]
fn backoffs_rise_in_steps_and_fall_as_the_queue_drains() {
    let mut machine = classic(100);
    enqueue(&mut machine, "a", 1000);
    let first: Vec<u64> = refusals(&mut machine, START).iter().map(|backoff| backoff.backoff_ms).collect();
    assert_eq!(first.len(), 900);
    assert!(first.is_sorted());
    let mut steps = first.clone();
    steps.dedup();
    assert_eq!(steps, (1..=10).map(|seconds| seconds * 1000).collect::<Vec<u64>>(), "one per hundred jobs");
    // After five seconds five steps are due at once: a hundred pass, the rest find a shorter queue.
    assert_eq!(promote(&mut machine, START.plus_ms(5000)), 499);
    let second = refusals(&mut machine, START.plus_ms(5000));
    assert_eq!(second.len(), 399);
    assert_eq!(second.iter().map(|backoff| backoff.backoff_ms).max(), Some(9000));
}

/// 2 groups become 102, and the speed of each falls from 5000 to 98.
#[test]
fn new_groups_change_only_the_backoffs_of_later_refusals() {
    let mut machine = classic(10_000);
    enqueue(&mut machine, "a", 6000);
    enqueue(&mut machine, "b", 1);
    let before = refusals(&mut machine, START);
    assert_eq!((before.len(), before[0].speed), (1000, 5000));
    assert!(before.iter().all(|backoff| backoff.backoff_ms == 1000));
    for group in 0..100 {
        enqueue(&mut machine, &format!("new-{group}"), 100);
    }
    let later = START.plus_ms(1000);
    let moved = [START.plus_ms(999), later].map(|at| promote(&mut machine, at));
    assert_eq!(moved, [0, 1000], "jobs that already waited keep their backoff");
    let after = refusals(&mut machine, later);
    let of_a = after.iter().filter(|backoff| backoff.waiting > 98);
    assert!(after.iter().all(|backoff| backoff.speed == 98));
    assert!(of_a.clone().count() > 500);
    assert!(of_a.clone().all(|backoff| backoff.backoff_ms == 1000 + backoff.waiting / 98 * 1000));
}
