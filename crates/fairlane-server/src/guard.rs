//! What every request passes: who asks, may they, and is there room.
//!
//! - `guard/allowance.rs`: what one key may take of the server. `guard/strangers.rs`: those without a valid key.
//! - `guard/budget.rs`: its rate. `guard/purse.rs`, `guard/charged.rs`: what a request spends of it. `guard/line.rs`:
//!   how refusals leave.
//! - `guard/trail.rs`: what is logged of destructive commands.
//! - `guard/site.rs`: where no key is asked for, who may come. `guard/kept.rs`: an answer on its way.
//!
//! Invariant: behind the guard every request has a [`Caller`] whose role allows its route; a group in the path is
//! one of theirs, and what is held ends when the key does. Whoever asks for too much is answered late: that slows it
//! down instead of the others.

mod allowance;
mod budget;
mod charged;
mod kept;
mod line;
mod purse;
mod site;
mod strangers;
mod trail;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use fairlane_core::GroupId;
use fairlane_engine::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use allowance::Allowance;
pub(crate) use charged::Charged;
use kept::keep;
use purse::Purse;
pub(crate) use purse::{Uncounted, large_body, on_account, spend};
use strangers::Strangers;

use crate::access::{Caller, Pace, Permission, Route, Scope};
use crate::app::Shared;
use crate::bodies;
use crate::extract::Named;
use crate::figures::{Measured, Present};
use crate::idempotency::IN_DOUBT;
use crate::keys::{Keys, Presented};
use crate::problem::{Problem, ProblemKind};
use crate::serve::Peer;
use crate::settings::ServerSettings;

/// How long a place is waited for, and when to come back if there was none.
const COME_BACK: Duration = Duration::from_secs(1);
/// The part of the long polls and event streams that is for workers alone: whoever watches must not keep them out.
const FOR_WORK_PART: usize = 8;

/// Who may come in, and how many at once.
pub struct Guard {
    keys: Option<Arc<Keys>>,
    strangers: Strangers,
    brief: Arc<Semaphore>,
    held: Arc<Semaphore>,
    /// Of these, places that are not for workers alone.
    watched: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// A request's places, its own key's and the server's.
type Room = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

impl Guard {
    /// A guard; without keys everybody on this machine is let in.
    pub fn new(keys: Option<Arc<Keys>>, settings: &ServerSettings) -> Self {
        Self {
            keys,
            strangers: Strangers::default(),
            brief: places(settings.requests_max),
            held: places(settings.held_max),
            watched: places(settings.held_max - settings.held_max / FOR_WORK_PART),
            streams: places(settings.streams_max),
        }
    }

    /// The key of a request; none where no key is asked for.
    fn key(&self, headers: &HeaderMap) -> Result<Option<Presented>, Problem> {
        let Some(keys) = self.keys.as_ref().filter(|keys| keys.are_asked_for()) else { return Ok(None) };
        let named = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let text = named
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match (keys.find(text.map_or("", |(_, text)| text.trim())), text) {
            (Some(presented), _) => Ok(Some(presented)),
            (None, Some(_)) => Err(ProblemKind::Unauthenticated.because(
                "the key is not known here, was revoked, or is past its time; ask an operator for another",
            )),
            (None, None) => {
                Err(ProblemKind::Unauthenticated
                    .because("send a key with the header Authorization: Bearer KEY"))
            }
        }
    }

    async fn room(&self, route: &Route, allowance: Option<&Allowance>) -> Result<Room, Response> {
        let own = match allowance {
            Some(allowance) => Some(allowance.room(route.pace).await?),
            None => None,
        };
        let is_watching = route.pace == Pace::Held && route.permission != Permission::Work;
        let places = match route.pace {
            Pace::Brief => &self.brief,
            Pace::Held => &self.held,
            Pace::Stream => &self.streams,
        };
        let full = |_| {
            ProblemKind::Overloaded
                .because("the server has as many requests as it takes; try again")
                .retry_after(COME_BACK)
                .into_response()
        };
        let watched =
            is_watching.then(|| self.watched.clone().try_acquire_owned()).transpose().map_err(full)?;
        let place = places.clone().try_acquire_owned().map_err(full)?;
        Ok((own, watched, place))
    }
}

/// The one layer around every route of the table: more of them would cost boxes and copies for each request.
pub(crate) async fn guard(
    State(app): State<Shared>,
    path: MatchedPath,
    params: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let Some(route) = Route::find(request.method(), path.as_str()) else {
        return ProblemKind::MethodNotAllowed.because("the path does not take this method").into_response();
    };
    let request = bodies::whole(&app, request);
    let mut measured = Measured::begin(route, &request);
    let mut response = admit(&app, &mut measured, params, request, next).await;
    mark(&mut response);
    measured.end(&app.figures, &response);
    response
}

/// Answers are for whoever asked, and are what they say they are.
pub(crate) fn mark(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

async fn admit(
    app: &Shared,
    measured: &mut Measured,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = measured.route();
    let peer = request.extensions().get::<Peer>().cloned();
    let presented = match authenticate(app, request.headers(), peer).await {
        Ok(presented) => presented,
        Err(refusal) => return refusal,
    };
    let key = presented.as_ref().map(|presented| presented.key.clone());
    let caller = key.as_ref().map_or_else(Caller::anonymous, |key| key.caller.clone());
    measured.comes_from(&caller);
    let allowance = key.as_ref().map(|key| {
        let new = || {
            let is_bound = key.caller.groups.is_some();
            Allowance::new(key.rate().or(app.settings.key_rate), is_bound, &app.settings)
        };
        key.allowance.get_or_init(new)
    });
    let purse = match allowance {
        Some(allowance) => match allowance.pass(route.pace).await {
            Ok(purse) => purse,
            Err(refusal) => return refusal,
        },
        None => None,
    };
    let params = params.map_err(|error| ProblemKind::Malformed.because(error.body_text()));
    if let Err(problem) = params.and_then(|params| check(&caller, route, &params)) {
        return problem.into_response();
    }
    let room = match app.guard.room(route, allowance).await {
        Ok(room) => room,
        Err(refusal) => return refusal,
    };
    measured.is_admitted();
    let name = caller.name.clone();
    request.extensions_mut().insert(caller);
    let is_safe = request.method().is_safe();
    let run = bodies::run(request, next, allowance.map(Allowance::bodies));
    let run = unbroken(route, trail::on_behalf(name, Purse::run(purse, run)));
    match route.pace {
        Pace::Held | Pace::Stream => {
            let room = (room, Present::held());
            let mut ended: BoxFuture<'static, ()> = match (presented, app.guard.keys.clone()) {
                (Some(presented), _) => Box::pin(presented.ended()),
                (None, Some(keys)) => Box::pin(async move { keys.asked_for().await }),
                (None, None) => Box::pin(std::future::pending()),
            };
            // Events are looked for once for all who watch, and not paid for.
            let spending = allowance.filter(|_| route.pace == Pace::Stream).and_then(Allowance::spending);
            tokio::select! {
                answer = run => keep(answer, Some(ended), spending.cloned(), room),
                () = &mut ended => ProblemKind::Unauthenticated
                    .because("the key has ended or was changed meanwhile; send the request again if it is still good")
                    .into_response(),
            }
        }
        Pace::Brief => {
            let longest = app.settings.body_whole_timeout + app.settings.request_timeout;
            let answer = tokio::time::timeout(longest, run).await.unwrap_or_else(|_| {
                let what = if is_safe { "try again" } else { IN_DOUBT };
                let detail = format!("the queue did not answer in time; {what}");
                ProblemKind::Unavailable.because(detail).into_response()
            });
            keep(answer, None, None, room)
        }
    }
}

/// The key of a request; none where no key is asked for. From then on its connection is kept alive.
async fn authenticate(
    app: &Shared,
    headers: &HeaderMap,
    peer: Option<Peer>,
) -> Result<Option<Presented>, Response> {
    let presented = match app.guard.key(headers) {
        Ok(presented) => presented,
        Err(problem) => return Err(app.guard.strangers.refuse(peer.as_ref(), problem).await),
    };
    if presented.is_none() {
        site::check(headers).map_err(IntoResponse::into_response)?;
    }
    if let Some(peer) = peer {
        peer.connection.show_key();
    }
    Ok(presented)
}

/// The answer; a panic is told as well, and ends neither the connection nor what else it carries.
async fn unbroken(route: &Route, answering: impl Future<Output = Response>) -> Response {
    let mut answering = pin!(answering);
    poll_fn(|context| {
        // What panicked is not asked again.
        catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(context))).unwrap_or_else(|_| {
            let (method, path) = (route.method.as_str(), route.path);
            tracing::error!(target: "fairlane", method, route = path, "a request has panicked");
            let problem = ProblemKind::Broken.because("the server made a mistake; its log says which");
            Poll::Ready(problem.into_response())
        })
    })
    .await
}

fn check(caller: &Caller, route: &Route, params: &RawPathParams) -> Result<(), Problem> {
    caller.check(route.permission)?;
    match route.scope {
        Scope::Whole => caller.check_whole(),
        Scope::Path => {
            let group = params.iter().find(|(name, _)| *name == "group").map_or("", |(_, value)| value);
            caller.check_group(&GroupId::named(group)?)
        }
        Scope::Named | Scope::Nobody => Ok(()),
    }
}

/// So many places, or as many as there can be.
fn places(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}
