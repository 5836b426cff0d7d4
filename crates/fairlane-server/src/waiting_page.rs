//! The public page of a waiting room: visitors see their position, and are sent on when it is their
//! turn.
//!
//! - `waiting_page/brand.rs`: the configuration by an operator. `waiting_page/return_url.rs`: where
//!   visitors are sent. `waiting_page/render.rs`: the HTML. `waiting_page/words.rs`: its sentences.
//!
//! A visitor is identified by a random cookie that scripts cannot read. Its user id in the room is
//! a hash of the cookie, because draws and passes publish user ids. A visitor joins only with a
//! cookie that came back, so that a browser without cookies does not take a new place with every
//! refresh. Joining is idempotent, so every refresh is a poll. The page works without scripts.
//!
//! Invariant: only rooms with a configured page are reachable, visitors are sent to configured
//! addresses only, and they take at most half of the server's requests.

mod brand;
mod render;
mod return_url;
mod words;

pub use brand::{InvalidPage, PageColours, WaitingPage};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use fairlane::{Error, JoinedPlace, PlaceStatus, PlaceView, Room, RoomError, RoomName, RoomRefusal};
use fairlane_engine::EngineError;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use url::Url;

use crate::access::Pace;
use crate::api::{Event, follow_place};
use crate::app::Shared;
use crate::extract::{Path, Query};
use crate::passes::{Passes, no_keys};
use crate::problem::{Problem, ProblemKind};
use render::Screen;

/// The cookie of a visitor.
const COOKIE: &str = "fairlane_visitor";
/// Number of hexadecimal digits of the cookie, and of the user id derived from it.
const VISITOR_DIGITS: usize = 32;
/// How long a browser keeps the cookie, in seconds.
const COOKIE_SECS: u32 = 24 * 60 * 60;
/// Seconds until a page is reloaded if the room does not determine it.
const RETRY_SECS: u64 = 15;

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/rooms/{room}/wait", get(wait))
        .route("/rooms/{room}/wait/events", get(events))
        .route("/rooms/{room}/wait/leave", post(leave))
}

/// The room in a path.
#[derive(Deserialize)]
struct RoomPath {
    room: RoomName,
}

#[derive(Deserialize)]
struct Visit {
    /// Where the visitor wants to go.
    #[serde(rename = "return")]
    return_to: Option<String>,
    /// Present if the server has set the cookie and redirected the visitor.
    checked: Option<String>,
}

/// A visitor of a page.
struct Visitor {
    cookie: String,
}

impl Visitor {
    fn random() -> Result<Self, Problem> {
        let mut bytes = [0; VISITOR_DIGITS / 2];
        getrandom::fill(&mut bytes)
            .map_err(|_| ProblemKind::Broken.because("the operating system gave no random bytes"))?;
        Ok(Self { cookie: hex(&bytes) })
    }

    fn of(headers: &HeaderMap) -> Option<Self> {
        let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let is_valid = |value: &&str| {
            value.len() == VISITOR_DIGITS && value.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let mut found = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value).filter(is_valid);
        found.next().map(|value| Self { cookie: value.to_owned() })
    }

    /// The user id of the visitor in the room, in draws and in passes.
    fn user(&self) -> String {
        hex(&Sha256::digest(self.cookie.as_bytes())[..VISITOR_DIGITS / 2])
    }

    /// The `Set-Cookie` header. Behind a proxy with TLS the cookie is limited to encrypted
    /// connections.
    fn set_cookie(&self, headers: &HeaderMap) -> String {
        let is_encrypted = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
        let secure = if is_encrypted { "; Secure" } else { "" };
        format!("{COOKIE}={}; Path=/; Max-Age={COOKIE_SECS}; HttpOnly; SameSite=Lax{secure}", self.cookie)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A visit to a room that has a page.
struct Visited {
    room: Room,
    name: RoomName,
    page: WaitingPage,
    target: Url,
}

impl Visited {
    /// Gives the visitor a place, or finds the one that it has.
    async fn join(&self, app: &Shared, user: &str) -> Result<JoinedPlace, Error> {
        match tokio::time::timeout(app.settings.request_timeout, self.room.join(user)).await {
            Ok(joined) => joined,
            Err(_) => {
                let reason = "no reply in time".to_owned();
                Err(EngineError::Unavailable { engine: "the store", reason }.into())
            }
        }
    }

    fn new(app: &Shared, name: RoomName, return_to: Option<&str>) -> Result<Self, Problem> {
        let page = app.settings.waiting_pages.get(&name).cloned().ok_or_else(|| {
            ProblemKind::NotFound.because(format!(
                "the room {name} has no public page; an operator adds one with [waiting_pages.{name}]"
            ))
        })?;
        let target =
            page.target(return_to).map_err(|error| ProblemKind::Invalid.because(error.to_string()))?;
        Ok(Self { room: app.fairlane.room(&name), name, page, target })
    }
}

/// The page, or a redirection to the target if it is the visitor's turn.
async fn wait(
    State(app): State<Shared>,
    Path(RoomPath { room }): Path<RoomPath>,
    Query(visit): Query<Visit>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let visited = Visited::new(&app, room, visit.return_to.as_deref())?;
    let _permit = app.guard.admit_visitor(Pace::Brief)?;
    let Some(visitor) = Visitor::of(&headers) else {
        return match visit.checked {
            Some(_) => render::page(&visited.page, &Screen::NoCookies, None),
            None => ask_for_cookie(&visit, &headers),
        };
    };
    let user = visitor.user();
    let screen = match visited.join(&app, &user).await {
        Ok(JoinedPlace { status, .. }) if matches!(status.place, PlaceView::Active { .. }) => {
            match pass(&app, &visited.name, &status)? {
                Some(pass) => return send_on(visited.target, &pass),
                None => Screen::Ended,
            }
        }
        Ok(JoinedPlace { status, .. }) => Screen::of(&status.place),
        Err(Error::Room(RoomError::Refused(RoomRefusal::Closed))) => Screen::Closed,
        Err(Error::Room(_)) => Screen::Full,
        Err(_) => Screen::Unavailable,
    };
    render::page(&visited.page, &screen, Some(&user))
}

/// Sets a cookie, and sends the visitor to the same page again.
fn ask_for_cookie(visit: &Visit, headers: &HeaderMap) -> Result<Response, Problem> {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("checked", "1");
    if let Some(return_to) = &visit.return_to {
        query.append_pair("return", return_to);
    }
    // Relative, so that a proxy may serve the page below another path.
    let mut response = see_other(&format!("wait?{}", query.finish()))?;
    let cookie = HeaderValue::try_from(Visitor::random()?.set_cookie(headers));
    response.headers_mut().insert(header::SET_COOKIE, cookie.expect("digits are valid in a header"));
    Ok(response)
}

fn pass(app: &Shared, room: &RoomName, status: &PlaceStatus) -> Result<Option<String>, Problem> {
    let passes = app.passes.as_ref().ok_or_else(no_keys)?;
    Ok(Passes::view(Some(passes), room, status.clone()).pass)
}

fn send_on(target: Url, pass: &str) -> Result<Response, Problem> {
    see_other(return_url::with_pass(target, pass).as_str())
}

fn see_other(location: &str) -> Result<Response, Problem> {
    let location = HeaderValue::try_from(location)
        .map_err(|_| ProblemKind::Invalid.because("the return address is not valid in a header"))?;
    let headers = [
        (header::LOCATION, location),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Follows the visitor's place. An open stream keeps it.
async fn events(
    State(app): State<Shared>,
    Path(RoomPath { room }): Path<RoomPath>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let visited = Visited::new(&app, room, None)?;
    let permit = app.guard.admit_visitor(Pace::Held)?;
    let visitor = Visitor::of(&headers)
        .ok_or_else(|| ProblemKind::Invalid.because("the request has no cookie; load the page first"))?;
    let joined = visited.join(&app, &visitor.user()).await?;
    let page = visited.page;
    let show = move |status: &PlaceStatus| update(&page, &status.place);
    let response = follow_place(&app, visited.name, joined.token, None, show).await?;
    Ok(crate::guard::guard_body(response, None, None, permit))
}

/// The state of a place as an event for the page.
fn update(page: &WaitingPage, place: &PlaceView) -> Event {
    let screen = Screen::of(place);
    let name = if matches!(place, PlaceView::Waiting { .. }) { "progress" } else { "ended" };
    let data = serde_json::json!({
        "html": render::status(page, &screen).into_string(),
        "kind": screen.kind(),
        "say": words::announcement(&screen),
        "position": screen.position(),
    });
    let data = data.to_string();
    let id = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(data.as_bytes())[..9]);
    Event { name, id, data }
}

/// Gives up the visitor's place.
async fn leave(
    State(app): State<Shared>,
    Path(RoomPath { room }): Path<RoomPath>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let visited = Visited::new(&app, room, None)?;
    let _permit = app.guard.admit_visitor(Pace::Brief)?;
    if let Some(visitor) = Visitor::of(&headers) {
        match visited.join(&app, &visitor.user()).await {
            Ok(joined) => drop(visited.room.leave(&joined.token).await?),
            // A visitor that cannot join has no place.
            Err(Error::Room(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    render::page(&visited.page, &Screen::Left, None)
}
