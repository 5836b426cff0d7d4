//! Dead jobs: filtered, requeued, discarded.

use axum::extract::State;
use axum::response::Response;
use fairlane::{Dead, DeadFilter, parse_duration};
use fairlane_core::{GroupId, TypeId};
use maud::html;
use serde::Deserialize;

use super::customer::unknown_act;
use super::dead_action::{Act, DeadActions, Order, uncharged};
use super::form::{Form, filled};
use super::format::encoded;
use super::jobs;
use super::page::{Section, View, named, see_other};
use crate::access::Permission;
use crate::app::Shared;
use crate::extract::Query;
use crate::problem::{Problem, ProblemKind};

/// Number of dead jobs on a page.
const PAGE: usize = 100;

#[derive(Deserialize, Default)]
pub(super) struct Filter {
    group: Option<String>,
    r#type: Option<String>,
    code: Option<String>,
    older_than: Option<String>,
    cursor: Option<u64>,
}

impl Filter {
    /// The dead jobs that it includes. A key bound to groups must name one of them.
    fn checked(&self, view: &View, dead: Dead) -> Result<Option<Dead>, Problem> {
        let group: Option<GroupId> = named(self.group.clone())?;
        let job_type: Option<TypeId> = named(self.r#type.clone())?;
        match &group {
            Some(group) => view.caller.check_group(group)?,
            None if view.caller.groups.is_some() => return Ok(None),
            None => {}
        }
        let older_than = filled(self.older_than.clone()).map(|text| parse_duration(&text)).transpose();
        let older_than = older_than.map_err(|error| ProblemKind::Invalid.because(error.to_string()))?;
        Ok(Some(dead.filter(DeadFilter {
            group: group.map(|group| group.to_string()),
            job_type: job_type.map(|name| name.to_string()),
            code: filled(self.code.clone()),
            older_than,
        })))
    }

    fn fields(&self) -> [(&'static str, &'static str, Option<String>); 4] {
        [
            ("group", "Customer", filled(self.group.clone())),
            ("type", "Type", filled(self.r#type.clone())),
            ("code", "Error code", filled(self.code.clone())),
            ("older_than", "Older than", filled(self.older_than.clone())),
        ]
    }

    /// The filter in words.
    fn words(&self) -> String {
        let fields = self.fields();
        let words = fields
            .iter()
            .filter_map(|(_, label, value)| Some(format!("{} {}", label.to_lowercase(), value.as_ref()?)));
        let words: Vec<String> = words.collect();
        if words.is_empty() { "all dead jobs".to_owned() } else { words.join(", ") }
    }

    fn query(&self) -> String {
        let fields = self.fields();
        let pairs =
            fields.iter().filter_map(|(name, _, value)| Some(format!("{name}={}", encoded(value.as_ref()?))));
        pairs.collect::<Vec<_>>().join("&")
    }
}

pub(super) async fn list(
    view: View,
    State(app): State<Shared>,
    Query(filter): Query<Filter>,
) -> Result<Response, Problem> {
    let cursor = filter.cursor.unwrap_or(0);
    let found = match filter.checked(&view, app.fairlane.dead())? {
        Some(dead) => Some(dead.page(cursor, PAGE).await?),
        None => None,
    };
    let link = |cursor: u64| view.to(format!("dead?{}&cursor={cursor}", filter.query()));
    Ok(view.page(Section::Dead, "Dead jobs", html! {
        h1 { "Dead jobs" }
        p.lead { "Jobs that failed for good or are out of attempts, oldest first." }
        form.filter role="search" method="get" action=(view.to("dead")) {
            @for (name, label, value) in filter.fields() {
                span.field {
                    label for=(name) { (label) }
                    input id=(name) name=(name) value=[value] maxlength="128" placeholder=[(name == "older_than").then_some("1h")]
                        data-focus[name == "group"];
                }
            }
            button type="submit" { "Filter" }
        }
        div id="action" data-live { (app.dashboard.dead_actions.show(&view, &view.to("dead"))) }
        @match &found {
            None => p.empty { "Enter one of your customers." },
            Some((dead, next)) => {
                @if view.may(Permission::Produce) && (!dead.is_empty() || next.is_some()) { (controls(&view, &filter)) }
                section.card id="dead" data-live {
                    @if dead.is_empty() {
                        p.empty { @if next.is_some() { "No job on this page matches; there are more to look through." } @else { "No dead jobs match. " } }
                    } @else { (jobs::table(&view, dead)) }
                    nav.pager aria-label="More dead jobs" {
                        @if cursor > 0 { a.button href=(link(0)) { "First page" } }
                        @if let Some(next) = next { a.button href=(link(*next)) rel="next" { "Next" } }
                    }
                }
            }
        }
    }))
}

fn controls(view: &View, filter: &Filter) -> maud::Markup {
    let what =
        if filter.query().is_empty() { "all dead jobs" } else { "all dead jobs that match the filter" };
    html! {
        form.inline method="post" action=(view.to("dead")) {
            @for (name, _, value) in filter.fields() { @if let Some(value) = value { input type="hidden" name=(name) value=(value); } }
            button type="submit" name="act" value="requeue" data-confirm={ "Requeue " (what) "?" } { "Requeue all that match" }
            button.danger type="submit" name="act" value="discard" data-confirm={ "Discard " (what) "? They cannot be restored." } { "Discard all that match" }
            span.muted { "This runs in the background; the page shows its progress." }
        }
        br;
    }
}

#[derive(Deserialize)]
pub(super) struct Controls {
    #[serde(default)]
    act: String,
    group: Option<String>,
    r#type: Option<String>,
    code: Option<String>,
    older_than: Option<String>,
}

pub(super) async fn change(
    view: View,
    State(app): State<Shared>,
    Form(controls): Form<Controls>,
) -> Result<Response, Problem> {
    let Controls { act, group, r#type, code, older_than } = controls;
    let filter = Filter { group, r#type, code, older_than, cursor: None };
    let Some(dead) = filter.checked(&view, uncharged(&app))? else {
        return Err(ProblemKind::Forbidden.because("this key is bound to customers; name one of them"));
    };
    let path = view.to(format!("dead?{}", filter.query()));
    let act = match act.as_str() {
        "requeue" => Act::Requeue,
        "discard" => Act::Discard,
        "stop" => {
            app.dashboard.dead_actions.stop(&view)?;
            return Ok(see_other(&format!("{path}&done=stopping")));
        }
        other => return Err(unknown_act(other)),
    };
    let order = Order {
        act,
        dead,
        group: named(filter.group.clone())?,
        filter: filter.words(),
        key: view.caller.name.clone(),
    };
    DeadActions::start(&app, order).await?;
    Ok(see_other(&path))
}
