//! Previews of a change: who gains and who loses.

use fairlane_core::queue::{GroupSettings, Settings};
use fairlane_core::{GroupId, Level, Rate, TypeId, Weight};
use fairlane_simulator::{
    Effect, Forecast, GroupSnapshot, PREVIEW_JOBS_MAX, Preview, QueueSnapshot, TypeSnapshot, preview,
};

fn group(name: &str, jobs: u64, settings: GroupSettings) -> GroupSnapshot {
    let lanes = vec![(TypeId::new("mail").expect("a valid name"), Level::default(), jobs)];
    GroupSnapshot { name: GroupId::new(name).expect("a valid name"), settings, lanes }
}

/// A queue that does 100 jobs a second, ten at a time.
fn queue(groups: Vec<GroupSnapshot>) -> QueueSnapshot {
    let mail = TypeSnapshot {
        name: TypeId::new("mail").expect("a valid name"),
        rate: None,
        concurrency: 10,
        service_us: 100_000,
    };
    QueueSnapshot { settings: Settings::default(), types: vec![mail], groups }
}

fn changed(queue: &QueueSnapshot, name: &str, new: GroupSettings) -> Preview {
    preview(queue, &GroupId::new(name).expect("a valid name"), &new)
}

fn of<'a>(preview: &'a Preview, name: &str) -> &'a Forecast {
    preview.groups.iter().find(|one| one.group.to_string() == name).expect("a group of the queue")
}

fn weight(weight: u32) -> GroupSettings {
    GroupSettings { weight: Weight::new(weight).expect("a small weight"), ..GroupSettings::default() }
}

#[test]
fn more_weight_gains_what_the_others_lose() {
    let queue = queue(["a", "b", "c"].map(|name| group(name, 1_000_000, weight(1))).into());
    let preview = changed(&queue, "a", weight(2));
    let (a, b) = (of(&preview, "a"), of(&preview, "b"));
    assert_eq!((a.effect(), b.effect()), (Effect::Gains, Effect::Loses));
    assert!(preview.seconds > 59.0, "{}", preview.seconds);
    let share = |jobs: u64| jobs as f64 / 6000.0;
    assert!((share(a.before.jobs) - 1.0 / 3.0).abs() < 0.02, "{a:?}");
    assert!(
        (share(a.after.jobs) - 0.5).abs() < 0.02 && (share(b.after.jobs) - 0.25).abs() < 0.02,
        "{a:?} {b:?}"
    );
}

#[test]
fn a_pause_frees_what_the_group_had_and_a_rate_bounds_it() {
    let queue = queue(vec![group("large", 50_000, weight(1)), group("small", 50_000, weight(1))]);
    let paused = changed(&queue, "large", GroupSettings { paused: true, ..weight(1) });
    assert_eq!((of(&paused, "large").after.jobs, of(&paused, "small").effect()), (0, Effect::Gains));
    let rate = Some(Rate::new(10, 1000, Some(1)).unwrap());
    let limited = changed(&queue, "large", GroupSettings { rate, ..weight(1) });
    let large = of(&limited, "large");
    assert!((590..=620).contains(&large.after.jobs), "{large:?}");
    assert!(of(&limited, "small").after.jobs > 5_000, "{limited:?}");
}

#[test]
fn a_group_that_is_served_as_much_but_sooner_gains() {
    let queue = queue(vec![group("large", 2_000, weight(1)), group("small", 500, weight(1))]);
    let preview = changed(&queue, "small", weight(10));
    let small = of(&preview, "small");
    assert_eq!((small.before.jobs, small.after.jobs), (500, 500));
    assert_eq!(small.effect(), Effect::Gains, "{small:?}");
}

#[test]
fn no_change_changes_nothing_and_the_work_is_bounded() {
    let mut queue = queue((0..200).map(|n| group(&format!("g{n}"), 1_000_000, weight(1))).collect());
    queue.types[0].concurrency = 500;
    queue.types[0].service_us = 50_000;
    let preview = changed(&queue, "g7", weight(1));
    assert!(preview.groups.iter().all(|one| one.before == one.after), "{preview:?}");
    let done: u64 = preview.groups.iter().map(|one| one.before.jobs).sum();
    assert!(
        done <= PREVIEW_JOBS_MAX && done > PREVIEW_JOBS_MAX / 2 && preview.seconds < 10.0,
        "{done} {}",
        preview.seconds
    );
}

#[test]
fn groups_with_several_types_and_without_jobs_are_forecast_too() {
    let mut queue = queue(vec![group("a", 1000, weight(1)), group("idle", 0, weight(1))]);
    let render = TypeId::new("render").unwrap();
    queue.types.push(TypeSnapshot {
        name: render.clone(),
        rate: None,
        concurrency: 1,
        service_us: 1_000_000,
    });
    queue.groups[0].lanes.push((render, Level::default(), 1000));
    let preview = changed(&queue, "a", GroupSettings { paused: true, ..weight(1) });
    let a = of(&preview, "a");
    assert!(a.before.jobs > 1040 && a.after.jobs == 0, "{a:?}");
    assert_eq!(of(&preview, "idle").before.jobs, 0);
}

#[test]
fn a_group_that_is_resumed_is_served_although_the_queue_stood_still() {
    let queue = queue(vec![group("a", 1000, GroupSettings { paused: true, ..weight(1) })]);
    let preview = changed(&queue, "a", weight(1));
    let a = of(&preview, "a");
    assert_eq!((a.before.jobs, a.after.jobs, a.effect()), (0, 1000, Effect::Gains));
}
