//! One customer: its jobs, its share and its limits, and the controls for them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use fairlane::{CongestionView, GroupSettings, GroupView, Snapshot, parse_rate, rate_text};
use fairlane_core::queue::{GroupPatch, LaneStanding};
use fairlane_core::{GroupId, Weight};
use maud::{Markup, html};
use serde::Deserialize;

use super::activity;
use super::chart::{self, Line};
use super::form::{Form, filled, number};
use super::format::{self, badge, bytes, count, encoded, percent, span, time};
use super::history::Moment;
use super::largest::Largest;
use super::page::{Section, View, see_other};
use super::preview::{self, Previews};
use crate::access::Permission;
use crate::api::Jobs;
use crate::app::Shared;
use crate::extract::Path;
use crate::problem::{Problem, ProblemKind};

/// Number of congestion snapshots in the chart.
const SNAPSHOTS: usize = 360;
/// Number of changes on the page.
const CHANGES: usize = 10;

#[derive(Deserialize)]
pub(super) struct GroupPath {
    group: GroupId,
}

pub(super) async fn show(
    view: View,
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
) -> Result<Response, Problem> {
    let handle = app.fairlane.group(&group);
    let (Some(found), Some(congestion)) = (handle.view().await?, handle.congestion().await?) else {
        return Err(unknown_customer(&group));
    };
    let history = handle.congestion_history(SNAPSHOTS).await?;
    app.dashboard.history.watch(&group);
    let hour = app.dashboard.history.complete();
    // A key that is bound to this customer must not see what other customers get.
    let is_bound = view.caller.groups.is_some();
    let ranking = if is_bound { None } else { Some(Largest::ranking(&app).await?) };
    let share = ranking.as_ref().and_then(|ranking| ranking.share(ranking.find(&group)?));
    let name = group.to_string();
    let name = name.as_str();
    let changes = if is_bound { vec![] } else { activity::of_customer(&app, name, CHANGES).await? };
    let title = format!("Customer {name}");
    Ok(view.page(Section::Customers, &title, html! {
        h1 { "Customer " (name) " " @if found.settings.paused { (badge("paused", "warn")) } }
        div id="counts" data-live { (tiles(&found, &congestion, share)) }
        div.grid.two {
            section.card id="lanes" data-live { (lanes(&view, name, &found)) }
            section.card { (controls(&view, name, &found.settings)) }
        }
        section.card id="hour" data-live { (hour_chart(&view, &hour, &group)) }
        section.card id="congestion" data-live { (congestion_chart(&history)) }
        @if !is_bound {
            section.card id="changes" data-live { h2 { "Changes" } (activity::table(&view, &changes, false)) }
        }
    }))
}

fn unknown_customer(group: &GroupId) -> Problem {
    ProblemKind::NotFound.because(format!(
        "there is no customer {group}: one exists once it had a job or its settings were changed"
    ))
}

fn tiles(found: &GroupView, congestion: &CongestionView, share: Option<(f64, f64)>) -> Markup {
    let tile = |label: &str, value: String, note: String| {
        html! { div.tile { span.label { (label) } strong { (value) } span.note { (note) } } }
    };
    let eta = congestion.estimated_completion_ms().filter(|_| found.backlog > 0);
    html! {
        div.tiles {
            (tile("Pending", count(found.backlog.saturating_sub(found.waiting)), "in lanes".into()))
            (tile("Waiting", count(found.waiting), "for a time or a retry".into()))
            (tile("In flight", count(found.in_flight), found.settings.concurrency.map_or_else(|| "no limit".into(), |most| format!("at most {most}"))))
            (tile("Done", count(found.done), format!("of {} since it was last idle", count(found.total))))
            (tile("Share got", share.map_or_else(|| "–".into(), |(got, _)| percent(got)), share.map_or_else(|| "no figures yet".into(), |(_, due)| format!("{} due", percent(due)))))
            (tile("Time to finish", eta.map_or_else(|| "–".into(), span), format!("congestion {}", congestion.level.as_str().to_lowercase())))
            (tile("Stored", bytes(found.stored_bytes), "payloads and results".into()))
        }
    }
}

fn lanes(view: &View, group: &str, found: &GroupView) -> Markup {
    let standing = |standing: &LaneStanding| match standing {
        LaneStanding::Idle => badge("idle", "calm"),
        LaneStanding::Active => badge("in its order", "good"),
        LaneStanding::RateParked(until) => html! { (badge("rate used up", "warn")) " until " (time(*until)) },
        LaneStanding::SeatParked => badge("all its places are in use", "warn"),
        LaneStanding::Paused => badge("paused", "warn"),
        LaneStanding::Clearing(_) => badge("being cleared", "calm"),
    };
    html! {
        div.head { h2 { "Jobs by type" } a href=(view.to(format!("jobs?group={}", encoded(group)))) { "List jobs" } }
        @if found.lanes.is_empty() {
            p.empty { "No job is in a lane." }
        } @else {
            div.table tabindex="0" role="region" aria-label="Lanes" {
                table {
                    thead { tr { th scope="col" { "Type" } th scope="col" { "Level" } th.number scope="col" { "Jobs" } th scope="col" { "State" } } }
                    tbody { @for lane in &found.lanes { tr {
                        th scope="row" { (view.job_type(&lane.type_id)) }
                        td { (lane.level.as_str()) }
                        td.number { (count(lane.backlog + lane.returned)) }
                        td { (standing(&lane.standing)) }
                    } } }
                }
            }
        }
        p {
            a href=(view.to(format!("dead?group={}", encoded(group)))) { "Dead jobs" } " · "
            a href=(view.to(format!("bulks?group={}", encoded(group)))) { "Bulk actions" }
        }
    }
}

fn controls(view: &View, group: &str, settings: &GroupSettings) -> Markup {
    let action = view.to(format!("customers/{}", encoded(group)));
    let rate = settings.rate.map(rate_text);
    if !view.may(Permission::Operate) {
        return html! {
            h2 { "Limits" }
            dl.facts {
                dt { "Weight" } dd { (settings.weight.get()) }
                dt { "Rate" } dd { (rate.unwrap_or_else(|| "no limit".into())) }
                dt { "Jobs at once" } dd { (settings.concurrency.map_or_else(|| "no limit".into(), |most| count(most.into()))) }
            }
            p.muted { "Your role may look, and change nothing here." }
        };
    }
    let (act, label) = if settings.paused { ("resume", "Resume") } else { ("pause", "Pause") };
    html! {
        h2 { "Limits" }
        form.stack method="post" action=(action) {
            label for="weight" { "Weight" }
            input id="weight" name="weight" type="number" min="1" max="1000" required value=(settings.weight.get()) aria-describedby="about-weight";
            p.muted id="about-weight" { "The share relative to other customers, 1 to 1000." }
            label for="rate" { "Rate" }
            input id="rate" name="rate" value=[rate] placeholder="no limit" aria-describedby="about-rate";
            p.muted id="about-rate" { "Jobs and a period, such as 100/s or 10/min burst 5; empty is no limit." }
            label for="concurrency" { "Jobs at once" }
            input id="concurrency" name="concurrency" type="number" min="1" max="1000000" value=[settings.concurrency] placeholder="no limit";
            div.inline {
                button type="submit" name="act" value="preview" aria-describedby="about-preview" { "Preview" }
                button.quiet type="submit" name="act" value="set" { "Save" }
            }
            p.muted id="about-preview" { "A preview simulates the next minute and shows who gains and who loses. It changes nothing." }
        }
        form.inline method="post" action=(action) {
            button.danger[!settings.paused] type="submit" name="act" value=(act) { (label) }
            button.quiet type="submit" name="act" value={ "preview-" (act) } { "Preview the " @if settings.paused { "resumption" } @else { "pause" } }
            span.muted { @if settings.paused { "None of its jobs start." } @else { "Running jobs continue; no more start." } }
        }
        form.inline method="post" action=(action) {
            input type="hidden" name="act" value="due";
            button.quiet type="submit" { "Make waiting jobs due now" }
        }
    }
}

/// The jobs of the customer in the last hour.
fn hour_chart(view: &View, hour: &[Arc<Moment>], group: &GroupId) -> Markup {
    let per_second = |of: fn(Jobs) -> u64| {
        let rate = |moment: &Arc<Moment>| {
            of(moment.of(group).unwrap_or_default()) as f64 * 1000.0 / moment.over_ms().max(1) as f64
        };
        hour.iter().map(rate).collect::<Vec<f64>>()
    };
    let lines = [
        Line { name: "arrived", colour: 1, values: per_second(|jobs| jobs.arrived) },
        Line { name: "served", colour: 2, values: per_second(|jobs| jobs.served) },
    ];
    html! {
        div.head { h2 { "The last hour" } @if view.caller.groups.is_none() { a href=(view.to("served")) { "Who was served when" } } }
        @if hour.len() < 2 { p.empty { "The first figures come within twenty seconds after the server has started." } }
        @else {
            (chart::plain("Jobs per second through this server", &lines, format::per_second))
            p.muted { "From " (time(hour[0].from)) ", every ten seconds. Times in which the customer was neither among the 100 with the most jobs nor on a screen are drawn as zero." }
        }
    }
}

fn congestion_chart(history: &[Snapshot]) -> Markup {
    let lines = [Line {
        name: "held back",
        colour: 1,
        values: history.iter().map(|one| one.waiting as f64).collect(),
    }];
    html! {
        h2 { "Congestion" }
        @if history.len() < 2 {
            p.empty { "No jobs of this customer were held back so far." }
        } @else {
            (chart::plain("Jobs held back", &lines, |value| count(value as u64)))
            p.muted { "From " (time(history[0].at)) " to " (time(history[history.len() - 1].at)) ", at most one figure a second." }
        }
    }
}

/// The forms of the page.
#[derive(Deserialize)]
pub(super) struct Controls {
    act: String,
    weight: Option<String>,
    rate: Option<String>,
    concurrency: Option<String>,
}

impl Controls {
    /// The change in the fields for limits.
    fn patch(&self) -> Result<GroupPatch, Problem> {
        let rate = filled(self.rate.clone()).map(|text| parse_rate(&text)).transpose();
        let rate = rate.map_err(|error| ProblemKind::Invalid.because(error.to_string()))?;
        let whole = |name: &str, field: &Option<String>| {
            filled(field.clone()).map(|text| number(name, &text)).transpose()
        };
        let weight = whole("weight", &self.weight)?.map(Weight::new).transpose()?;
        let concurrency = Some(whole("jobs at once", &self.concurrency)?);
        Ok(GroupPatch { weight, rate: Some(rate), concurrency, ..GroupPatch::default() })
    }
}

pub(super) async fn change(
    view: View,
    State(app): State<Shared>,
    Path(GroupPath { group }): Path<GroupPath>,
    Form(controls): Form<Controls>,
) -> Result<Response, Problem> {
    let handle = app.fairlane.group(&group);
    let done = match controls.act.as_str() {
        "pause" => handle.pause().apply().await.map(|_| "paused".to_owned())?,
        "resume" => handle.resume().apply().await.map(|_| "resumed".to_owned())?,
        "due" => format!("due&count={}", handle.make_due(0).await?.moved),
        "set" => handle.patch(controls.patch()?).apply().await.map(|_| "saved".to_owned())?,
        "preview" | "preview-pause" | "preview-resume" => {
            let found = handle.view().await?.ok_or_else(|| unknown_customer(&group))?;
            return preview_page(&view, &app, &group, &found, controls).await;
        }
        other => return Err(unknown_act(other)),
    };
    Ok(see_other(&view.to(format!("customers/{}?done={done}", encoded(&group)))))
}

/// The page that previews a change before it is applied.
async fn preview_page(
    view: &View,
    app: &Shared,
    group: &GroupId,
    found: &GroupView,
    controls: Controls,
) -> Result<Response, Problem> {
    let paused = |paused: bool| GroupPatch { paused: Some(paused), ..GroupPatch::default() };
    let (patch, act) = match controls.act.as_str() {
        "preview-pause" => (paused(true), "pause"),
        "preview-resume" => (paused(false), "resume"),
        _ => (controls.patch()?, "set"),
    };
    let new = patch.applied_to(&found.settings);
    let changes = preview::changes(&found.settings, &new);
    let previewed = Previews::run(app, group, found, new).await?;
    let page = view.to(format!("customers/{}", encoded(group)));
    let fields =
        [("weight", controls.weight), ("rate", controls.rate), ("concurrency", controls.concurrency)];
    Ok(view.page(Section::Customers, &format!("Preview for {group}"), html! {
        h1 { "Preview for customer " (group) }
        p.lead { "Nothing has changed yet. This is what the change would do." }
        section.card {
            h2 { "The change" }
            @if changes.is_empty() { p { "The fields have the values that are in effect: nothing would change." } }
            @else { ul.plain { @for change in &changes { li { (change) } } } }
            form.inline method="post" action=(page) {
                @if act == "set" { @for (name, value) in &fields { @if let Some(value) = value { input type="hidden" name=(name) value=(value); } } }
                button type="submit" name="act" value=(act) { "Apply" }
                a.button.quiet href=(page) { "Back without a change" }
            }
        }
        (preview::show(&previewed, group, |name| view.customer(name)))
    }))
}

/// The problem of a form that this version does not have.
pub(super) fn unknown_act(act: &str) -> Problem {
    ProblemKind::Invalid.because(format!("the page has no control {act:?}; reload it and try again"))
}
