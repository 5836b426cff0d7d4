//! The middleware that every request passes: authentication, authorization, quota and admission.
//!
//! - `guard/auth_throttle.rs`: requests without a valid key. `guard/origin.rs`: requests to a
//!   server that requires no key.
//! - `guard/session.rs`: sessions of browsers.
//! - `guard/key_limits.rs`: the limits of one key. `guard/refusal_pacer.rs`: delays refusals.
//! - `guard/charge.rs`: charges commands to the key's quota. `guard/trail.rs`: logs destructive
//!   commands.
//! - `guard/guarded_body.rs`: a response body that holds the permits of its request.
//!
//! Invariant: behind the guard every request has a [`Caller`] whose role grants the route's
//! permission; a key bound to groups is bound to the group in the path, and long polls and streams
//! end when the key does. Refusals are delayed, which slows down the client that causes them
//! instead of the others.

mod auth_throttle;
mod charge;
mod guarded_body;
mod key_limits;
mod origin;
mod refusal_pacer;
mod session;
mod trail;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use fairlane::LOCAL_ACTOR;
use fairlane_core::GroupId;
use fairlane_engine::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use auth_throttle::AuthThrottle;
pub(crate) use charge::charge_commands;
pub(crate) use guarded_body::guard_body;
pub(crate) use key_limits::KeyLimits;
pub(crate) use origin::check_page;
pub use session::SessionSecret;
use session::Sessions;
pub(crate) use session::{end_session, has_cookie};
use trail::Sender;
pub(crate) use trail::actor;

use crate::access::{Caller, Pace, Permission, Route, Scope, Surface};
use crate::app::Shared;
use crate::bodies;
use crate::extract::Named;
use crate::idempotency::IN_DOUBT;
use crate::keys::{Key, Keys, Presented};
use crate::metrics::{Gauged, RequestTimer};
use crate::problem::{Problem, ProblemKind};
use crate::quota::RequestQuota;
use crate::serve::Peer;
use crate::settings::ServerSettings;
use crate::ui;

/// How long a request waits for a permit, and its `Retry-After` if there was none.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// An eighth of the long polls and event streams is reserved for workers, so that event streams
/// cannot take them all.
const WORKER_SHARE: usize = 8;
/// Visitors of waiting pages may have half of the requests and half of the event streams.
const VISITOR_SHARE: usize = 2;

/// Admits requests: by key, and up to a number of concurrent ones.
pub struct Guard {
    keys: Option<Arc<Keys>>,
    auth_throttle: AuthThrottle,
    sessions: Sessions,
    brief: Arc<Semaphore>,
    held: Arc<Semaphore>,
    /// Of the held requests, those that are not reserved for workers.
    watching: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Requests and event streams of visitors of waiting pages, who have no key.
    visits: Arc<Semaphore>,
    visitor_streams: Arc<Semaphore>,
}

/// The permits of a request: its key's, that of an event stream, and the server's.
type Permits = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

impl Guard {
    /// A guard; without keys every client on this machine is admitted.
    pub fn new(keys: Option<Arc<Keys>>, settings: &ServerSettings) -> Self {
        Self {
            keys,
            auth_throttle: AuthThrottle::default(),
            sessions: Sessions::new(settings),
            brief: permits(settings.requests_max),
            held: permits(settings.held_max),
            watching: permits(settings.held_max - settings.held_max / WORKER_SHARE),
            streams: permits(settings.streams_max),
            visits: permits(settings.requests_max.div_ceil(VISITOR_SHARE)),
            visitor_streams: permits(settings.held_max.div_ceil(VISITOR_SHARE)),
        }
    }

    /// Admits a visitor of a waiting page, who has no key.
    pub(crate) fn admit_visitor(&self, pace: Pace) -> Result<OwnedSemaphorePermit, Problem> {
        let permits = if pace == Pace::Brief { &self.visits } else { &self.visitor_streams };
        permits.clone().try_acquire_owned().map_err(|_| {
            let full =
                ProblemKind::Overloaded.because("the server has as many visitors as it can have; try again");
            full.retry_after(RETRY_AFTER)
        })
    }

    /// The key of a request; `None` where no key is required.
    fn key(&self, headers: &HeaderMap, surface: Surface) -> Result<Option<Presented>, Problem> {
        let Some(keys) = self.keys.as_ref().filter(|keys| keys.are_required()) else { return Ok(None) };
        if surface == Surface::Page
            && let Some(presented) = self.sessions.find(keys, headers)
        {
            return Ok(Some(presented));
        }
        let named = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let text = named
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match (keys.find(text.map_or("", |(_, text)| text.trim())), text) {
            (Some(presented), _) => Ok(Some(presented)),
            (None, Some(_)) => Err(ProblemKind::Unauthenticated
                .because("the key is unknown, revoked or expired; ask an operator for another")),
            (None, None) => {
                Err(ProblemKind::Unauthenticated
                    .because("send a key with the header Authorization: Bearer KEY"))
            }
        }
    }

    /// Opens a session with the key that a user has entered, and returns its cookie. Wrong keys are
    /// refused like requests without a valid key.
    pub(crate) async fn sign_in(
        &self,
        text: &str,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Option<HeaderValue>, Response> {
        let Some(keys) = self.keys.as_ref().filter(|keys| keys.are_required()) else { return Ok(None) };
        if let Some(presented) = keys.find(text.trim()) {
            return Ok(Some(self.sessions.open(&presented, headers)));
        }
        let problem = ProblemKind::Unauthenticated
            .because("this key is unknown, revoked or expired; check it, or ask an operator for another");
        Err(self.auth_throttle.refuse(peer, problem).await)
    }

    async fn permits(&self, route: &Route, limits: Option<&KeyLimits>) -> Result<Permits, Response> {
        let own = match limits {
            Some(limits) => Some(limits.permit(route.pace).await?),
            None => None,
        };
        let is_watching = route.pace == Pace::Held && route.permission != Permission::Work;
        let permits = match route.pace {
            Pace::Brief => &self.brief,
            Pace::Held => &self.held,
            Pace::Stream => &self.streams,
        };
        let full = |_| {
            ProblemKind::Overloaded
                .because("the server has reached its maximum of concurrent requests; try again")
                .retry_after(RETRY_AFTER)
                .into_response()
        };
        let watching =
            is_watching.then(|| self.watching.clone().try_acquire_owned()).transpose().map_err(full)?;
        let permit = permits.clone().try_acquire_owned().map_err(full)?;
        Ok((own, watching, permit))
    }
}

/// The only middleware around the routes of the table: more layers would cost allocations for each
/// request.
pub(crate) async fn guard(
    State(app): State<Shared>,
    path: MatchedPath,
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let Some(route) = Route::find(request.method(), path.as_str()) else {
        return ProblemKind::MethodNotAllowed
            .because("the path does not support this method")
            .into_response();
    };
    let request = bodies::with_drain(&app, request);
    let mut timer = RequestTimer::begin(route, &request);
    let page = (route.surface == Surface::Page).then(|| ui::PageRequest::of(&request));
    let mut response = admit(&app, &mut timer, params, request, next).await;
    set_security_headers(&mut response);
    if let Some(page) = page {
        response = page.present(response);
    }
    timer.end(&app.metrics, &response);
    response
}

/// Forbids caches to store the response, and browsers to guess its content type.
pub(crate) fn set_security_headers(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

async fn admit(
    app: &Shared,
    timer: &mut RequestTimer,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = timer.route();
    let peer = request.extensions().get::<Peer>().cloned();
    let presented = match authenticate(app, request.headers(), route.surface, peer).await {
        Ok(presented) => presented,
        Err(refusal) => return refusal,
    };
    let key = presented.as_ref().map(|presented| presented.key.clone());
    let caller = key.as_ref().map_or_else(Caller::anonymous, |key| key.caller.clone());
    timer.set_caller(&caller);
    let limits = key.as_ref().map(|key| {
        let new = || {
            let is_bound = key.caller.groups.is_some();
            KeyLimits::new(key.rate().or(app.settings.key_rate), is_bound, &app.settings)
        };
        key.limits.get_or_init(new)
    });
    let quota = match limits {
        Some(limits) => match limits.admit(route.pace).await {
            Ok(quota) => quota,
            Err(refusal) => return refusal,
        },
        None => None,
    };
    let params = params.map_err(|error| ProblemKind::Malformed.because(error.body_text()));
    let is_change = route.surface == Surface::Page && !request.method().is_safe();
    let site = if is_change { check_page(request.headers()) } else { Ok(()) };
    let checked = site.and(params).and_then(|params| check(&caller, route, &params));
    if let Err(problem) = checked {
        return problem.into_response();
    }
    let permits = match app.guard.permits(route, limits).await {
        Ok(permits) => permits,
        Err(refusal) => return refusal,
    };
    timer.set_admitted();
    let sender = sender(&caller, key.as_deref(), route);
    request.extensions_mut().insert(caller);
    let is_safe = request.method().is_safe();
    let run = bodies::run(request, next, limits.map(KeyLimits::bodies));
    let run = catch_panic(route, trail::scope(sender, RequestQuota::scope(quota, run)));
    match route.pace {
        Pace::Held | Pace::Stream => {
            let permits = (permits, Gauged::held());
            let mut ended: BoxFuture<'static, ()> = match (presented, app.guard.keys.clone()) {
                (Some(presented), _) => Box::pin(presented.ended()),
                (None, Some(keys)) => Box::pin(async move { keys.required().await }),
                (None, None) => Box::pin(std::future::pending()),
            };
            // Event streams are not charged: all of them share the reads of one watcher.
            let quota = limits.filter(|_| route.pace == Pace::Stream).and_then(KeyLimits::quota);
            tokio::select! {
                response = run => guard_body(response, Some(ended), quota.cloned(), permits),
                () = &mut ended => ProblemKind::Unauthenticated
                    .because("the key has ended or was changed meanwhile; send the request again if it is still valid")
                    .into_response(),
            }
        }
        Pace::Brief => {
            let longest = app.settings.body_whole_timeout + app.settings.request_timeout;
            let response = tokio::time::timeout(longest, run).await.unwrap_or_else(|_| {
                let advice = if is_safe { "try again" } else { IN_DOUBT };
                let detail = format!("the queue did not reply in time; {advice}");
                ProblemKind::Unavailable.because(detail).into_response()
            });
            guard_body(response, None, None, permits)
        }
    }
}

/// The sender of a request. Its changes are recorded if it is an operator, or uses the dashboard.
fn sender(caller: &Caller, key: Option<&Key>, route: &Route) -> Sender {
    static LOCAL: LazyLock<Arc<str>> = LazyLock::new(|| LOCAL_ACTOR.into());
    let is_operator = caller.role.may(Permission::Operate) || route.surface == Surface::Page;
    let actor = is_operator.then(|| key.map_or_else(|| LOCAL.clone(), Key::name));
    Sender::new(caller.name.clone(), actor)
}

/// The key of a request; `None` where no key is required. From then on its connection is kept
/// alive.
async fn authenticate(
    app: &Shared,
    headers: &HeaderMap,
    surface: Surface,
    peer: Option<Peer>,
) -> Result<Option<Presented>, Response> {
    let presented = match app.guard.key(headers, surface) {
        Ok(presented) => presented,
        Err(problem) => return Err(app.guard.auth_throttle.refuse(peer.as_ref(), problem).await),
    };
    if presented.is_none() {
        origin::check(headers).map_err(IntoResponse::into_response)?;
    }
    if let Some(peer) = peer {
        peer.connection.set_has_key();
    }
    Ok(presented)
}

/// The response to a request. A panic of its handler is an error response too, and ends neither the
/// connection nor its other requests.
async fn catch_panic(route: &Route, handler: impl Future<Output = Response>) -> Response {
    let mut handler = pin!(handler);
    poll_fn(|context| {
        // A handler that panicked is not polled again.
        catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context))).unwrap_or_else(|_| {
            let (method, path) = (route.method.as_str(), route.path);
            tracing::error!(target: "fairlane", method, route = path, "a request handler panicked");
            let problem = ProblemKind::Broken.because("internal error; see the server's log");
            Poll::Ready(problem.into_response())
        })
    })
    .await
}

fn check(caller: &Caller, route: &Route, params: &RawPathParams) -> Result<(), Problem> {
    caller.check(route.permission)?;
    match route.scope {
        Scope::AllGroups => caller.check_all_groups(),
        Scope::Path => {
            let group = params.iter().find(|(name, _)| *name == "group").map_or("", |(_, value)| value);
            caller.check_group(&GroupId::named(group)?)
        }
        Scope::Named | Scope::NoGroup => Ok(()),
    }
}

/// A semaphore with this number of permits, or with as many as one can have.
fn permits(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}
