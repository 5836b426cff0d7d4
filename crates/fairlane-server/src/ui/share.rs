//! Requests that share one rendering: any number of browsers that show a page cost the engine one
//! rendering a second.
//!
//! Invariant: a page is shared only between callers with the same rights, and never after a change
//! through this server.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use fairlane_core::GroupId;
use http_body_util::BodyExt;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::access::{Caller, Role};
use crate::app::Shared;
use crate::guard::has_cookie;

/// How long a rendering is reused.
const SHARED_FOR: Duration = Duration::from_secs(1);
/// Most renderings that are kept; further pages are rendered for each request.
const PAGES_MAX: usize = 256;

/// The key of a rendering: the address of the page, the rights of the caller, and whether it can
/// sign out.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Shown {
    address: String,
    has_session: bool,
    role: Role,
    groups: Option<Arc<BTreeSet<GroupId>>>,
}

/// One page; locked while it is rendered.
type Slot = Arc<AsyncMutex<Option<(Instant, Bytes)>>>;

/// The pages that were rendered last.
#[derive(Default)]
pub(crate) struct SharedPages(Mutex<HashMap<Shown, (Instant, Slot)>>);

impl SharedPages {
    fn slot(&self, shown: Shown) -> Option<Slot> {
        let now = Instant::now();
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.len() >= PAGES_MAX && !pages.contains_key(&shown) {
            pages.retain(|_, (used, _)| now.duration_since(*used) < SHARED_FOR);
            if pages.len() >= PAGES_MAX {
                return None;
            }
        }
        let (used, slot) = pages.entry(shown).or_insert_with(|| (now, Slot::default()));
        *used = now;
        Some(slot.clone())
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The middleware around the pages, behind the guard.
pub(crate) async fn share(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let pages = &app.dashboard.shared;
    if request.method() != Method::GET {
        let is_change = !request.method().is_safe();
        let response = next.run(request).await;
        if is_change {
            pages.clear();
            app.dashboard.largest.outdate();
        }
        return response;
    }
    let Some(caller) = request.extensions().get::<Caller>() else { return next.run(request).await };
    let Caller { role, groups, .. } = caller.clone();
    let has_session = has_cookie(request.headers());
    let shown = Shown { address: request.uri().to_string(), has_session, role, groups };
    let Some(slot) = pages.slot(shown) else { return next.run(request).await };
    let mut rendered = slot.lock().await;
    if let Some((at, body)) = &*rendered
        && at.elapsed() < SHARED_FOR
    {
        return html(body.clone());
    }
    let response = next.run(request).await;
    let is_page = response.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == HTML);
    if response.status() != StatusCode::OK || !is_page {
        return response;
    }
    match response.into_body().collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            *rendered = Some((Instant::now(), body.clone()));
            html(body)
        }
        // This cannot happen, because the body of a page is in memory already.
        Err(_) => Body::empty().into_response(),
    }
}

/// The content type of pages.
pub(super) const HTML: &str = "text/html; charset=utf-8";

fn html(body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, HTML)], body).into_response()
}
