//! The HTML of a waiting page. Everything that is configured or stored is escaped.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fairlane::{PlaceView, time_text};
use fairlane_core::room::Eta;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::brand::{PageColours, WaitingPage};
use super::words::{announcement, range, thousands};
use super::{RETRY_SECS, hex};
use crate::problem::{Problem, ProblemKind};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The least time between two refreshes of a page without scripts, in seconds.
const REFRESH_SECS_MIN: u64 = 5;

/// The content of the page, by the state of the visitor.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Screen {
    /// The visitor waits; without a position before the room has opened.
    Waiting {
        position: Option<u64>,
        waiting: u64,
        eta: Option<Eta>,
        paused: Option<String>,
        refresh_secs: u64,
    },
    /// The visitor is sent on.
    Turn,
    /// The place has ended.
    Ended,
    /// The visitor has given up the place.
    Left,
    /// No user may join.
    Closed,
    /// The room has reached its limit on places.
    Full,
    /// The browser sends no cookies.
    NoCookies,
    /// The store does not reply.
    Unavailable,
}

impl Screen {
    pub fn of(place: &PlaceView) -> Self {
        match place {
            PlaceView::Waiting { position, waiting, eta, next_poll_ms, paused } => Self::Waiting {
                position: *position,
                waiting: *waiting,
                eta: *eta,
                paused: paused.clone(),
                refresh_secs: next_poll_ms.div_ceil(1000).max(REFRESH_SECS_MIN),
            },
            PlaceView::Active { .. } => Self::Turn,
            PlaceView::Unknown => Self::Ended,
        }
    }

    /// The name of the state; a screen reader announces its changes.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Waiting { paused: Some(_), .. } => "paused",
            Self::Waiting { position: None, .. } => "before",
            Self::Waiting { .. } => "waiting",
            Self::Turn => "turn",
            _ => "ended",
        }
    }

    pub fn position(&self) -> Option<u64> {
        match self {
            Self::Waiting { position, .. } => *position,
            _ => None,
        }
    }

    /// The seconds until a browser without scripts reloads the page.
    fn refresh_secs(&self) -> Option<u64> {
        match self {
            Self::Waiting { refresh_secs, .. } => Some(*refresh_secs),
            Self::Turn => Some(0),
            Self::Ended | Self::Closed | Self::Full | Self::Unavailable => Some(RETRY_SECS),
            Self::Left | Self::NoCookies => None,
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        }
    }
}

/// The complete page. `user` is the id of the visitor in the room.
pub(super) fn page(page: &WaitingPage, screen: &Screen, user: Option<&str>) -> Result<Response, Problem> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce)
        .map_err(|_| ProblemKind::Broken.because("the operating system gave no random bytes"))?;
    let nonce = BASE64_STANDARD.encode(hex(&nonce));
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    let headers: [(HeaderName, HeaderValue); 7] = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::try_from(policy).expect("the policy is plain text")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex")),
    ];
    let body = document(page, screen, user, &nonce).into_string();
    Ok((screen.status(), headers, body).into_response())
}

fn document(page: &WaitingPage, screen: &Screen, user: Option<&str>, nonce: &str) -> Markup {
    let is_waiting = matches!(screen, Screen::Waiting { .. });
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.title) }
                @if let Some(seconds) = screen.refresh_secs() {
                    noscript { meta http-equiv="refresh" content=(seconds); }
                }
                style nonce=(nonce) { (PreEscaped(colours(page))) (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (page.title) }
                    @if !page.text.is_empty() { p.text { (page.text) } }
                    #status data-kind=(screen.kind()) data-position=[screen.position()]
                        data-seconds=(screen.refresh_secs().unwrap_or(RETRY_SECS)) { (status(page, screen)) }
                    p #live.unseen role="status" aria-live="polite" { @if is_waiting { (announcement(screen)) } }
                    @if is_waiting {
                        progress #bar aria-hidden="true" hidden {}
                        (footer(screen, user))
                    }
                }
                @if is_waiting || matches!(screen, Screen::Closed | Screen::Full | Screen::Unavailable) {
                    script nonce=(nonce) { (PreEscaped(SCRIPT)) }
                }
            }
        }
    }
}

/// The part of the page that changes.
pub(super) fn status(page: &WaitingPage, screen: &Screen) -> Markup {
    match screen {
        Screen::Waiting { position: Some(position), waiting, eta, paused, .. } => html! {
            p.label { "Your position" }
            p.position { (thousands(*position)) }
            p { "of " (thousands(*waiting)) " waiting" }
            @match (paused, eta) {
                (Some(reason), _) => (paused_notice(reason)),
                (None, Some(eta)) => p { "Estimated wait: " strong { (range(*eta)) } },
                (None, None) => p { "The wait is estimated as soon as the line moves." },
            }
        },
        Screen::Waiting { paused, waiting, .. } => html! {
            p.headline { "Not open yet" }
            @if let Some(opens_at) = page.opens_at {
                @let since = opens_at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                @let text = time_text(since.as_millis() as u64);
                p { "Opens " time datetime=(text) { (text.replace('T', " ").replace(".000Z", " UTC")) } }
            }
            p {
                "You have a ticket, and so have " (thousands(waiting.saturating_sub(1))) " others. The order is drawn at \
                 random when the room opens, so it does not matter when you came."
            }
            @if let Some(reason) = paused { (paused_notice(reason)) }
        },
        Screen::Turn => headline("It is your turn", "You are being sent on."),
        Screen::Ended => html! {
            (headline("Your place has ended", "You were away for too long, or your time was over."))
            p { a.button href="wait" { "Join again" } }
        },
        Screen::Left => html! {
            (headline("You have left the line", "Your place is free for someone else."))
            p { a.button href="../wait" { "Join again" } }
        },
        Screen::Closed => headline("Closed", "No one can join the line at the moment."),
        Screen::Full => {
            headline("The line is full", "Please come back later. This page tries again by itself.")
        }
        Screen::NoCookies => html! {
            (headline("Please allow cookies", "Your place is kept in a cookie, and your browser sent none."))
            p { a.button href="wait" { "Try again" } }
        },
        Screen::Unavailable => headline(
            "One moment, please",
            "The line cannot be reached. You keep your place; this page tries again by itself.",
        ),
    }
}

fn headline(headline: &str, text: &str) -> Markup {
    html! { p.headline { (headline) } p { (text) } }
}

fn paused_notice(reason: &str) -> Markup {
    html! {
        p.notice {
            strong { "Paused. " }
            @if reason.is_empty() { "You keep your place." } @else { (reason) }
        }
    }
}

fn footer(screen: &Screen, user: Option<&str>) -> Markup {
    html! {
        small {
            p {
                "Keep this page open: it updates by itself. If you close it by mistake, come back soon with the same \
                 browser, and you have your place again."
            }
            @if let (None, Some(user)) = (screen.position(), user) {
                p { "Your name in the published draw: " code { (user) } }
            }
        }
        form method="post" action="wait/leave" { button { "Leave the line" } }
    }
}

fn colours(page: &WaitingPage) -> String {
    let variables = |colours: &PageColours| {
        let PageColours { background, foreground, accent } = colours;
        format!(
            ":root{{--background:{background};--foreground:{foreground};--accent:{accent};\
             --line:{foreground}33;--tint:{foreground}12}}"
        )
    };
    let dark = variables(&page.dark);
    format!("{}@media(prefers-color-scheme:dark){{{dark}}}\n", variables(&page.light))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_and_stored_texts_are_escaped() {
        let attack = "<script>alert('x')</script>\"&";
        let page = WaitingPage::new(attack, attack, &["https://shop.example/".to_owned()]).unwrap();
        for position in [None, Some(1)] {
            let screen = Screen::Waiting {
                position,
                waiting: 2,
                eta: None,
                paused: Some(attack.to_owned()),
                refresh_secs: 5,
            };
            let text = document(&page, &screen, Some("user"), "nonce").into_string();
            assert_eq!(text.matches("<script").count(), 1, "only our own: {text}");
            assert_eq!(text.matches("&lt;script&gt;").count(), 4, "title, heading, text and reason: {text}");
        }
    }

    #[test]
    fn texts_of_the_style_and_the_script_cannot_end_their_element() {
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</"));
    }
}
