//! Customers with unfinished jobs: the largest ones; or by name all of them, and those that have
//! settings of their own.

use axum::extract::State;
use axum::response::Response;
use fairlane::{GroupLine, rate_text};
use fairlane_core::GroupId;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart;
use super::form::filled;
use super::format::{badge, count, encoded, per_second, percent, span};
use super::largest::{KEPT_MAX, Largest, Ranked, Ranking};
use super::page::{Section, View, named};
use crate::app::Shared;
use crate::extract::Query;
use crate::problem::Problem;

/// Number of customers on a page.
const PAGE: usize = 50;

#[derive(Deserialize)]
pub(super) struct Filter {
    /// The beginning of the name.
    q: Option<String>,
    /// The number of the page, when sorted by size.
    page: Option<usize>,
    /// The last name of the page before, when sorted by name.
    after: Option<String>,
    sort: Option<String>,
}

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let prefix = filled(filter.q);
    let by_name = prefix.is_some() || filter.sort.as_deref() == Some("name");
    let queue = app.fairlane.queue_view().await?;
    let body = match by_name {
        true => named_list(&view, &app, prefix.as_deref(), named(filter.after)?).await?,
        false => ranked_list(&view, &*Largest::ranking(&app).await?, filter.page.unwrap_or(0)),
    };
    Ok(view.page(
        Section::Customers,
        "Customers",
        html! {
            h1 { "Customers" }
            p.lead { (count(queue.active_groups)) " have unfinished jobs."
                @if by_name { " Customers with settings of their own are listed, too." }
            }
            form.filter role="search" method="get" action=(view.to("customers")) {
                label for="q" { "Name begins with" }
                input id="q" name="q" type="search" value=[prefix.as_deref()] maxlength="128" data-focus;
                button type="submit" { "Search" }
                a.button.quiet href=(view.to(if by_name { "customers" } else { "customers?sort=name" })) {
                    @if by_name { "Largest first" } @else { "Sort by name" }
                }
            }
            section.card id="customers" data-live { (body) }
        },
    ))
}

fn ranked_list(view: &View, ranking: &Ranking, page: usize) -> Markup {
    let shown: Vec<&Ranked> = ranking.groups.iter().skip(page * PAGE).take(PAGE).collect();
    let has_next = ranking.groups.len() > (page + 1) * PAGE;
    html! {
        @if shown.is_empty() {
            p.empty { "No customer has unfinished jobs here. Customers without jobs are found by their exact name." }
        } @else {
            (table(view, ranking, shown.into_iter()))
        }
        p.muted {
            "Sorted by unfinished jobs."
            @if ranking.has_more { " Only the " (count(KEPT_MAX as u64)) " largest are listed here; sort by name to see all." }
        }
        nav.pager aria-label="More customers" {
            @if page > 0 { a.button href=(view.to(format!("customers?page={}", page - 1))) rel="prev" { "Previous" } }
            @if has_next { a.button href=(view.to(format!("customers?page={}", page + 1))) rel="next" { "Next" } }
        }
    }
}

/// A table of ranked customers.
pub(super) fn table<'a>(view: &View, ranking: &Ranking, groups: impl Iterator<Item = &'a Ranked>) -> Markup {
    html! {
        div.table tabindex="0" role="region" aria-label="Customers" {
            table {
                thead { tr {
                    th scope="col" { "Customer" }
                    th.number scope="col" { "Pending" }
                    th.number scope="col" { "Waiting" }
                    th.number scope="col" { "In flight" }
                    th.number scope="col" { "Done/s" }
                    th scope="col" { "Share got, and due" }
                    th scope="col" { "Limits" }
                    th.number scope="col" { "Held back" }
                    th scope="col" { "Backlog" }
                } }
                tbody {
                    @for ranked in groups {
                        @let line = &ranked.line;
                        tr {
                            th scope="row" { (view.customer(&line.group)) @if line.settings.paused { " " (badge("paused", "warn")) } }
                            td.number { (count(line.backlog.saturating_sub(line.waiting))) }
                            td.number { (count(line.waiting)) }
                            td.number { (count(line.in_flight)) }
                            td.number { (ranked.ended_per_second.map_or_else(|| "–".to_owned(), per_second)) }
                            td { @match ranking.share(ranked) {
                                Some((got, due)) => { (chart::share(got, due)) " " (percent(got)) " of " (percent(due)) },
                                None => span.muted { "–" },
                            } }
                            td { (limits(line)) }
                            td.number { (held_back(line)) }
                            td { (chart::spark("Backlog in the last minute", &ranked.trend.iter().map(|value| *value as f64).collect::<Vec<_>>())) }
                        }
                    }
                }
            }
        }
    }
}

/// How long limits held back the jobs of a customer when they last did.
fn held_back(line: &GroupLine) -> Markup {
    html! { @if line.backoff_ms == 0 { span.muted { "none" } } @else { (span(line.backoff_ms)) } }
}

fn limits(line: &GroupLine) -> Markup {
    let settings = &line.settings;
    let rate = settings.rate.map(rate_text);
    let most = settings.concurrency.map(|most| format!("{most} at once"));
    let weight = (settings.weight.get() != 1).then(|| format!("weight {}", settings.weight.get()));
    let parts: Vec<String> = [weight, rate, most].into_iter().flatten().collect();
    html! { @if parts.is_empty() { span.muted { "none" } } @else { (parts.join(", ")) } }
}

async fn named_list(
    view: &View,
    app: &Shared,
    prefix: Option<&str>,
    after: Option<GroupId>,
) -> Result<Markup, Problem> {
    let exact: Option<GroupId> = named(prefix.map(str::to_owned))?;
    // The list begins after a name, so a group whose name equals the prefix is read separately. It
    // may have no jobs.
    let found = match (&exact, &after) {
        (Some(group), None) => app.fairlane.group(group).view().await?.map(|found| (group, found)),
        _ => None,
    };
    let begin = after.clone().or_else(|| exact.clone());
    let mut lines = app.fairlane.all_groups(begin, PAGE).await?;
    let is_full = lines.len() == PAGE;
    lines.retain(|line| prefix.is_none_or(|prefix| line.group.unescaped().starts_with(prefix)));
    let next = lines.last().filter(|_| is_full && lines.len() == PAGE).map(|line| line.group.to_string());
    let query = |next: &str| match prefix {
        Some(prefix) => format!("customers?q={}&after={}", encoded(prefix), encoded(next)),
        None => format!("customers?sort=name&after={}", encoded(next)),
    };
    Ok(html! {
        @if lines.is_empty() && found.is_none() {
            p.empty { "No customer with unfinished jobs or settings of its own has a name that begins like this. Others are found by their exact name." }
        } @else {
            div.table tabindex="0" role="region" aria-label="Customers" {
                table {
                    thead { tr {
                        th scope="col" { "Customer" }
                        th.number scope="col" { "Pending" }
                        th.number scope="col" { "Waiting" }
                        th.number scope="col" { "In flight" }
                        th scope="col" { "Limits" }
                        th.number scope="col" { "Held back" }
                    } }
                    tbody {
                        @if let Some((group, found)) = &found {
                            (row(view, &GroupLine {
                                group: (*group).clone(), backlog: found.backlog, in_flight: found.in_flight, waiting: found.waiting,
                                total: found.total, done: found.done, backoff_ms: 0, settings: found.settings.clone(),
                            }))
                        }
                        @for line in &lines { (row(view, line)) }
                    }
                }
            }
        }
        nav.pager aria-label="More customers" {
            @if after.is_some() { a.button href=(view.to(prefix.map_or_else(|| "customers?sort=name".to_owned(), |prefix| format!("customers?q={}", encoded(prefix))))) { "First page" } }
            @if let Some(next) = &next { a.button href=(view.to(query(next))) rel="next" { "Next" } }
        }
    })
}

fn row(view: &View, line: &GroupLine) -> Markup {
    html! {
        tr {
            th scope="row" { (view.customer(&line.group)) @if line.settings.paused { " " (badge("paused", "warn")) } }
            td.number { (count(line.backlog.saturating_sub(line.waiting))) }
            td.number { (count(line.waiting)) }
            td.number { (count(line.in_flight)) }
            td { (limits(line)) }
            td.number { (held_back(line)) }
        }
    }
}
