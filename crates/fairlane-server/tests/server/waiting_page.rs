//! The public page of a waiting room, over HTTP and in a real browser.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use fairlane::{Fairlane, PassVerifier, Room, RoomName, RoomSettings};
use fairlane_server::passes::PassKeyFile;
use fairlane_server::{ServerSettings, WaitingPage};
use fairlane_testkit::browser::{Browser, PHONE};
use fairlane_testkit::wait::eventually;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode, header};
use tempfile::TempDir;

use crate::running::Running;

const PAGE: &str = "/rooms/concert/wait";
const TITLE: &str = "The Lane Festival";
const TEXT: &str = "Tickets for Saturday and Sunday.\nFour per person.";

/// A server with a page for a room with one place.
struct Site {
    running: Running,
    room: Room,
    /// Does not follow redirects.
    client: Client,
    _folder: TempDir,
}

impl Site {
    /// Visitors are sent to an address at which nothing listens.
    async fn start(change: impl FnOnce(WaitingPage) -> WaitingPage) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pass-keys.json");
        PassKeyFile::at(&path).create().unwrap();
        let targets = ["http://127.0.0.1:1/shop".to_owned()];
        let page = change(WaitingPage::new(TITLE, TEXT, &targets).unwrap());
        let waiting_pages = BTreeMap::from([(RoomName::new("concert").unwrap(), page)]);
        let settings = ServerSettings { pass_keys: Some(path), waiting_pages, ..ServerSettings::default() };
        let fairlane = Fairlane::open("memory:").await.unwrap();
        let room = fairlane.room("concert");
        room.set(RoomSettings { max_active: 1, ..RoomSettings::default() }).await.unwrap();
        let running = Running::start_with(fairlane, None, settings).await;
        let client = Client::builder().no_proxy().tls_certs_only([]).redirect(Policy::none());
        Self { running, room, client: client.build().unwrap(), _folder: folder }
    }

    async fn get(&self, path: &str, cookie: Option<&str>) -> Response {
        let request = self.client.request(Method::GET, self.running.url(path));
        let cookie = cookie.map_or(String::new(), |value| format!("other=1; fairlane_visitor={value}"));
        request.header(header::COOKIE, cookie).send().await.unwrap()
    }

    /// A browser at the page, behind one active user and `others` waiters.
    async fn crowded(&self, others: usize) -> Browser {
        self.room.join("active").await.unwrap();
        for number in 0..others {
            self.room.join(&format!("waiter {number}")).await.unwrap();
        }
        let browser = Browser::start().await;
        browser.open(&self.running.url(PAGE)).await;
        browser
    }
}

fn location(response: &Response) -> String {
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    response.headers()["location"].to_str().unwrap().to_owned()
}

const ADA: &str = "0123456789abcdef0123456789abcdef";
const BOB: &str = "fedcba9876543210fedcba9876543210";

#[tokio::test]
async fn visitor_gets_a_cookie_before_a_place() {
    let site = Site::start(|page| page).await;
    let first = site.get(&format!("{PAGE}?return=http%3A%2F%2F127.0.0.1%3A1%2Fshop%2F7"), None).await;
    assert_eq!(location(&first), "wait?checked=1&return=http%3A%2F%2F127.0.0.1%3A1%2Fshop%2F7");
    let cookie = first.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Lax") && !cookie.contains("Secure"), "{cookie}");
    let encrypted = site.client.get(site.running.url(PAGE)).header("x-forwarded-proto", "https").send();
    assert!(encrypted.await.unwrap().headers()["set-cookie"].to_str().unwrap().ends_with("; Secure"));
    let without = site.get(&format!("{PAGE}?checked=1"), None).await.text().await.unwrap();
    assert!(without.contains("Please allow cookies"), "{without}");
    let view = site.room.view().await.unwrap().unwrap();
    assert_eq!(view.totals.joined, 0, "no cookie has come back yet");
    for _ in 0..3 {
        location(&site.get(PAGE, Some(ADA)).await);
    }
    assert_eq!(site.room.view().await.unwrap().unwrap().totals.joined, 1, "joining is idempotent");
}

#[tokio::test]
async fn admitted_visitor_is_sent_on_with_a_pass() {
    let site = Site::start(|page| page).await;
    let path = format!("{PAGE}?return=http%3A%2F%2F127.0.0.1%3A1%2Fshop%2F7%3Fa%3D1");
    let response = site.get(&path, Some(ADA));
    let url = url::Url::parse(&location(&response.await)).unwrap();
    assert_eq!((url.path(), url.port()), ("/shop/7", Some(1)));
    let query: BTreeMap<_, _> = url.query_pairs().collect();
    assert_eq!(query["a"], "1");
    let keys = site.running.request(Method::GET, "/rooms/jwks.json").send().await.unwrap();
    let verifier = PassVerifier::from_jwks(&keys.text().await.unwrap()).unwrap();
    let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let claims = verifier.verify(&query["fairlane_pass"], "concert", now).unwrap();
    assert!(!claims.sub.contains(ADA) && claims.sub.len() == 32, "a cookie is secret, a user is not");
    let waiting = site.get(PAGE, Some(BOB)).await;
    assert_eq!(waiting.status(), StatusCode::OK);
    let page = waiting.text().await.unwrap();
    assert!(page.contains("Your position") && !page.contains(BOB), "{page}");
}

#[tokio::test]
async fn open_redirects_and_unknown_rooms_are_refused() {
    let site = Site::start(|page| page).await;
    for address in
        ["https%3A%2F%2Fevil.example%2F", "%2F%2Fevil.example", "http%3A%2F%2F127.0.0.1%3A2%2Fshop"]
    {
        for cookie in [None, Some(ADA)] {
            let response = site.get(&format!("{PAGE}?return={address}"), cookie).await;
            assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{address}");
        }
    }
    for path in ["", "/events"] {
        let other = site.get(&format!("/rooms/other/wait{path}"), Some(ADA)).await;
        assert_eq!(other.status(), StatusCode::NOT_FOUND);
    }
    assert!(site.running.fairlane.room("other").view().await.unwrap().is_none(), "no visitor makes a room");
}

#[tokio::test]
async fn page_allows_nothing_from_elsewhere_and_only_its_own_script() {
    let site = Site::start(|page| page).await;
    site.room.join("active").await.unwrap();
    let (one, two) = (site.get(PAGE, Some(ADA)).await, site.get(PAGE, Some(ADA)).await);
    let policy =
        |response: &Response| response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy(&one).starts_with("default-src 'none'; style-src 'nonce-"));
    assert_ne!(policy(&one), policy(&two), "a nonce is used once");
    assert_eq!(one.headers()["cache-control"], "no-store");
    assert_eq!(one.headers()["referrer-policy"], "no-referrer");
    let text = one.text().await.unwrap();
    assert!(!text.contains("http://") && !text.contains("https://"), "no request elsewhere: {text}");
    assert!(text.contains(r#"<noscript><meta http-equiv="refresh" content="5"></noscript>"#), "{text}");
}

#[tokio::test]
async fn visitor_leaves_and_sees_closed_rooms() {
    let site = Site::start(|page| page).await;
    site.room.join("active").await.unwrap();
    site.get(PAGE, Some(ADA)).await;
    let leave = site.client.post(site.running.url("/rooms/concert/wait/leave"));
    let left = leave.header(header::COOKIE, format!("fairlane_visitor={ADA}")).send().await.unwrap();
    assert!(left.text().await.unwrap().contains("You have left the line"));
    let view = site.room.view().await.unwrap().unwrap();
    assert_eq!((view.totals.left, &view.waiting[..]), (1, &[0][..]));
    site.room.close().await.unwrap();
    assert!(site.get(PAGE, Some(BOB)).await.text().await.unwrap().contains("No one can join"));
}

#[tokio::test]
async fn position_is_live_in_a_browser_until_the_visitor_is_sent_on() {
    let site = Site::start(|page| page).await;
    let browser = site.crowded(1340).await;
    browser.until_text("1,341").await;
    browser.assert_accessible().await;
    browser.prefer_dark(false).await;
    browser.screenshot("waiting-page-light").await;
    browser.prefer_dark(true).await;
    browser.assert_accessible().await;
    browser.screenshot("waiting-page-dark").await;
    site.room.pause("We are adding more seats. Back at noon.").await.unwrap();
    browser.until_text("Back at noon").await;
    browser.resize(PHONE).await;
    browser.assert_accessible().await;
    browser.screenshot("waiting-page-paused-phone").await;
    site.room.resume().await.unwrap();
    for number in 0..1340 {
        site.room.revoke(&format!("waiter {number}")).await.unwrap();
    }
    browser.until_text("Your position\n1\n").await;
    browser.assert_no_errors().await;
    site.room.revoke("active").await.unwrap();
    eventually(async || {
        let url = browser.client().current_url().await.unwrap();
        if url.as_str().starts_with("http://127.0.0.1:1/shop?fairlane_pass=") { Ok(()) } else { Err(url) }
    })
    .await;
}

#[tokio::test]
async fn screen_reader_hears_changes_and_not_every_poll() {
    let site = Site::start(|page| page).await;
    let browser = site.crowded(2).await;
    browser.until_text("Your position\n3\n").await;
    let live = async || {
        let script = "return document.querySelector('[aria-live=polite]').textContent";
        browser.client().execute(script, Vec::new()).await.unwrap().as_str().unwrap().to_owned()
    };
    assert!(live().await.starts_with("Your position is 3. Estimated wait: "));
    site.room.revoke("waiter 0").await.unwrap();
    browser.until_text("Your position\n2\n").await;
    let said = live().await;
    assert!(said.starts_with("Your position is 3."), "a move is not announced at once: {said}");
    site.room.pause("").await.unwrap();
    browser.until_text("Paused").await;
    assert_eq!(live().await, "Admission is paused. You keep your place. Your position is 2.");
}

#[tokio::test]
async fn page_works_without_scripts() {
    let site = Site::start(|page| page).await;
    site.room.join("active").await.unwrap();
    let browser = Browser::start().await;
    browser.resize(PHONE).await;
    browser.disable_scripts().await;
    browser.open(&site.running.url(PAGE)).await;
    browser.until_text("Your position\n1\n").await;
    browser.screenshot("waiting-page-no-script-phone").await;
    site.room.revoke("active").await.unwrap();
    // The page loads itself again within a few seconds, and is sent on.
    eventually(async || {
        let url = browser.client().current_url().await.unwrap();
        if url.path() == "/shop" { Ok(()) } else { Err(url) }
    })
    .await;
}

#[tokio::test]
async fn ticket_and_opening_time_are_shown_before_the_opening() {
    let opens_at = UNIX_EPOCH + Duration::from_secs(1_796_119_200);
    let site = Site::start(|page| page.opening_at(opens_at)).await;
    // The only place is taken, so the draw admits no one.
    site.room.join("active").await.unwrap();
    site.room.begin_prequeue().await.unwrap();
    let browser = site.crowded(3).await;
    browser.until_text("Not open yet").await;
    let text = browser.text().await;
    assert!(text.contains("2026") && text.contains("Your name in the published draw"), "{text}");
    browser.resize(PHONE).await;
    browser.assert_accessible().await;
    browser.screenshot("waiting-page-prequeue-phone").await;
    site.room.open_prequeue(|_| Ok(())).await.unwrap();
    browser.until_text("Your position").await;
    browser.assert_no_errors().await;
}
