//! The dashboard over plain HTTP: sign-in, roles, origins, headers and forms.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use fairlane::{Fairlane, Job};
use fairlane_core::{Command, Reply, queue};
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer};
use fairlane_server::ServerSettings;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, redirect};
use tempfile::TempDir;

use crate::running::Running;

/// A server with a key for each of these roles.
async fn start(roles: &[Role]) -> (Running, Vec<String>, KeyFile, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("keys.json"));
    let create = |role: &Role| {
        let new = NewKey { name: "k".into(), role: *role, groups: None, rate: None, expires_in: None };
        file.create(new).unwrap().1.reveal().to_owned()
    };
    let tokens = roles.iter().map(create).collect();
    let keys = Arc::new(Keys::open(file.path()).unwrap());
    let fairlane = Fairlane::open("memory:").await.unwrap();
    (Running::start_with(fairlane, Some(keys), ServerSettings::default()).await, tokens, file, folder)
}

/// A client that follows no redirections, like a test of headers needs it.
fn client(running: &Running) -> Client {
    let _ = running;
    Client::builder().no_proxy().tls_certs_only([]).redirect(redirect::Policy::none()).build().unwrap()
}

/// A form that a page of the dashboard sends.
pub fn form(running: &Running, path: &str, body: &str) -> RequestBuilder {
    client(running)
        .post(running.url(path))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
        .body(body.to_owned())
}

async fn sign_in(running: &Running, key: &str) -> Response {
    form(running, "/sign-in", &format!("key={key}&next=customers%3Fq%3Da")).send().await.unwrap()
}

/// The cookie of a session for a key.
async fn session(running: &Running, key: &str) -> String {
    let response = sign_in(running, key).await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

/// A state has one name in the API, on the command line and on every page.
#[tokio::test]
async fn jobs_in_lanes_are_called_pending_on_every_page() {
    let running = Running::start().await;
    running.fairlane.enqueue(Job::new("acme", "mail", &1).id("m1")).await.unwrap().accepted().unwrap();
    for path in ["/", "/customers", "/customers/acme", "/jobs?group=acme&state=pending", "/jobs/acme/m1"] {
        let page = client(&running).get(running.url(path)).send().await.unwrap().text().await.unwrap();
        assert!(page.to_lowercase().contains(">pending<"), "{path}: {page}");
        assert!(!page.contains(">Ready<"), "{path}: {page}");
    }
    let job = client(&running).get(running.url("/api/jobs/acme/m1")).send().await.unwrap();
    let job: serde_json::Value = serde_json::from_str(&job.text().await.unwrap()).unwrap();
    assert_eq!(job["state"], "pending");
}

#[tokio::test]
async fn a_key_opens_a_session_that_a_browser_keeps() {
    let (running, tokens, file, _folder) = start(&[Role::Viewer]).await;
    let refused = running.request(Method::GET, "/customers/a?done=x").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let page = refused.text().await.unwrap();
    assert!(page.contains("<h1>Sign in</h1>") && page.contains("action=\"../sign-in\""), "{page}");
    assert!(page.contains("value=\"customers/a?done=x\""), "{page}");

    let response = sign_in(&running, &tokens[0]).await;
    let cookie = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    assert_eq!(response.headers()[LOCATION], "./customers?q=a");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Max-Age="), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let get = |path: &str| running.request(Method::GET, path).header(COOKIE, &cookie);
    assert_eq!(get("/").send().await.unwrap().status(), StatusCode::OK);
    let api = get("/api/status").send().await.unwrap().status();
    assert_eq!(api, StatusCode::UNAUTHORIZED, "the API is for keys");

    let out = form(&running, "/sign-out", "").header(COOKIE, &cookie).send().await.unwrap();
    assert!(out.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    let id = &tokens[0][4..12];
    file.revoke(id).unwrap();
    fairlane_testkit::wait::eventually(async || match get("/").send().await.unwrap().status() {
        StatusCode::UNAUTHORIZED => Ok(()),
        status => Err(format!("a session outlives its key: {status}")),
    })
    .await;
}

#[tokio::test]
async fn a_wrong_key_is_refused_with_the_page_for_sign_in() {
    let (running, tokens, ..) = start(&[Role::Viewer]).await;
    let wrong = format!("{}x", &tokens[0][..tokens[0].len() - 1]);
    for key in ["", "flk_", &wrong] {
        let response = sign_in(&running, key).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{key}");
        assert!(response.headers().get(SET_COOKIE).is_none());
        let page = response.text().await.unwrap();
        assert!(page.contains("role=\"alert\"") && page.contains("unknown, revoked or expired"), "{page}");
    }
}

#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let (running, tokens, ..) = start(&[Role::Admin]).await;
    let cookie = session(&running, &tokens[0]).await;
    let send = |name: &'static str, value: String| {
        client(&running)
            .post(running.url("/customers/acme"))
            .header("content-type", "application/x-www-form-urlencoded")
            .header(COOKIE, &cookie)
            .header(name, value)
            .body("act=pause")
    };
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("accept", "*/*"),
    ] {
        let response = send(name, value.into()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{name}: {value}");
    }
    assert!(running.fairlane.group("acme").view().await.unwrap().is_none());
    let origin = format!("http://{}", running.server.address());
    let own = send("origin", origin).send().await.unwrap();
    assert_eq!(
        (own.status(), &own.headers()[LOCATION]),
        (StatusCode::SEE_OTHER, &"../customers/acme?done=paused".parse().unwrap())
    );
    assert!(running.fairlane.group("acme").view().await.unwrap().unwrap().settings.paused);
}

#[tokio::test]
async fn a_viewer_sees_no_controls_and_cannot_use_them() {
    let (running, tokens, ..) = start(&[Role::Viewer, Role::Admin]).await;
    running.fairlane.enqueue(Job::new("acme", "mail", &1).id("j")).await.unwrap().accepted().unwrap();
    let (viewer, admin) = (session(&running, &tokens[0]).await, session(&running, &tokens[1]).await);
    for path in ["/customers/acme", "/jobs/acme/j", "/types/mail"] {
        let get = |cookie: &str| running.request(Method::GET, path).header(COOKIE, cookie).send();
        let (seen, all) = (get(&viewer).await.unwrap(), get(&admin).await.unwrap());
        let count = |page: &str| page.matches("name=\"act\"").count();
        assert_eq!(count(&seen.text().await.unwrap()), 0, "{path}");
        assert!(count(&all.text().await.unwrap()) > 0, "{path}");
        let posted = form(&running, path, "act=pause").header(COOKIE, &viewer).send().await.unwrap();
        assert_eq!(posted.status(), StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn pages_load_nothing_from_elsewhere_and_assets_are_kept_for_ever() {
    let running = Running::start().await;
    let response = running.request(Method::GET, "/").send().await.unwrap();
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(response.headers()["cache-control"], "no-store");
    let page = response.text().await.unwrap();
    assert!(!page.contains("style=\"") && !page.contains("http://") && !page.contains("https://"), "{page}");
    let mut bytes = 0;
    let links = page.split(['"']).filter(|text| text.starts_with("./assets/"));
    for link in links {
        let asset = running.request(Method::GET, &link[1..]).send().await.unwrap();
        assert_eq!(asset.headers()["cache-control"], "public, max-age=31536000, immutable");
        bytes += asset.bytes().await.unwrap().len();
    }
    assert!(bytes > 1000 && bytes + page.len() <= 60_000, "{bytes} bytes even without compression");
    let gone = running.request(Method::GET, "/assets/style.0000.css").send().await.unwrap();
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn settings_are_changed_by_forms_and_mistakes_are_explained() {
    let running = Running::start().await;
    let saved = form(&running, "/customers/a%2Fb", "act=set&weight=3&rate=100%2Fs&concurrency=").send().await;
    assert_eq!(saved.unwrap().headers()[LOCATION], "../customers/a%2Fb?done=saved");
    let settings = running.fairlane.group("a/b").view().await.unwrap().unwrap().settings;
    assert_eq!((settings.weight.get(), settings.rate.is_some(), settings.concurrency), (3, true, None));
    for (body, words) in [
        ("act=set&weight=0", "weight"),
        ("act=set&weight=3&rate=fast", "rate"),
        ("act=set&weight=3&concurrency=1.5", "not a whole number"),
        ("act=destroy", "no control"),
        ("weight=3", "act"),
    ] {
        let response = form(&running, "/customers/a%2Fb", body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY, "{body}");
        let page = response.text().await.unwrap();
        assert!(page.contains(words) && page.contains("Go to the overview"), "{body}: {page}");
    }
    let page = running.request(Method::GET, "/customers/a%2Fb").send().await.unwrap().text().await.unwrap();
    assert!(page.contains("weight 3, rate 100/s, no concurrency") && page.contains("local"), "{page}");
}

#[tokio::test]
async fn text_of_customers_is_escaped() {
    let running = Running::start().await;
    let hostile = "<script>alert(1)</script>";
    let job = Job::new(hostile, "mail", &hostile).id(hostile);
    running.fairlane.enqueue(job).await.unwrap().accepted().unwrap();
    let name = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    for path in [
        "/customers?sort=name".to_owned(),
        format!("/customers/{name}"),
        format!("/jobs/{name}/{name}"),
        format!("/jobs?group={name}"),
    ] {
        let page = running.request(Method::GET, &path).send().await.unwrap().text().await.unwrap();
        assert!(page.contains("&lt;script&gt;") && !page.contains(hostile), "{path}: {page}");
    }
}

#[tokio::test]
async fn fifty_browsers_that_show_one_page_cost_the_engine_as_much_as_one() {
    let listings = Arc::new(AtomicUsize::new(0));
    let counted = listings.clone();
    let count =
        move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Result<Reply, EngineError>> {
            if matches!(command, Command::Queue(queue::Command::ListJobs(_))) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Box::pin(async move { engine.submit(command).await })
        };
    let memory = Fairlane::open("memory:").await.unwrap();
    let engine = layer(memory.engine().clone(), Hooks::default().submit(count));
    let running = Running::start_with(Fairlane::from_engine(engine), None, ServerSettings::default()).await;
    let running = Arc::new(running);
    let page = |path: &'static str| {
        let running = running.clone();
        async move { running.request(Method::GET, path).send().await.unwrap().text().await.unwrap() }
    };
    page("/jobs?state=waiting").await;
    let one = listings.swap(0, Ordering::Relaxed);
    assert!(one > 0);
    let start = Instant::now();
    let browsers: Vec<_> = (0..50).map(|_| tokio::spawn(page("/jobs?state=dead"))).collect();
    for browser in browsers {
        assert!(browser.await.unwrap().contains("No jobs here"));
    }
    // A page is rendered again after a second.
    let most = one * (1 + start.elapsed().as_secs() as usize);
    let listed = listings.load(Ordering::Relaxed);
    assert!(listed <= most, "{listed} listings, {most} expected");
}

#[tokio::test]
async fn a_change_is_shown_at_once() {
    let running = Running::start().await;
    let page = async || {
        running.request(Method::GET, "/customers?sort=name").send().await.unwrap().text().await.unwrap()
    };
    assert!(!page().await.contains(">late<"));
    running.fairlane.enqueue(Job::new("late", "mail", &1)).await.unwrap().accepted().unwrap();
    form(&running, "/customers/late", "act=pause").send().await.unwrap();
    let page = page().await;
    assert!(page.contains(">late<") && page.contains("paused"), "{page}");
}
