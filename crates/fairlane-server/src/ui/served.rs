//! The jobs of each customer that were served in the last hour, as a chart and as a table, and the
//! details of any moment of it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use fairlane::{Micros, parse_time, time_text};
use fairlane_core::GroupId;
use maud::{Markup, html};
use serde::Deserialize;

use super::chart::{self, Layer};
use super::form::filled;
use super::format::{count, counted, encoded, per_second, percent, span, time};
use super::history::{Hour, Moment, SAMPLE_EVERY};
use super::page::{Section, View};
use crate::api::Jobs;
use crate::app::Shared;
use crate::extract::Query;
use crate::problem::{Problem, ProblemKind};

/// Number of customers with their own colour; the others are drawn together.
const COLOURED: usize = 7;
/// For each width: samples of the chart, samples of one of its columns, and the label of its left
/// edge.
const WIDTHS: [(usize, usize, &str); 4] =
    [(30, 1, "5 min ago"), (90, 2, "15 min ago"), (180, 3, "30 min ago"), (360, 6, "1 hour ago")];
/// Most customers in the table of a moment.
const MOMENT_ROWS: usize = 50;
/// A customer has flooded the queue if it sent this many times as many jobs as all others in a
/// column.
const FLOOD_FACTOR: u64 = 4;
/// The least number of jobs of a flood.
const FLOOD_JOBS_MIN: u64 = 100;

#[derive(Deserialize)]
pub(super) struct Choice {
    /// The moment to show, in RFC 3339.
    at: Option<String>,
}

pub(super) async fn show(
    view: View,
    State(app): State<Shared>,
    Query(choice): Query<Choice>,
) -> Result<Response, Problem> {
    let at = filled(choice.at).map(|text| moment_of(&text)).transpose()?;
    let hour = app.dashboard.history.hour(&app.live);
    let picture = Picture::of(&hour);
    Ok(view.page(Section::Served, "Who was served when", html! {
        h1 { "Who was served when" }
        @match at {
            // A past moment does not change, so it is not reloaded.
            Some(at) => (moment(&view, &hour, at)),
            None => {
                p.lead { "The last hour, customer by customer: above, the jobs that arrived; below, the jobs that were served. A flood of one customer is a tall column above; below, the others keep their share." }
            }
        }
        div id="served" data-live { (picture.show(&view, at)) }
    }))
}

fn moment_of(text: &str) -> Result<Micros, Problem> {
    let at = parse_time(text).map_err(|error| ProblemKind::Invalid.because(error.to_string()))?;
    let since = at.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(Micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX)))
}

/// The link to a moment.
pub(super) fn link(view: &View, at: Micros) -> String {
    view.to(format!("served?at={}", encoded(time_text(at.0 / 1000))))
}

/// The details of a moment.
fn moment(view: &View, hour: &Hour, at: Micros) -> Markup {
    let found = hour.at(at);
    let step = SAMPLE_EVERY.as_micros() as u64;
    html! {
        section.card {
            h2 { "At " (time(at)) }
            @match &found {
                None => p.empty {
                    "This server has no figures of this moment. It keeps the last hour"
                    @if let Some(first) = hour.moments.first() { ", now from " (time(first.from)) }
                    ", in its memory; a restart begins a new hour."
                },
                Some(found) => (moment_facts(view, found)),
            }
            nav.pager aria-label="Moments" {
                a.button href=(link(view, Micros(at.0.saturating_sub(step)))) rel="prev" { "10 seconds earlier" }
                a.button href=(link(view, at.plus_us(step))) rel="next" { "10 seconds later" }
                a.button href=(view.to("served")) { "Now" }
            }
        }
    }
}

fn moment_facts(view: &View, found: &Moment) -> Markup {
    let sample = &found.sample;
    let total = found.total();
    let mut customers: Vec<&(GroupId, Jobs)> = found.customers.iter().collect();
    customers.sort_by_key(|(_, jobs)| std::cmp::Reverse((jobs.served, jobs.arrived)));
    let wait = sample.waits_ms.map_or_else(|| "–".to_owned(), |(median, _)| span(median));
    html! {
        p { "In the " (span(found.over_ms())) " to " (time(found.to)) ", " b { (counted(total.served, "job")) } " of "
            (counted(customers.len() as u64, "customer")) @if found.others != Jobs::default() { " and others" } " were served, and "
            b { (count(total.arrived)) } " arrived." }
        div.tiles {
            @for (label, value) in [
                ("Backlog", count(sample.backlog)), ("Waiting", count(sample.waiting)), ("In flight", count(sample.in_flight)),
                ("Dead", count(sample.dead)), ("Jobs per second in", per_second(sample.enqueued_per_second)),
                ("Jobs per second out", per_second(sample.settled_per_second)), ("Median wait", wait),
            ] { div.tile { span.label { (label) } strong { (value) } } }
        }
        @if customers.is_empty() { p.empty { "No job arrived and none was served through this server." } }
        @else {
            div.table tabindex="0" role="region" aria-label="Customers at this moment" {
                table {
                    thead { tr { th scope="col" { "Customer" } th.number scope="col" { "Arrived" } th.number scope="col" { "Served" } th.number scope="col" { "Share of the served" } } }
                    tbody {
                        @for (group, jobs) in customers.iter().take(MOMENT_ROWS) {
                            tr {
                                th scope="row" { (view.customer(group)) }
                                td.number { (count(jobs.arrived)) } td.number { (count(jobs.served)) }
                                td.number { (percent(jobs.served as f64 / total.served.max(1) as f64)) }
                            }
                        }
                        @if found.others != Jobs::default() {
                            tr { th scope="row" { "Others" } td.number { (count(found.others.arrived)) } td.number { (count(found.others.served)) }
                                td.number { (percent(found.others.served as f64 / total.served.max(1) as f64)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The chart of the hour in columns, with the customers that were served most.
struct Picture {
    columns: Vec<Column>,
    /// Number of columns that fit.
    width: usize,
    oldest: &'static str,
    /// The customers with a colour, the most served first.
    customers: Vec<GroupId>,
    /// How many customers were served.
    number: usize,
    total: Jobs,
}

/// A column of the chart: a part of the hour.
struct Column {
    from: Micros,
    to: Micros,
    /// The end of the moment with the most jobs, to which the column links.
    busiest: Micros,
    /// The jobs of the customers with a colour, and those of the others.
    jobs: Vec<Jobs>,
}

impl Picture {
    fn of(hour: &Hour) -> Self {
        let mut sums: HashMap<&GroupId, Jobs> = HashMap::new();
        let mut total = Jobs::default();
        for one in &hour.moments {
            total += one.total();
            for (group, jobs) in &one.customers {
                *sums.entry(group).or_default() += *jobs;
            }
        }
        let mut ranked: Vec<(&GroupId, Jobs)> = sums.into_iter().collect();
        ranked.sort_by(|(one, a), (other, b)| {
            (b.served + b.arrived).cmp(&(a.served + a.arrived)).then_with(|| one.cmp(other))
        });
        let number = ranked.len();
        let customers: Vec<GroupId> =
            ranked.iter().take(COLOURED).map(|(group, _)| (*group).clone()).collect();
        let fits = |(most, ..): &(usize, usize, &str)| hour.moments.len() <= *most;
        let (most, of_column, oldest) = WIDTHS.into_iter().find(fits).unwrap_or(WIDTHS[3]);
        // Columns begin at round times, so that a moment does not change its column.
        let column_us = of_column as u64 * SAMPLE_EVERY.as_micros() as u64;
        let columns = hour.moments.chunk_by(|one, other| one.to.0 / column_us == other.to.0 / column_us);
        let columns = columns.map(|moments| Column::of(moments, &customers)).collect();
        Self { columns, width: most / of_column + 1, oldest, customers, number, total }
    }

    fn show(&self, view: &View, at: Option<Micros>) -> Markup {
        if self.total == Jobs::default() {
            return html! { section.card { p.empty { "No job has passed through this server in the last hour. The picture begins within ten seconds after the first." } } };
        }
        let layers = |of: fn(&Jobs) -> u64| -> Vec<Layer> {
            (0..=self.customers.len())
                .map(|at| Layer {
                    colour: if at < self.customers.len() { at + 1 } else { COLOURED + 1 },
                    values: self.columns.iter().map(|column| of(&column.jobs[at])).collect(),
                })
                .collect()
        };
        let marked =
            at.and_then(|at| self.columns.iter().position(|column| column.from < at && at <= column.to));
        let links: Vec<String> = self.columns.iter().map(|column| link(view, column.busiest)).collect();
        let draw = |label: &str, layers: &[Layer]| {
            chart::stacked(
                label,
                layers,
                &chart::Columns { room: self.width, oldest: self.oldest, links: &links, marked },
            )
        };
        html! {
            section.card {
                (self.legend(view))
                (draw("Jobs that arrived", &layers(|jobs| jobs.arrived)))
                (draw("Jobs that were served", &layers(|jobs| jobs.served)))
                p { (self.story()) }
                p.muted { "Choose a column to see its busiest moment. Jobs that pass through this server are counted; workers that use Redis directly are not seen. Of every ten seconds, the 100 customers with the most jobs are kept, and those whose page is open." }
            }
            section.card { h2 { "The same as a table" } (self.table(view)) }
        }
    }

    fn legend(&self, view: &View) -> Markup {
        html! {
            p.legend {
                @for (at, group) in self.customers.iter().enumerate() { span.key { span class={ "dot stack-" (at + 1) } {} (view.customer(group)) } }
                @if self.number > self.customers.len() { span.key { span class={ "dot stack-" (COLOURED + 1) } {} "others" } }
            }
        }
    }

    /// A summary of the chart: the flood, if there was one, and the throughput of the others before
    /// and after it.
    fn story(&self) -> Markup {
        let share = |jobs: u64| percent(jobs as f64 / self.total.served.max(1) as f64);
        let own: u64 =
            self.columns.iter().filter_map(|column| column.jobs.first()).map(|jobs| jobs.served).sum();
        html! {
            (counted(self.total.served, "job")) " of " (counted(self.number as u64, "customer")) " were served."
            @if let Some(first) = self.customers.first() { " " b { (first) } " got " (share(own)) " of them." }
            @if let Some(Flood { group, jobs, at, before, after }) = self.flood() {
                " At about " (time(at)) ", " b { (group) } " sent " (counted(jobs, "job")) " at once. The other customers were served "
                (per_second(before)) " jobs a second before it, and " (per_second(after)) " since then."
            }
        }
    }

    /// The largest flood: a column in which one customer sent far more jobs than all others.
    fn flood(&self) -> Option<Flood> {
        let floods = self.columns.iter().enumerate().flat_map(|(at, column)| {
            let all: u64 = column.jobs.iter().map(|jobs| jobs.arrived).sum();
            let is_flood = move |jobs: u64| jobs >= FLOOD_JOBS_MIN && jobs >= FLOOD_FACTOR * (all - jobs);
            let of = column.jobs.iter().take(self.customers.len()).enumerate();
            of.filter(move |(_, jobs)| is_flood(jobs.arrived)).map(move |(who, jobs)| (jobs.arrived, at, who))
        });
        let (jobs, at, who) = floods.max()?;
        let others = |columns: &[Column]| {
            let others = columns.iter().flat_map(|column| {
                column.jobs.iter().enumerate().filter(|(of, _)| *of != who).map(|(_, jobs)| jobs.served)
            });
            let (served, us): (u64, u64) =
                (others.sum(), columns.iter().map(|column| column.to.since(column.from)).sum());
            served as f64 * 1e6 / us.max(1) as f64
        };
        // Without jobs of other customers before the flood, there is nothing to compare.
        let (before, after) = (self.columns.get(..at)?, self.columns.get(at..)?);
        (others(before) > 0.0).then(|| Flood {
            group: self.customers[who].clone(),
            jobs,
            at: self.columns[at].to,
            before: others(before),
            after: others(after),
        })
    }

    fn table(&self, view: &View) -> Markup {
        let cell = |jobs: &Jobs| html! { td.number { @if jobs.served == 0 && jobs.arrived == 0 { span.muted { "–" } } @else { (count(jobs.served)) " of " (count(jobs.arrived)) } } };
        html! {
            p.muted { "Jobs served, of jobs that arrived in the same time." }
            div.table.tall tabindex="0" role="region" aria-label="Jobs served by customer and time" {
                table {
                    thead { tr {
                        th scope="col" { "Until" }
                        @for group in &self.customers { th.number scope="col" { (group) } }
                        @if self.number > self.customers.len() { th.number scope="col" { "Others" } }
                    } }
                    tbody { @for column in self.columns.iter().rev() { tr {
                        th scope="row" { a href=(link(view, column.busiest)) { (time(column.to)) } }
                        @for jobs in column.jobs.iter().take(self.customers.len()) { (cell(jobs)) }
                        @if self.number > self.customers.len() { @if let Some(others) = column.jobs.last() { (cell(others)) } }
                    } } }
                }
            }
        }
    }
}

/// Many jobs of one customer at once, and the throughput of the others before and after it.
struct Flood {
    group: GroupId,
    jobs: u64,
    at: Micros,
    before: f64,
    after: f64,
}

impl Column {
    fn of(moments: &[Arc<Moment>], customers: &[GroupId]) -> Self {
        let mut jobs = vec![Jobs::default(); customers.len() + 1];
        for one in moments {
            for (group, of) in &one.customers {
                let at = customers.iter().position(|customer| customer == group).unwrap_or(customers.len());
                jobs[at] += *of;
            }
            jobs[customers.len()] += one.others;
        }
        let (first, last) = (moments.first(), moments.last());
        let busiest = moments.iter().max_by_key(|one| one.total().arrived + one.total().served);
        Self {
            from: first.map_or(Micros(0), |one| one.from),
            to: last.map_or(Micros(0), |one| one.to),
            busiest: busiest.map_or(Micros(0), |one| one.to),
            jobs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: u64, customers: &[(&str, u64, u64)]) -> Moment {
        let customers = customers.iter().map(|(name, arrived, served)| {
            (GroupId::new(name).unwrap(), Jobs { arrived: *arrived, served: *served })
        });
        Moment::for_tests(Micros(at * 10_000_000), Micros((at + 1) * 10_000_000), customers.collect())
    }

    fn hour(moments: Vec<Moment>) -> Hour {
        Hour { moments: moments.into_iter().map(Arc::new).collect() }
    }

    #[test]
    fn a_flood_is_named_with_what_the_others_got_before_and_after() {
        let calm = |at| moment(at, &[("small", 10, 10), ("large", 5, 5)]);
        let mut moments: Vec<Moment> = (0..5).map(calm).collect();
        moments.push(moment(5, &[("small", 10, 10), ("large", 5000, 50)]));
        moments.push(moment(6, &[("small", 10, 8), ("large", 0, 90)]));
        let picture = Picture::of(&hour(moments));
        let flood = picture.flood().unwrap();
        assert_eq!((flood.group.to_string().as_str(), flood.jobs), ("large", 5000));
        assert_eq!((flood.before, flood.after), (1.0, 0.9));
        assert!(Picture::of(&hour((0..5).map(calm).collect())).flood().is_none());
    }

    #[test]
    fn at_most_seven_customers_have_a_colour_and_columns_end_with_the_newest_moment() {
        let names: Vec<String> = (0..20).map(|n| format!("g{n}")).collect();
        let customers: Vec<(&str, u64, u64)> = names.iter().map(|name| (name.as_str(), 1, 1)).collect();
        let picture = Picture::of(&hour((0..100).map(|at| moment(at, &customers)).collect()));
        assert_eq!((picture.customers.len(), picture.number, picture.width), (COLOURED, 20, 61));
        let last = picture.columns.last().unwrap();
        assert_eq!((last.to, last.jobs.len(), last.jobs[COLOURED].served), (Micros(1_000_000_000), 8, 26));
        assert!(picture.columns.len() <= picture.width);
    }

    /// An hour in which one of eight customers sends 20,000 jobs after 25 minutes.
    fn flooded_hour(history: &crate::ui::History) {
        let now = fairlane_engine::Clock::System.now();
        let mut backlog: u64 = 0;
        for number in 0..360_u64 {
            let ago_us = |samples: u64| (360 - samples) * 10_000_000;
            let (from, to) = (Micros(now.0 - ago_us(number)), Micros(now.0 - ago_us(number + 1)));
            let small = |at: u64| 20 + (number * 7 + at * 13) % 12;
            let mut named: std::collections::HashMap<GroupId, Jobs> = (0..12)
                .map(|at| {
                    let name = ["globex", "initech", "umbrella", "hooli", "stark"].get(at as usize);
                    let name = name.map_or_else(|| format!("customer-{at}"), |name| (*name).to_owned());
                    (GroupId::new(name).unwrap(), Jobs { arrived: small(at), served: small(at) })
                })
                .collect();
            let arrived = if number == 150 { 20_000 } else { 30 };
            backlog += arrived;
            let served = backlog.min(180);
            backlog -= served;
            named.insert(GroupId::new("acme").unwrap(), Jobs { arrived, served });
            let sample = crate::ui::history::Sample { backlog, in_flight: 40, ..Default::default() };
            history.push(from, to, sample, crate::api::CustomerJobs { named, others: Jobs::default() });
        }
    }

    #[tokio::test]
    async fn a_flood_is_visible_in_the_picture_of_an_hour() {
        use fairlane_testkit::browser::{Browser, DESKTOP, PHONE};
        let fairlane = fairlane::Fairlane::open("memory:").await.unwrap();
        let app = Arc::new(crate::app::App::new(fairlane, None, crate::ServerSettings::default()));
        flooded_hour(&app.dashboard.history);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(crate::serve::serve(listener, crate::api::router(app.clone()), app.clone()));
        let browser = Browser::start().await;
        browser.open(&format!("http://{address}/served")).await;
        browser.until_text("acme sent 20,150 jobs at once").await;
        browser.until_text("Live.").await;
        for (size, width) in [(DESKTOP, "desktop"), (PHONE, "phone")] {
            for (is_dark, scheme) in [(false, "light"), (true, "dark")] {
                browser.resize(size).await;
                browser.prefer_dark(is_dark).await;
                browser.assert_accessible().await;
                browser.screenshot(&format!("served-hour-{width}-{scheme}")).await;
            }
        }
        browser.resize(DESKTOP).await;
        // A column links to its moment.
        let column = fantoccini::Locator::Css("svg a:nth-of-type(20)");
        browser.client().find(column).await.unwrap().click().await.unwrap();
        browser.until_text("10 seconds earlier").await;
        browser.until_text("Share of the served").await;
        browser.screenshot("served-moment").await;
        browser.assert_no_errors().await;
    }
}
