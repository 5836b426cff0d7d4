//! The frame of every page, pages for errors, and sign-in.

use std::fmt::Display;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use fairlane::JobRef;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Deserialize;

use super::asset::{ICON, SCRIPT, STYLE};
use super::form::Form;
use super::format::{count, encoded};
use super::share::HTML;
use crate::access::{Caller, Permission};
use crate::app::Shared;
use crate::extract::Named;
use crate::guard::{check_page, end_session, has_cookie, set_security_headers};
use crate::problem::{Problem, ProblemDetail, ProblemKind};
use crate::serve::Peer;

/// The content security policy of pages: no content of other sites, no inline scripts or styles, no
/// frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types fairlane";

/// An entry of the navigation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Served,
    Customers,
    Jobs,
    Dead,
    Bulks,
    Types,
    Workers,
    Locks,
    Rooms,
    Rankings,
    Outbox,
    Activity,
    Audit,
}

impl Section {
    /// Each section with its name, its path and its keyboard shortcut.
    const ALL: [(Self, &'static str, &'static str, &'static str); 14] = [
        (Self::Overview, "Overview", "", "o"),
        (Self::Served, "Served", "served", "s"),
        (Self::Customers, "Customers", "customers", "c"),
        (Self::Jobs, "Jobs", "jobs", "j"),
        (Self::Dead, "Dead jobs", "dead", "d"),
        (Self::Bulks, "Bulk actions", "bulks", "b"),
        (Self::Types, "Downstreams", "types", "t"),
        (Self::Workers, "Workers", "workers", "w"),
        (Self::Locks, "Locks", "locks", "l"),
        (Self::Rooms, "Rooms", "rooms", "r"),
        (Self::Rankings, "Rankings", "rankings", "k"),
        (Self::Outbox, "Outbox", "outbox", "x"),
        (Self::Activity, "Activity", "activity", "a"),
        (Self::Audit, "Audit", "audit", "u"),
    ];

    fn is_for(self, caller: &Caller) -> bool {
        match self {
            Self::Overview | Self::Jobs | Self::Dead | Self::Bulks | Self::Types => true,
            Self::Audit => caller.role.may(Permission::Operate) && caller.groups.is_none(),
            _ => caller.groups.is_none(),
        }
    }
}

/// A request for a page: its caller, and the base of its links.
pub(super) struct View {
    /// The relative path from the page to the first page, such as `../`.
    pub root: String,
    pub caller: Caller,
    has_session: bool,
    notice: Option<String>,
}

impl FromRequestParts<Shared> for View {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        Ok(Self {
            root: root(&parts.uri),
            caller,
            has_session: has_cookie(&parts.headers),
            notice: notice(parts.uri.query().unwrap_or("")),
        })
    }
}

/// The relative path to the first page. Links are relative, because a proxy may serve the pages
/// below a prefix that this server does not know.
fn root(uri: &Uri) -> String {
    match uri.path().matches('/').count() {
        0 | 1 => "./".to_owned(),
        depth => "../".repeat(depth - 1),
    }
}

impl View {
    /// Whether the caller has this permission, so that a page shows only controls that work.
    pub fn may(&self, permission: Permission) -> bool {
        self.caller.role.may(permission)
    }

    /// A link to a page.
    pub fn to(&self, path: impl AsRef<str>) -> String {
        format!("{}{}", self.root, path.as_ref())
    }

    /// The page of a customer.
    pub fn customer(&self, group: impl Display) -> Markup {
        html! { a href=(self.to(format!("customers/{}", encoded(&group)))) { (group) } }
    }

    /// The page of a job.
    pub fn job(&self, job: &JobRef) -> Markup {
        let path = format!("jobs/{}/{}", encoded(&job.group), encoded(&job.id));
        html! { a href=(self.to(path)) { (job.id) } }
    }

    /// The page of a type.
    pub fn job_type(&self, name: impl Display) -> Markup {
        html! { a href=(self.to(format!("types/{}", encoded(&name)))) { (name) } }
    }

    /// The link to the next page of a list, if there is one. The last name on this page is appended
    /// to `path`.
    pub fn next_page(&self, label: &str, path: &str, last: Option<impl Display>) -> Markup {
        let next = last.map(|last| self.to(format!("{path}{}", encoded(last))));
        html! {
            @if let Some(next) = next { nav.pager aria-label=(label) { a.button href=(next) rel="next" { "Next" } } }
        }
    }

    /// A page.
    pub fn page(&self, section: Section, title: &str, body: Markup) -> Response {
        let markup = frame(
            &self.root,
            title,
            Some((self, section)),
            html! {
                @if let Some(notice) = &self.notice { p.notice role="status" { (notice) } }
                (body)
            },
        );
        respond(StatusCode::OK, markup)
    }
}

/// The result of a form, as the page that follows shows it. Only fixed texts are shown, because
/// anyone can craft a link.
fn notice(query: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Done {
        done: Option<String>,
        #[serde(default)]
        count: u64,
    }
    let Done { done, count: number } = serde_urlencoded::from_str(query).ok()?;
    let jobs = || format!("{} {}", count(number), if number == 1 { "job" } else { "jobs" });
    Some(match done?.as_str() {
        "saved" => "The settings are saved and in effect.".to_owned(),
        "paused" => "Paused. Running jobs continue; no more start.".to_owned(),
        "resumed" => "Resumed.".to_owned(),
        "cancelled" => "Cancelled. What is running was asked to stop.".to_owned(),
        "held" => "On hold. Running jobs continue; the others are set aside.".to_owned(),
        "requeued" => format!("{} back in their lanes, with all their attempts.", jobs()),
        "discarded" => format!("{} discarded.", jobs()),
        "due" => format!("{} due now.", jobs()),
        "stopping" => "The action stops after its present step.".to_owned(),
        "broken" => "The holders have lost the lock.".to_owned(),
        "opened" => "The waiting room is open.".to_owned(),
        "closed" => "The waiting room is closed: no more users can join.".to_owned(),
        _ => return None,
    })
}

/// The query of a list of names: the last name of the page before.
#[derive(Deserialize)]
pub(super) struct After {
    pub after: Option<String>,
}

/// A response that leads a browser to another page after a form.
pub(super) fn see_other(location: &str) -> Response {
    let location = HeaderValue::try_from(location).unwrap_or(HeaderValue::from_static("./"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

fn respond(status: StatusCode, markup: Markup) -> Response {
    (status, [(header::CONTENT_TYPE, HTML)], markup.into_string()).into_response()
}

fn frame(root: &str, title: &str, view: Option<(&View, Section)>, body: Markup) -> Markup {
    let asset = |name: &str| format!("{root}assets/{name}");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Fairlane" }
                link rel="icon" href=(asset(&ICON.name)) type="image/svg+xml";
                link rel="stylesheet" href=(asset(&STYLE.name));
                script type="module" src=(asset(&SCRIPT.name)) {}
            }
            body data-live-url=[view.map(|_| format!("{root}live"))] {
                a.skip href="#main" { "Skip to content" }
                header.top {
                    a.brand href=(root) { (logo()) "Fairlane" }
                    @if let Some((view, section)) = view { (navigation(root, view, section)) }
                }
                main id="main" { (body) }
                footer.bottom {
                    p id="live" role="status" { @if view.is_some() { "Reload the page to see changes." } }
                    p { "Fairlane " (env!("CARGO_PKG_VERSION")) " · " a href={ (root) "docs/" } { "API" } }
                }
            }
        }
    }
}

fn navigation(root: &str, view: &View, section: Section) -> Markup {
    let entries = Section::ALL.iter().filter(|(of, ..)| of.is_for(&view.caller));
    html! {
        nav aria-label="Pages" {
            ul {
                @for (of, name, path, key) in entries {
                    li {
                        a href={ (root) (path) } data-key=(key) aria-current=[(*of == section).then_some("page")] { (name) }
                    }
                }
            }
        }
        div.who {
            span.muted { (view.caller.role.as_str()) }
            @if view.has_session {
                form method="post" action={ (root) "sign-out" } { button.quiet type="submit" { "Sign out" } }
            }
        }
    }
}

fn logo() -> Markup {
    PreEscaped(include_str!("assets/logo.svg").to_owned())
}

/// The part of a request that an error page needs.
pub(crate) struct PageRequest {
    root: String,
    next: String,
}

impl PageRequest {
    pub fn of(request: &Request) -> Self {
        // After sign-in the browser returns to a page, never to the target of a form.
        let next = if request.method().is_safe() { own_path(request.uri()) } else { String::new() };
        Self { root: root(request.uri()), next }
    }

    /// The response with the headers of a page. A problem becomes a page, and a request without a
    /// session becomes the page for sign-in.
    pub fn present(&self, mut response: Response) -> Response {
        let kind = response.extensions().get::<ProblemKind>().copied();
        if let Some(kind) = kind {
            let detail = response.extensions().get::<ProblemDetail>().cloned();
            let detail = detail.as_ref().map_or("", |detail| &detail.0);
            let page = match kind {
                ProblemKind::Unauthenticated => sign_in_page(&self.root, &self.next, None),
                _ => error_page(&self.root, kind.title(), detail),
            };
            let (mut parts, _) = response.into_parts();
            parts.headers.remove(header::CONTENT_LENGTH);
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML));
            response = Response::from_parts(parts, page.into_string().into());
        }
        protect(&mut response);
        response
    }
}

/// The path of a page without its slash at the front, to which a sign-in leads back.
fn own_path(uri: &Uri) -> String {
    uri.path_and_query().map_or("", |path| path.as_str()).trim_start_matches('/').to_owned()
}

fn protect(response: &mut Response) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Without any referrer, browsers would send forms with the origin `null`.
        (header::REFERRER_POLICY, "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

fn error_page(root: &str, title: &str, detail: &str) -> Markup {
    frame(
        root,
        title,
        None,
        html! {
            section.card.message {
                h1 { (title) }
                p { (sentence(detail)) }
                p { a.button href=(root) { "Go to the overview" } }
            }
        },
    )
}

/// A text that begins in lower case, as a sentence.
pub(super) fn sentence(detail: &str) -> String {
    let mut characters = detail.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if detail.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", characters.as_str())
}

fn sign_in_page(root: &str, next: &str, error: Option<&str>) -> Markup {
    frame(
        root,
        "Sign in",
        None,
        html! {
            section.card.message {
                h1 { "Sign in" }
                @if let Some(error) = error { p.error role="alert" id="wrong" { (sentence(error)) } }
                form method="post" action={ (root) "sign-in" } {
                    label for="key" { "Key" }
                    input id="key" name="key" type="password" required autocomplete="current-password"
                        autofocus placeholder="flk_…" aria-describedby=[error.map(|_| "wrong")];
                    input type="hidden" name="next" value=(next);
                    button type="submit" { "Sign in" }
                }
                p.muted {
                    "An operator creates keys with " code { "fairlane key create --name ada --role viewer" } ". "
                    "If you came here by a link and are signed in already, "
                    a href={ (root) (next) } { "continue" } "."
                }
            }
        },
    )
}

/// The form of the page for sign-in.
#[derive(Deserialize)]
pub(super) struct SignIn {
    key: String,
    #[serde(default)]
    next: String,
}

pub(super) async fn sign_in(State(app): State<Shared>, request: Request) -> Response {
    let mut response = match try_sign_in(&app, request).await {
        Ok(response) => response,
        Err(problem) => {
            let status = problem.kind().status();
            respond(status, error_page("./", problem.kind().title(), problem.detail()))
        }
    };
    set_security_headers(&mut response);
    protect(&mut response);
    response
}

async fn try_sign_in(app: &Shared, request: Request) -> Result<Response, Problem> {
    use axum::extract::FromRequest;
    check_page(request.headers())?;
    let peer = request.extensions().get::<Peer>().cloned();
    let headers = request.headers().clone();
    let Form(SignIn { key, next }) = Form::from_request(request, app).await?;
    match app.guard.sign_in(&key, &headers, peer.as_ref()).await {
        Ok(cookie) => {
            let mut response = see_other(&safe_next(&next));
            if let Some(cookie) = cookie {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            Ok(response)
        }
        Err(refusal) => {
            let detail = refusal.extensions().get::<ProblemDetail>().cloned();
            let detail = detail.as_ref().map_or("the key is not valid", |detail| &detail.0);
            Ok(respond(StatusCode::UNAUTHORIZED, sign_in_page("./", &next, Some(detail))))
        }
    }
}

/// A path of this server: a link to a sign-in must not lead to another site.
fn safe_next(next: &str) -> String {
    let is_own = !next.starts_with(['/', '\\', '.']) && next.bytes().all(|byte| byte.is_ascii_graphic());
    let path = next.split(['?', '#']).next().unwrap_or("");
    if is_own && !path.contains(':') { format!("./{next}") } else { "./".to_owned() }
}

pub(super) async fn sign_out(headers: HeaderMap) -> Response {
    let mut response = match check_page(&headers) {
        Ok(()) => {
            let mut response = see_other("./");
            response.headers_mut().insert(header::SET_COOKIE, end_session());
            response
        }
        Err(problem) => {
            respond(problem.kind().status(), error_page("./", problem.kind().title(), problem.detail()))
        }
    };
    set_security_headers(&mut response);
    protect(&mut response);
    response
}

/// A name in a filter: absent if the field is empty, refused if it is not valid.
pub(super) fn named<T: Named>(field: Option<String>) -> Result<Option<T>, Problem> {
    super::form::filled(field).as_deref().map(T::named).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_begin_at_the_first_page_at_any_depth() {
        let of = |path: &'static str| root(&Uri::from_static(path));
        assert_eq!([of("/"), of("/jobs?x=/a/b"), of("/jobs/a%2Fb/c")], ["./", "./", "../../"]);
    }

    #[test]
    fn a_sign_in_leads_to_this_server_only() {
        for (next, expected) in [
            ("", "./"),
            ("customers?q=a", "./customers?q=a"),
            ("//evil.example", "./"),
            ("https://evil.example", "./"),
            ("javascript:alert(1)", "./"),
            ("\\evil", "./"),
            ("a\r\nb", "./"),
        ] {
            assert_eq!(safe_next(next), expected, "{next}");
        }
    }

    #[test]
    fn only_known_notices_are_shown() {
        assert_eq!(
            notice("done=requeued&count=1200").unwrap(),
            "1,200 jobs back in their lanes, with all their attempts."
        );
        assert_eq!((notice("done=your+account+is+closed"), notice("")), (None, None));
    }
}
