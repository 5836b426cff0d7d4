//! Types of jobs and their downstreams: the configured limits, and those learned from refusals.

use axum::extract::State;
use axum::response::Response;
use fairlane::{TypePatch, TypeView, parse_rate, rate_text};
use fairlane_core::TypeId;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::{self, Line};
use super::customer::unknown_act;
use super::form::{Form, filled, number};
use super::format::{badge, count, counted, encoded, maybe_time, per_second, time};
use super::page::{Section, View, see_other};
use super::type_history::{self, TypeSample};
use crate::access::Permission;
use crate::app::Shared;
use crate::extract::Path;
use crate::problem::{Problem, ProblemKind};

/// Most cuts on the page.
const CUTS_SHOWN: usize = 20;

pub(super) async fn list(view: View, State(app): State<Shared>) -> Result<Response, Problem> {
    let state = app.fairlane.state().await?;
    let is_bound = view.caller.groups.is_some();
    Ok(view.page(Section::Types, "Downstreams", html! {
        h1 { "Downstreams" }
        p.lead { "Each type of job calls one downstream. When it answers 429, Fairlane lowers the rate, and then finds the limit again." }
        section.card id="types" data-live {
            @if state.types.is_empty() { p.empty { "There are no types yet: the first job of a type adds it." } }
            @else {
                div.table tabindex="0" role="region" aria-label="Types" {
                    table {
                        thead { tr {
                            th scope="col" { "Type" } th scope="col" { "State" } th scope="col" { "Limit set" }
                            th scope="col" { "Limit found" } th scope="col" { "Last hour" }
                            @if !is_bound { th.number scope="col" { "Answers/s" } th.number scope="col" { "In flight" } }
                            th scope="col" { "Last worker" }
                        } }
                        tbody { @for (name, one) in &state.types { tr {
                            th scope="row" { (view.job_type(name)) }
                            td { (standing(one)) }
                            td { (one.settings.rate.map_or_else(|| "none".to_owned(), rate_text)) }
                            td { (found_rate(one)) }
                            td { (limit_spark(&app.dashboard.types.of(name))) }
                            @if !is_bound { td.number { (count(one.answers)) } td.number { (count(one.in_flight)) } }
                            td { (maybe_time(one.asked_at)) }
                        } } }
                    }
                }
            }
        }
    }))
}

fn limit_spark(samples: &[TypeSample]) -> Markup {
    let rates: Vec<f64> = samples.iter().filter_map(|one| one.rate_milli).map(|milli| milli as f64).collect();
    let cuts = type_history::cuts(samples).len() as u64;
    html! {
        @if rates.len() > 1 { (chart::spark("The limit in the last hour", &rates)) }
        @if cuts > 0 { (counted(cuts, "cut")) } @else { span.muted { "no cuts" } }
    }
}

fn standing(one: &TypeView) -> Markup {
    html! {
        @if one.settings.paused { (badge("paused", "warn")) }
        @else if one.closed_until.is_some() { (badge("throttled", "warn")) }
        @else { (badge("open", "good")) }
    }
}

fn found_rate(one: &TypeView) -> Markup {
    let set = one.settings.rate.map(rate_text);
    html! {
        @match one.rate_milli {
            None => span.muted { "–" },
            Some(milli) => { (per_second(milli as f64 / 1000.0)) "/s" @if set.is_some() && one.closed_until.is_some() { " after 429" } },
        }
    }
}

#[derive(Deserialize)]
pub(super) struct TypePath {
    r#type: TypeId,
}

pub(super) async fn show(
    view: View,
    State(app): State<Shared>,
    Path(TypePath { r#type: name }): Path<TypePath>,
) -> Result<Response, Problem> {
    let Some(found) = app.fairlane.job_type(&name).view().await? else {
        return Err(ProblemKind::NotFound
            .because(format!("there is no type {name}: the first job of a type adds it")));
    };
    let title = format!("Type {name}");
    let type_id = name;
    let name = type_id.to_string();
    let name = name.as_str();
    Ok(view.page(Section::Types, &title, html! {
        h1 id="name" data-live { "Type " (name) " " (standing(&found)) }
        div.grid.two {
            section.card id="type" data-live {
                h2 { "Downstream" }
                dl.facts {
                    dt { "Limit set" } dd { (found.settings.rate.map_or_else(|| "none".to_owned(), rate_text)) }
                    dt { "Limit found" } dd { (found_rate(&found)) }
                    dt { "Closed until" } dd { @match found.closed_until { Some(until) => { (time(until)) ", as its Retry-After asked" }, None => "not closed" } }
                    @if view.caller.groups.is_none() {
                        dt { "Answers in the last second" } dd { (count(found.answers)) }
                        dt { "In flight" } dd { (count(found.in_flight)) }
                        dt { "Customers in line" } dd { (counted(found.active_lanes.iter().sum(), "lane")) }
                    }
                    dt { "Last request of a worker" } dd { (maybe_time(found.asked_at)) }
                }
            }
            section.card { (controls(&view, name, &found)) }
        }
        section.card id="limit" data-live { (limit_history(&view, &app.dashboard.types.of(&type_id))) }
        @if view.caller.groups.is_none() { p { a href=(view.to(format!("dead?type={}", encoded(name)))) { "Dead jobs of this type" } } }
    }))
}

/// The limit over the last hour, with its cuts and recoveries.
fn limit_history(view: &View, samples: &[TypeSample]) -> Markup {
    let rates = samples.iter().map(|one| one.rate_milli.map_or(f64::NAN, |milli| milli as f64 / 1000.0));
    let mut lines = vec![Line { name: "limit", colour: 3, values: rates.collect() }];
    if view.caller.groups.is_none() {
        let answers = samples.iter().map(|one| one.answers as f64).collect();
        lines.push(Line { name: "answers", colour: 2, values: answers });
    }
    let cuts = type_history::cuts(samples);
    let rate = |milli: Option<u64>| {
        milli
            .map_or_else(|| "no limit".to_owned(), |milli| format!("{}/s", per_second(milli as f64 / 1000.0)))
    };
    html! {
        h2 { "The limit over the last hour" }
        @if samples.len() < 2 { p.empty { "The first figures come within ten seconds." } }
        @else {
            (chart::plain("Jobs per second", &lines, per_second))
            p.muted { "From " (time(samples[0].at)) ", every five seconds. After a 429 the limit falls, grows back to where it was, and then slowly beyond." }
            h3 { "Cuts" }
            @if cuts.is_empty() { p.empty { "None: the downstream refused no job in this time." } }
            @else {
                div.table tabindex="0" role="region" aria-label="Cuts of the limit" {
                    table {
                        thead { tr { th scope="col" { "When" } th.number scope="col" { "Limit before" } th.number scope="col" { "Limit after" } th scope="col" { "Retry-After" } } }
                        tbody { @for cut in cuts.iter().take(CUTS_SHOWN) { tr {
                            th scope="row" { (time(cut.at)) }
                            td.number { (rate(cut.from_milli)) }
                            td.number { (rate(cut.to_milli)) }
                            td { @if cut.is_closed { "asked to wait" } @else { "–" } }
                        } } }
                    }
                }
                @if cuts.len() > CUTS_SHOWN { p.muted { "The last " (CUTS_SHOWN) " of " (count(cuts.len() as u64)) "." } }
            }
        }
    }
}

fn controls(view: &View, name: &str, found: &TypeView) -> Markup {
    let settings = &found.settings;
    if !view.may(Permission::Operate) {
        return html! { h2 { "Settings" } p.muted { "Your role may look, and change nothing here." } };
    }
    let action = view.to(format!("types/{}", encoded(name)));
    let (act, label) = if settings.paused { ("resume", "Resume") } else { ("pause", "Pause") };
    html! {
        h2 { "Settings" }
        form.stack method="post" action=(action) {
            input type="hidden" name="act" value="set";
            label for="rate" { "Rate" }
            input id="rate" name="rate" value=[settings.rate.map(rate_text)] placeholder="no limit";
            label for="concurrency" { "Jobs at once" }
            input id="concurrency" name="concurrency" type="number" min="1" max="1000000" value=[settings.concurrency] placeholder="no limit";
            label for="retries" { "Retries" }
            input id="retries" name="retries" type="number" min="0" value=[settings.max_retry_count] placeholder="as set for the queue";
            button type="submit" { "Save" }
        }
        form.inline method="post" action=(action) {
            input type="hidden" name="act" value=(act);
            button.danger[!settings.paused] type="submit" { (label) }
            span.muted { "Concerns the jobs of all customers." }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Controls {
    act: String,
    rate: Option<String>,
    concurrency: Option<String>,
    retries: Option<String>,
}

pub(super) async fn change(
    view: View,
    State(app): State<Shared>,
    Path(TypePath { r#type: name }): Path<TypePath>,
    Form(controls): Form<Controls>,
) -> Result<Response, Problem> {
    let handle = app.fairlane.job_type(&name);
    let done = match controls.act.as_str() {
        "pause" => handle.pause().apply().await.map(|_| "paused")?,
        "resume" => handle.resume().apply().await.map(|_| "resumed")?,
        "set" => {
            let rate = filled(controls.rate).map(|text| parse_rate(&text)).transpose();
            let rate = rate.map_err(|error| ProblemKind::Invalid.because(error.to_string()))?;
            let whole =
                |name: &str, field: Option<String>| filled(field).map(|text| number(name, &text)).transpose();
            let patch = TypePatch {
                rate: Some(rate),
                concurrency: Some(whole("jobs at once", controls.concurrency)?),
                max_retry_count: Some(whole("retries", controls.retries)?),
                ..TypePatch::default()
            };
            handle.patch(patch).apply().await.map(|_| "saved")?
        }
        other => return Err(unknown_act(other)),
    };
    Ok(see_other(&view.to(format!("types/{}?done={done}", encoded(&name)))))
}
