//! The effect of new limits of one customer on all customers, before they are applied: simulates
//! the current queue with the old and with the new limits.
//!
//! Invariant: at most one preview runs at a time, and its work does not depend on the number of
//! groups or jobs.

use std::sync::Arc;
use std::time::Duration;

use fairlane::{GroupSettings, GroupView, QueueState, Rate, TypeView, rate_text};
use fairlane_core::GroupId;
use fairlane_simulator::{
    Effect, Forecast, Got, GroupSnapshot, PREVIEW_WORKERS_MAX, Preview, QueueSnapshot, TypeSnapshot, preview,
};
use maud::{Markup, html};
use tokio::sync::Mutex as AsyncMutex;

use super::format::{count, counted, span};
use super::largest::Largest;
use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};

/// Number of largest groups that a preview includes besides the changed one.
const GROUPS_MAX: usize = 200;
/// Most groups on the page that gain, and most that lose.
const SHOWN_MAX: usize = 10;
/// How long a page waits for its preview.
const PATIENCE: Duration = Duration::from_secs(15);
/// The concurrency and the duration of a job in microseconds that are assumed for a type that
/// settles no jobs at the moment.
const ASSUMED_AT_ONCE: u64 = 10;
const ASSUMED_US: u64 = 100_000;

/// Held while a preview runs.
#[derive(Default)]
pub(super) struct Previews(Arc<AsyncMutex<()>>);

/// A preview and its assumptions, a sentence each.
pub(super) struct Previewed {
    preview: Preview,
    assumed: Vec<String>,
}

impl Previews {
    /// Previews new settings of a group.
    pub async fn run(
        app: &Shared,
        group: &GroupId,
        found: &GroupView,
        new: GroupSettings,
    ) -> Result<Previewed, Problem> {
        let running = app.dashboard.previews.0.clone().try_lock_owned().map_err(|_| {
            ProblemKind::Conflict
                .because("another preview is running on this server; go back and try again in a few seconds")
        })?;
        let (snapshot, assumed) = snapshot(app, group, found).await?;
        let changed = group.clone();
        let simulated = tokio::task::spawn_blocking(move || {
            // Held until the simulation ends, even if its page has timed out, so that no other one
            // starts.
            let _running = running;
            preview(&snapshot, &changed, &new)
        });
        match tokio::time::timeout(PATIENCE, simulated).await {
            Ok(Ok(preview)) => Ok(Previewed { preview, assumed }),
            Ok(Err(error)) => Err(ProblemKind::Broken.because(format!("the preview failed: {error}; go back and save without a preview"))),
            Err(_) => Err(ProblemKind::Overloaded.because(format!(
                "the preview was not ready after {} seconds, since the machine is busy; go back and try again, or \
                 save without a preview",
                PATIENCE.as_secs()
            ))),
        }
    }
}

/// The queue as it is now: its types, the group and the largest other groups.
async fn snapshot(
    app: &Shared,
    group: &GroupId,
    found: &GroupView,
) -> Result<(QueueSnapshot, Vec<String>), Problem> {
    let state = app.fairlane.state().await?;
    let ranking = Largest::ranking(app).await?;
    let (types, mut assumed) = types(&state);
    let mut groups = vec![group_snapshot(group, found)];
    let others = ranking.groups.iter().map(|ranked| &ranked.line.group).filter(|name| *name != group);
    // Charged to no key: the number of reads is bounded.
    for name in others.take(GROUPS_MAX) {
        if let Some(view) = app.uncharged.group(name).view().await? {
            groups.push(group_snapshot(name, &view));
        }
    }
    if state.queue.active_groups > groups.len() as u64 {
        assumed.push(format!(
            "It considers the {} largest of {} customers.",
            count(groups.len() as u64),
            count(state.queue.active_groups)
        ));
    }
    Ok((QueueSnapshot { settings: state.queue.settings, types, groups }, assumed))
}

fn group_snapshot(name: &GroupId, view: &GroupView) -> GroupSnapshot {
    let lanes =
        view.lanes.iter().map(|lane| (lane.type_id.clone(), lane.level, lane.backlog + lane.returned));
    GroupSnapshot { name: name.clone(), settings: view.settings.clone(), lanes: lanes.collect() }
}

/// The types whose jobs can start, each with its current speed, and the assumptions about them.
fn types(state: &QueueState) -> (Vec<TypeSnapshot>, Vec<String>) {
    let mut assumed = Vec::new();
    let mut types = Vec::new();
    for (name, view) in state.types.iter().filter(|(_, view)| !view.settings.paused) {
        let (at_once, service_us) = match (view.in_flight, view.answers) {
            (_, 0) => {
                assumed.push(format!(
                    "Type {name} answers no jobs now: the preview assumes {ASSUMED_AT_ONCE} at once that take {} each.",
                    span(ASSUMED_US / 1000)
                ));
                (ASSUMED_AT_ONCE, ASSUMED_US)
            }
            (in_flight, answers) => (in_flight.max(1), in_flight.max(1) * 1_000_000 / answers),
        };
        let allowed = view.settings.concurrency.map_or(u64::MAX, u64::from);
        let fewer = at_once.min(allowed).min(PREVIEW_WORKERS_MAX);
        types.push(TypeSnapshot {
            name: name.clone(),
            rate: rate(view),
            concurrency: u32::try_from(fewer).unwrap_or(u32::MAX),
            // Keeps the current throughput if the concurrency is lower.
            service_us: (service_us * fewer / at_once).max(1),
        });
    }
    (types, assumed)
}

/// The rate in effect: the one learned from refusals, if it is below the configured one.
fn rate(view: &TypeView) -> Option<Rate> {
    let found =
        view.rate_milli.filter(|milli| view.settings.rate.is_none_or(|set| *milli < set.milli_per_second()));
    let found = found.and_then(|milli| Rate::new(milli.max(1), 1_000_000, None).ok());
    found.or(view.settings.rate)
}

/// The changed settings, a sentence each.
pub(super) fn changes(old: &GroupSettings, new: &GroupSettings) -> Vec<String> {
    let rate = |rate: Option<Rate>| rate.map_or_else(|| "no limit".to_owned(), rate_text);
    let most = |most: Option<u32>| most.map_or_else(|| "no limit".to_owned(), |most| count(most.into()));
    let paused = |is_paused: bool| if is_paused { "paused" } else { "running" }.to_owned();
    [
        ("Weight", old.weight.get().to_string(), new.weight.get().to_string()),
        ("Rate", rate(old.rate), rate(new.rate)),
        ("Jobs at once", most(old.concurrency), most(new.concurrency)),
        ("State", paused(old.paused), paused(new.paused)),
    ]
    .into_iter()
    .filter(|(_, old, new)| old != new)
    .map(|(name, old, new)| format!("{name}: {old} → {new}"))
    .collect()
}

/// The result for a page.
pub(super) fn show(previewed: &Previewed, group: &GroupId, link: impl Fn(&GroupId) -> Markup) -> Markup {
    let Previewed { preview, assumed } = previewed;
    let own = preview.groups.iter().find(|one| one.group == *group);
    let others = |effect: Effect| {
        let mut found: Vec<&Forecast> =
            preview.groups.iter().filter(|one| one.group != *group && one.effect() == effect).collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.before.jobs.abs_diff(one.after.jobs)));
        found
    };
    let (gain, lose, same) = (others(Effect::Gains), others(Effect::Loses), others(Effect::Same));
    let seconds = match (preview.seconds * 1000.0) as u64 {
        60_000 => "minute".to_owned(),
        ms => span(ms),
    };
    html! {
        @if let Some(own) = own {
            p.why { (verdict(own, &seconds)) }
        }
        div.tiles {
            @for (label, number) in [("Other customers that gain", gain.len()), ("Other customers that lose", lose.len()), ("Unchanged", same.len())] {
                div.tile { span.label { (label) } strong { (count(number as u64)) } }
            }
        }
        section.card {
            h2 { "The next " (seconds) }
            div.table tabindex="0" role="region" aria-label="Who gains and who loses" {
                table {
                    thead { tr {
                        th scope="col" { "Customer" } th scope="col" { "Effect" }
                        th.number scope="col" { "Jobs, unchanged" } th.number scope="col" { "Jobs, changed" } th.number scope="col" { "Difference" }
                        th.number scope="col" { "Average wait, unchanged" } th.number scope="col" { "Average wait, changed" }
                    } }
                    tbody {
                        @for one in own.into_iter().chain(lose.iter().take(SHOWN_MAX).copied()).chain(gain.iter().take(SHOWN_MAX).copied()) {
                            (row(one, &link))
                        }
                    }
                }
            }
            @let hidden = lose.len().saturating_sub(SHOWN_MAX) + gain.len().saturating_sub(SHOWN_MAX);
            @if hidden > 0 { p.muted { "And " (counted(hidden as u64, "other customer")) " with smaller differences." } }
            @if gain.is_empty() && lose.is_empty() { p.muted { "No other customer gains or loses." } }
        }
        section.card {
            h2 { "What this assumes" }
            ul.plain {
                li { "The backlog of now, and no new jobs; every job takes as long as the jobs of its type take now." }
                @for one in assumed { li { (one) } }
            }
        }
    }
}

fn verdict(own: &Forecast, seconds: &str) -> String {
    let (before, after) = (own.before.jobs, own.after.jobs);
    let group = &own.group;
    match own.effect() {
        Effect::Same => {
            format!(
                "{group} would get about as much as now: {} in the next {seconds}.",
                counted(after, "job")
            )
        }
        _ if before == after => format!(
            "{group} would get the same {} in the next {seconds}, after a wait of {} instead of {}.",
            counted(after, "job"),
            wait(own.after),
            wait(own.before)
        ),
        _ => {
            format!(
                "{group} would get {} in the next {seconds} instead of {}.",
                counted(after, "job"),
                count(before)
            )
        }
    }
}

fn wait(got: Got) -> String {
    got.wait_ms.map_or_else(|| "–".to_owned(), |ms| span(ms as u64))
}

fn row(one: &Forecast, link: &impl Fn(&GroupId) -> Markup) -> Markup {
    let (before, after) = (one.before.jobs, one.after.jobs);
    let sign = if after > before {
        "+"
    } else if after < before {
        "−"
    } else {
        ""
    };
    let (word, class) = match one.effect() {
        Effect::Gains => ("gains", "good"),
        Effect::Loses => ("loses", "bad"),
        Effect::Same => ("same", "calm"),
    };
    html! {
        tr {
            th scope="row" { (link(&one.group)) }
            td { (super::format::badge(word, class)) }
            td.number { (count(before)) }
            td.number { (count(after)) }
            td.number { (sign) (count(before.abs_diff(after))) }
            td.number { (wait(one.before)) }
            td.number { (wait(one.after)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use fairlane::Fairlane;
    use fairlane_core::Weight;

    use super::*;

    #[test]
    fn only_what_changes_is_named() {
        let old = GroupSettings::default();
        assert!(changes(&old, &old).is_empty());
        let rate = Some(Rate::per_second(5).unwrap());
        let new = GroupSettings { weight: Weight::new(3).unwrap(), rate, paused: true, ..old.clone() };
        assert_eq!(changes(&old, &new), ["Weight: 1 → 3", "Rate: no limit → 5/s", "State: running → paused"]);
    }

    #[tokio::test]
    async fn one_preview_runs_at_a_time() {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        fairlane.enqueue(fairlane::Job::new("acme", "mail", &1)).await.unwrap().accepted().unwrap();
        let app = Arc::new(crate::app::App::new(fairlane, None, crate::ServerSettings::default()));
        let group = GroupId::new("acme").unwrap();
        let found = app.fairlane.group(&group).view().await.unwrap().unwrap();
        let run = async || Previews::run(&app, &group, &found, GroupSettings::default()).await;
        let running = app.dashboard.previews.0.clone().try_lock_owned().unwrap();
        let refused = run().await.err().unwrap();
        assert_eq!(refused.kind(), ProblemKind::Conflict);
        drop(running);
        // On a busy machine the customers may not be counted yet.
        fairlane_testkit::wait::eventually(async || {
            run().await.map(drop).map_err(|problem| problem.detail().to_owned())
        })
        .await;
    }
}
