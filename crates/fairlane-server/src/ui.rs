//! The dashboard: pages for operators, rendered on the server.
//!
//! - `ui/page.rs`: the frame of every page, errors and sign-in. `ui/format.rs`: numbers, times and
//!   links. `ui/chart.rs`: charts. `ui/form.rs`: the fields of forms.
//! - `ui/asset.rs`: the style sheet and the script. `ui/share.rs`: requests that share one rendering.
//! - `ui/history.rs`: the last hour of the queue. `ui/type_history.rs`: the last hour of the
//!   downstreams. `ui/largest.rs`: the groups with the most unfinished jobs. `ui/activity.rs`: the
//!   activity log. `ui/preview.rs`: the effect of a change before it is made.
//! - One file per page: `overview`, `served`, `customers`, `customer`, `jobs`, `job`, `dead`, `bulks`,
//!   `bulk`, `types`, `workers`, `locks`, `rooms`, `rankings`, `outbox`, `audit`.
//!
//! Invariant: every control is a form that works without a script, and passes the guard like a
//! request to the API. Links are relative, so that a proxy may serve the pages below any prefix.

mod activity;
mod asset;
mod audit;
mod bulk;
mod bulks;
mod chart;
mod customer;
mod customers;
mod dead;
mod dead_action;
mod form;
mod format;
mod history;
mod job;
mod job_search;
mod jobs;
mod largest;
mod locks;
mod outbox;
mod overview;
mod page;
mod preview;
mod rankings;
mod rooms;
mod served;
mod share;
mod type_history;
mod types;
mod workers;

use axum::Router;
use axum::handler::Handler;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};

pub(crate) use history::sample;
pub(crate) use page::PageRequest;
pub(crate) use share::share;
pub(crate) use type_history::sample_types;

use crate::access::{Pace, Permission, Route, Scope, Surface, Verb};
use crate::api::{results, ticks};
use crate::app::Shared;
use dead_action::DeadActions;
use history::History;
use largest::Largest;
use preview::Previews;
use share::SharedPages;
use type_history::TypeHistory;

/// State of the dashboard that does not come from the engine.
#[derive(Default)]
pub(crate) struct Dashboard {
    history: History,
    types: TypeHistory,
    largest: Largest,
    shared: SharedPages,
    previews: Previews,
    dead_actions: DeadActions,
}

/// Pages and forms, each with the permission it requires.
#[derive(Default)]
struct Pages {
    router: Router<Shared>,
    table: Vec<Route>,
}

impl Pages {
    fn get<T: 'static>(self, path: &'static str, scope: Scope, handler: impl Handler<T, Shared>) -> Self {
        self.add(Verb::Get, path, Permission::Read, scope, Pace::Brief, get(handler))
    }

    fn post<T: 'static>(
        self,
        path: &'static str,
        permission: Permission,
        scope: Scope,
        handler: impl Handler<T, Shared>,
    ) -> Self {
        self.add(Verb::Post, path, permission, scope, Pace::Brief, post(handler))
    }

    fn add(
        mut self,
        method: Verb,
        path: &'static str,
        permission: Permission,
        scope: Scope,
        pace: Pace,
        handler: MethodRouter<Shared>,
    ) -> Self {
        self.table.push(Route { method, path, permission, scope, pace, surface: Surface::Page });
        Self { router: self.router.route(path, handler), ..self }
    }
}

fn pages() -> Pages {
    use Permission::{Operate, Produce, Read};
    Pages::default()
        .get("/", Scope::NoGroup, overview::show)
        .add(Verb::Get, "/live", Read, Scope::NoGroup, Pace::Held, get(ticks))
        .get("/served", Scope::AllGroups, served::show)
        .get("/customers", Scope::AllGroups, customers::list)
        .get("/customers/{group}", Scope::Path, customer::show)
        .post("/customers/{group}", Operate, Scope::Path, customer::change)
        .get("/jobs", Scope::Named, jobs::list)
        .get("/jobs/{group}/{job}", Scope::Path, job::show)
        .post("/jobs/{group}/{job}", Produce, Scope::Path, job::change)
        .get("/dead", Scope::Named, dead::list)
        .post("/dead", Produce, Scope::Named, dead::change)
        .get("/bulks", Scope::Named, bulks::list)
        .get("/bulks/{group}/{bulk}", Scope::Path, bulk::show)
        .post("/bulks/{group}/{bulk}", Produce, Scope::Path, bulk::change)
        .add(Verb::Get, "/bulks/{group}/{bulk}/results", Read, Scope::Path, Pace::Stream, results())
        .get("/types", Scope::NoGroup, types::list)
        .get("/types/{type}", Scope::NoGroup, types::show)
        .post("/types/{type}", Operate, Scope::NoGroup, types::change)
        .get("/workers", Scope::AllGroups, workers::list)
        .get("/locks", Scope::AllGroups, locks::list)
        .post("/locks", Operate, Scope::AllGroups, locks::break_lock)
        .get("/rooms", Scope::AllGroups, rooms::list)
        .get("/rooms/{room}", Scope::AllGroups, rooms::show)
        .post("/rooms/{room}", Operate, Scope::AllGroups, rooms::change)
        .get("/rankings", Scope::AllGroups, rankings::list)
        .get("/rankings/{board}", Scope::AllGroups, rankings::show)
        .get("/outbox", Scope::AllGroups, outbox::show)
        .get("/activity", Scope::AllGroups, activity::list)
        .add(Verb::Get, "/audit", Operate, Scope::AllGroups, Pace::Brief, get(audit::show))
        .add(Verb::Post, "/audit", Operate, Scope::AllGroups, Pace::Stream, post(audit::run))
}

/// The pages, with the guard around them.
pub(crate) fn routes() -> Router<Shared> {
    pages().router
}

/// The pages with the permission each requires.
pub(crate) fn table() -> Vec<Route> {
    pages().table
}

/// Sign-in, sign-out and assets, which require no key.
pub(crate) fn open_routes() -> Router<Shared> {
    Router::new()
        .route("/sign-in", post(page::sign_in).get(to_overview))
        .route("/sign-out", post(page::sign_out))
        .route("/assets/{name}", get(asset::serve))
}

/// After an error response the path of a form stays in the address bar; reloading it leads here.
async fn to_overview(_: HeaderMap) -> Response {
    page::see_other("./")
}
