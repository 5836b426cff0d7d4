//! What every request passes: who asks, may they, and is there room.
//!
//! - `guard/allowance.rs`: what one key may take of the server. `guard/strangers.rs`: those without a valid key.
//! - `guard/site.rs`: where no key is asked for, who may come. `guard/kept.rs`: an answer on its way.
//!
//! Invariant: behind the guard every request has a [`Caller`] whose role allows its route; a group in the path is
//! one of theirs, and what is held ends when the key does. Whoever asks for too much is answered late: that slows it
//! down instead of the others.

mod allowance;
mod kept;
mod site;
mod strangers;

use std::sync::Arc;
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
use kept::keep;
use strangers::Strangers;

use crate::access::{Caller, Pace, Route, Scope};
use crate::app::Shared;
use crate::bodies;
use crate::extract::Named;
use crate::figures::{Measured, Present};
use crate::keys::{Keys, Shown};
use crate::problem::{Problem, ProblemKind};
use crate::serve::Peer;
use crate::settings::ServerSettings;

/// Longest that an answer is kept back.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// Who may come in, and how many at once.
pub struct Guard {
    keys: Option<Arc<Keys>>,
    strangers: Strangers,
    brief: Arc<Semaphore>,
    held: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

/// A request's places, its own key's and the server's.
type Room = (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

impl Guard {
    /// A guard; without keys everybody on this machine is let in.
    pub fn new(keys: Option<Arc<Keys>>, settings: &ServerSettings) -> Self {
        Self {
            keys,
            strangers: Strangers::default(),
            brief: places(settings.requests_max),
            held: places(settings.held_max),
            streams: places(settings.streams_max),
        }
    }

    /// The key of a request; none where no key is asked for.
    fn key(&self, headers: &HeaderMap) -> Result<Option<Shown>, Problem> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let named = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let text = named
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        match (keys.find(text.map_or("", |(_, text)| text.trim())), text) {
            (Some(shown), _) => Ok(Some(shown)),
            (None, Some(_)) => Err(ProblemKind::Unauthenticated.because(
                "the key is not known here, was revoked, or is past its time; ask an operator for another",
            )),
            (None, None) => {
                Err(ProblemKind::Unauthenticated
                    .because("send a key with the header Authorization: Bearer KEY"))
            }
        }
    }

    async fn room(&self, pace: Pace, allowance: Option<&Allowance>) -> Result<Room, Response> {
        let own = match allowance {
            Some(allowance) => Some(allowance.room(pace).await?),
            None => None,
        };
        let places = match pace {
            Pace::Brief => &self.brief,
            Pace::Held => &self.held,
            Pace::Stream => &self.streams,
        };
        let place = places.clone().try_acquire_owned().map_err(|_| {
            ProblemKind::Overloaded
                .because("the server has as many requests as it takes; try again")
                .retry_after(HOLD_MAX)
                .into_response()
        })?;
        Ok((own, place))
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
    let measured = Measured::begin(route, request.headers());
    let mut response = admit(&app, route, params, request, next).await;
    mark(&mut response);
    measured.end(&app.figures, response.status());
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
    route: &'static Route,
    params: Result<RawPathParams, RawPathParamsRejection>,
    mut request: Request,
    next: Next,
) -> Response {
    let shown = match app.guard.key(request.headers()) {
        Ok(shown) => shown,
        Err(problem) => {
            let peer = request.extensions().get::<Peer>().copied();
            return app.guard.strangers.refuse(peer, problem).await;
        }
    };
    if shown.is_none()
        && let Err(problem) = site::check(request.headers())
    {
        return problem.into_response();
    }
    let key = shown.as_ref().map(|shown| shown.key.clone());
    let caller = key.as_ref().map_or_else(Caller::anonymous, |key| key.caller.clone());
    let allowance = key.as_ref().map(|key| {
        key.allowance.get_or_init(|| Allowance::new(key.rate().or(app.settings.key_rate), &app.settings))
    });
    if let Some(allowance) = allowance
        && let Err(refusal) = allowance.pass().await
    {
        return refusal;
    }
    let params = params.map_err(|error| ProblemKind::Malformed.because(error.body_text()));
    if let Err(problem) = params.and_then(|params| check(&caller, route, &params)) {
        return problem.into_response();
    }
    let room = match app.guard.room(route.pace, allowance).await {
        Ok(room) => room,
        Err(refusal) => return refusal,
    };
    request.extensions_mut().insert(caller);
    match route.pace {
        Pace::Held | Pace::Stream => {
            let room = (room, Present::held());
            let mut ended: BoxFuture<'static, ()> = match shown {
                Some(shown) => Box::pin(shown.ended()),
                None => Box::pin(std::future::pending()),
            };
            tokio::select! {
                answer = bodies::run(app, request, next) => keep(answer, Some(ended), room),
                () = &mut ended => ProblemKind::Unauthenticated
                    .because("the key has ended or was changed meanwhile; send the request again if it is still good")
                    .into_response(),
            }
        }
        Pace::Brief => {
            let longest = app.settings.body_whole_timeout + app.settings.request_timeout;
            let answer =
                tokio::time::timeout(longest, bodies::run(app, request, next)).await.unwrap_or_else(|_| {
                    ProblemKind::Unavailable
                        .because("the queue did not answer in time; it is safe to send the request again")
                        .into_response()
                });
            keep(answer, None, room)
        }
    }
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

/// A refusal that also ends the connection: whoever comes again has to come anew.
fn closing(problem: Problem) -> Response {
    let mut response = problem.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
