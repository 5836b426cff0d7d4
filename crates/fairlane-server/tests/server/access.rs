//! Permissions, cell by cell: every route, every role, bound to groups or not, and without a valid
//! key.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairlane::Fairlane;
use fairlane_core::GroupId;
use fairlane_server::access::{ROUTES, Role};
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use fairlane_server::{ServerSettings, openapi};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::json;

use crate::running::Running;

/// What is allowed according to the documents, independent of the code: **a**dmin, **p**roducer,
/// **w**orker, **v**iewer; for keys that are not bound to groups, bound to the group of the
/// request, and bound to another (which an admin or a worker cannot be).
const TABLE: &str = "
    GET    /api/status                              apwv ---- ----
    GET    /api/events                              apwv ---- ----
    GET    /api/settings                            apwv -p-v -p-v
    PATCH  /api/settings                            a--- ---- ----
    POST   /api/jobs                                ap-- -p-- ----
    GET    /api/jobs                                apwv -p-v ----
    POST   /api/jobs/batch                          ap-- -p-- ----
    POST   /api/jobs/stream                         ap-- -p-- ----
    GET    /api/jobs/stream                         ap-- -p-- ----
    POST   /api/jobs/cancel                         ap-- -p-- ----
    GET    /api/jobs/{group}/{job}                  apwv -p-v ----
    GET    /api/jobs/{group}/{job}/why              apwv -p-v ----
    GET    /api/jobs/{group}/{job}/events           apwv -p-v ----
    POST   /api/jobs/{group}/{job}/cancel           ap-- -p-- ----
    POST   /api/jobs/{group}/{job}/requeue          ap-- -p-- ----
    POST   /api/leases                              a-w- ---- ----
    POST   /api/leases/extend                       a-w- ---- ----
    POST   /api/leases/settle                       a-w- ---- ----
    GET    /api/locks                               apwv -p-v ----
    GET    /api/locks/{lock}                        apwv -p-v ----
    POST   /api/locks/{lock}/acquire                a-w- ---- ----
    POST   /api/locks/{lock}/renew                  a-w- ---- ----
    POST   /api/locks/{lock}/release                a-w- ---- ----
    POST   /api/locks/{lock}/break                  a--- ---- ----
    GET    /api/rooms                               apwv ---- ----
    GET    /api/rooms/{room}                        apwv ---- ----
    PATCH  /api/rooms/{room}                        a--- ---- ----
    POST   /api/rooms/{room}/join                   a-w- ---- ----
    GET    /api/rooms/{room}/places/{token}         apwv ---- ----
    DELETE /api/rooms/{room}/places/{token}         a-w- ---- ----
    POST   /api/rooms/{room}/places/{token}/keep    a-w- ---- ----
    POST   /api/rooms/{room}/revoke                 a--- ---- ----
    POST   /api/rooms/{room}/bypass                 a--- ---- ----
    POST   /api/rooms/{room}/pause                  a--- ---- ----
    POST   /api/rooms/{room}/resume                 a--- ---- ----
    POST   /api/rooms/{room}/open                   a--- ---- ----
    POST   /api/rooms/{room}/close                  a--- ---- ----
    POST   /api/rooms/{room}/prequeue               a--- ---- ----
    POST   /api/rooms/{room}/report                 a-w- ---- ----
    GET    /api/rooms/{room}/places/{token}/events  a-w- ---- ----
    GET    /api/rankings                            apwv ---- ----
    GET    /api/rankings/{board}                    apwv ---- ----
    PATCH  /api/rankings/{board}                    a--- ---- ----
    DELETE /api/rankings/{board}                    a--- ---- ----
    POST   /api/rankings/{board}/events             ap-- ---- ----
    POST   /api/rankings/{board}/events/batch       ap-- ---- ----
    POST   /api/rankings/{board}/events/cancel      ap-- ---- ----
    POST   /api/rankings/{board}/scores             ap-- ---- ----
    GET    /api/rankings/{board}/top                apwv ---- ----
    GET    /api/rankings/{board}/around/{member}    apwv ---- ----
    GET    /api/rankings/{board}/ranks/{member}     apwv ---- ----
    POST   /api/rankings/{board}/ranks              apwv ---- ----
    POST   /api/rankings/{board}/seasons/{season}/close a--- ---- ----
    POST   /api/rankings/{board}/rebuild            a--- ---- ----
    POST   /api/rankings/{board}/audit              a--- ---- ----
    POST   /api/bulks                               ap-- -p-- ----
    GET    /api/bulks/{group}                       apwv -p-v ----
    GET    /api/bulks/{group}/{bulk}                apwv -p-v ----
    POST   /api/bulks/{group}/{bulk}/seal           ap-- -p-- ----
    POST   /api/bulks/{group}/{bulk}/hold           ap-- -p-- ----
    POST   /api/bulks/{group}/{bulk}/resume         ap-- -p-- ----
    POST   /api/bulks/{group}/{bulk}/cancel         ap-- -p-- ----
    GET    /api/bulks/{group}/{bulk}/events         apwv -p-v ----
    GET    /api/bulks/{group}/{bulk}/results        apwv -p-v ----
    GET    /api/groups                              apwv ---- ----
    GET    /api/groups/{group}                      apwv -p-v ----
    PATCH  /api/groups/{group}                      a--- ---- ----
    POST   /api/groups/{group}/make-due             a--- ---- ----
    GET    /api/groups/{group}/congestion           apwv -p-v ----
    DELETE /api/groups/{group}/congestion           a--- ---- ----
    GET    /api/groups/{group}/congestion/history   apwv -p-v ----
    GET    /api/congestion                          apwv ---- ----
    GET    /api/types                               apwv -p-v -p-v
    GET    /api/types/{type}                        apwv -p-v -p-v
    PATCH  /api/types/{type}                        a--- ---- ----
    DELETE /api/types/{type}                        a--- ---- ----
    GET    /api/dead                                apwv -p-v ----
    POST   /api/dead/requeue                        ap-- -p-- ----
    POST   /api/dead/discard                        ap-- -p-- ----
    POST   /api/audit                               a--- ---- ----
    GET    /api/activity                            a--- ---- ----
    GET    /api/outbox                              apwv ---- ----
    GET    /metrics                                 apwv ---- ----
    GET    /engine                                  apwv -p-v -p-v
    POST   /engine/wait                             a-w- ---- ----
    POST   /engine/subscribe                        a-w- ---- ----
    POST   /engine/walk                             a--- ---- ----
    GET    /                                        apwv -p-v -p-v
    GET    /live                                    apwv -p-v -p-v
    GET    /served                                  apwv ---- ----
    GET    /customers                               apwv ---- ----
    GET    /customers/{group}                       apwv -p-v ----
    POST   /customers/{group}                       a--- ---- ----
    GET    /jobs                                    apwv -p-v ----
    GET    /jobs/{group}/{job}                      apwv -p-v ----
    POST   /jobs/{group}/{job}                      ap-- -p-- ----
    GET    /dead                                    apwv -p-v ----
    POST   /dead                                    ap-- -p-- ----
    GET    /bulks                                   apwv -p-v ----
    GET    /bulks/{group}/{bulk}                    apwv -p-v ----
    POST   /bulks/{group}/{bulk}                    ap-- -p-- ----
    GET    /bulks/{group}/{bulk}/results            apwv -p-v ----
    GET    /types                                   apwv -p-v -p-v
    GET    /types/{type}                            apwv -p-v -p-v
    POST   /types/{type}                            a--- ---- ----
    GET    /workers                                 apwv ---- ----
    GET    /locks                                   apwv ---- ----
    POST   /locks                                   a--- ---- ----
    GET    /rooms                                   apwv ---- ----
    GET    /rooms/{room}                            apwv ---- ----
    POST   /rooms/{room}                            a--- ---- ----
    GET    /rankings                                apwv ---- ----
    GET    /rankings/{board}                        apwv ---- ----
    GET    /outbox                                  apwv ---- ----
    GET    /activity                                apwv ---- ----
    GET    /audit                                   a--- ---- ----
    POST   /audit                                   a--- ---- ----
";

/// The permission depends on the command in the body, which has tests of its own.
const BY_COMMAND: (&str, &str) = ("POST", "/engine/execute");
/// Public routes.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/openapi.json"];
const LETTERS: [(char, Role); 4] =
    [('a', Role::Admin), ('p', Role::Producer), ('w', Role::Worker), ('v', Role::Viewer)];
/// Not bound, bound to the group of the request, bound to another.
const BINDINGS: [Option<&str>; 3] = [None, Some("own"), Some("other")];

struct Row {
    method: Method,
    path: &'static str,
    cells: [&'static str; 3],
}

fn rows() -> Vec<Row> {
    let row = |line: &'static str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [method, path, free, own, other] = words[..] else { panic!("{line}") };
        Row { method: method.parse().unwrap(), path, cells: [free, own, other] }
    };
    TABLE.lines().filter(|line| !line.trim().is_empty()).map(row).collect()
}

/// A role, the group it is bound to, and a key for both.
type Holder = (Role, Option<&'static str>, String);

/// Eight keys: an admin or a worker cannot be bound to groups.
fn keys(folder: &std::path::Path) -> (Arc<Keys>, Vec<Holder>) {
    let file = KeyFile::at(folder.join("keys.json"));
    let mut made = Vec::new();
    for binding in BINDINGS {
        for role in Role::ALL {
            let groups = binding.map(|group| BTreeSet::from([GroupId::new(group).unwrap()]));
            let new = NewKey { name: "k".into(), role, groups, rate: None, expires_in: None };
            match file.create(new) {
                Ok((_, token)) => made.push((role, binding, token.reveal().to_owned())),
                Err(_) => assert!(binding.is_some() && matches!(role, Role::Admin | Role::Worker)),
            }
        }
    }
    assert_eq!(made.len(), 8);
    (Arc::new(Keys::open(file.path()).unwrap()), made)
}

/// A request that its route can parse, about the group `own`.
fn plausible(running: &Running, method: &Method, path: &str) -> RequestBuilder {
    let job = json!({"group": "own", "type": "mail", "payload": {}});
    let lease = json!({"group": "own", "id": "j-1", "fence": 1});
    let body = match path {
        "/api/jobs" => job,
        "/api/jobs/batch" => json!({"jobs": [job]}),
        "/api/jobs/cancel" | "/api/dead/requeue" | "/api/dead/discard" => {
            json!({"jobs": [{"group": "own", "id": "j-1"}]})
        }
        "/api/leases" => json!({"worker": "w", "types": ["mail"], "count": 1, "wait_ms": 0}),
        "/api/leases/extend" => json!({"leases": [lease], "lease_ms": 30_000}),
        "/api/leases/settle" => {
            json!({"settlements": [{"group": "own", "id": "j-1", "fence": 1, "outcome": "succeeded"}]})
        }
        "/api/rooms/{room}/join" | "/api/rooms/{room}/revoke" => json!({"user": "ada"}),
        "/api/rooms/{room}/bypass" => json!({"user": "ada", "ttl_ms": 60_000}),
        "/api/rankings/{board}/events" => json!({"id": "e-1", "member": "ada", "at": "2026-11-17T09:30:00Z"}),
        "/api/rankings/{board}/ranks" => json!({"members": ["ada"]}),
        "/api/locks/{lock}/renew" | "/api/locks/{lock}/release" => json!({"token": "mine"}),
        "/api/bulks" => json!({"group": "own", "id": "b-1"}),
        "/api/jobs/stream" => json!({"id": "s-1"}),
        _ => json!({}),
    };
    let named = path
        .replace("{group}", "own")
        .replace("{job}", "j-1")
        .replace("{bulk}", "b-1")
        .replace("{lock}", "own:seat")
        .replace("{room}", "concert")
        .replace("{board}", "popular")
        .replace("{member}", "ada")
        .replace("{season}", "1")
        .replace("{token}", "mine");
    let query = match (method, path) {
        (&Method::GET, "/api/jobs" | "/api/dead" | "/api/locks" | "/jobs" | "/dead" | "/bulks") => {
            "?group=own"
        }
        (&Method::GET, "/api/jobs/stream") => "?group=own&bulk=b-1",
        (_, "/api/jobs/stream") => "?group=own&type=mail",
        (_, "/api/rankings/{board}/rebuild") => "?id=one",
        _ => "",
    };
    let request = running.request(method.clone(), &format!("{}{query}", named.replace("{type}", "mail")));
    if *method == Method::GET {
        return request;
    }
    if is_page(path) {
        // A form of the dashboard, sent by one of its pages.
        let form = "application/x-www-form-urlencoded";
        let request = request.header("content-type", form).header("sec-fetch-site", "same-origin");
        return request.body("act=nothing&group=own&lock=nothing");
    }
    let is_lines =
        ["/api/jobs/stream", "/api/rankings/{board}/rebuild", "/api/rankings/{board}/audit"].contains(&path);
    let content_type = if is_lines { "application/x-ndjson" } else { "application/json" };
    request.header("content-type", content_type).body(format!("{body}\n"))
}

/// Whether the path is one of the dashboard.
fn is_page(path: &str) -> bool {
    !["/api/", "/engine", "/metrics"].iter().any(|prefix| path.starts_with(prefix))
}

async fn status(request: RequestBuilder) -> StatusCode {
    // The body of an event stream would never end.
    request.send().await.unwrap().status()
}

async fn start(folder: &std::path::Path) -> (Running, Vec<(Role, Option<&'static str>, String)>) {
    let (keys, tokens) = keys(folder);
    let fairlane = Fairlane::open("memory:").await.unwrap();
    (Running::start_with(fairlane, Some(keys), ServerSettings::default()).await, tokens)
}

#[tokio::test]
async fn every_role_has_the_permissions_of_the_table_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let (running, tokens) = start(folder.path()).await;
    let mut wrong = Vec::new();
    for Row { method, path, cells } in rows() {
        for (role, binding, token) in &tokens {
            let letter = LETTERS.iter().find(|(_, of)| of == role).unwrap().0;
            let column = BINDINGS.iter().position(|of| of == binding).unwrap();
            let expected = cells[column].contains(letter);
            let status = status(plausible(&running, &method, path).bearer_auth(token)).await;
            let found = !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if expected != found {
                wrong.push(format!("{method} {path} as {role} bound to {binding:?}: {status}"));
            }
            assert!(status != StatusCode::NOT_FOUND || path.contains('{'), "{method} {path} is not served");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn requests_without_a_valid_key_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (running, tokens) = start(folder.path()).await;
    let secret_of_another = format!("{}{}", &tokens[0].2[..13], &tokens[1].2[13..]);
    let mut statuses = Vec::new();
    let rpc = Row { method: Method::POST, path: BY_COMMAND.1, cells: [""; 3] };
    for Row { method, path, .. } in rows().into_iter().chain([rpc]) {
        for header in
            [None, Some(format!("Bearer {secret_of_another}")), Some(format!("Basic {}", tokens[0].2))]
        {
            let request = plausible(&running, &method, path);
            let request = match header {
                Some(header) => request.header("authorization", header),
                None => request,
            };
            // Concurrently, since repeated refusals are delayed.
            statuses.push(tokio::spawn(status(request)));
        }
    }
    for status in statuses {
        assert_eq!(status.await.unwrap(), StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn no_route_is_served_that_is_not_in_the_table() {
    let documented: BTreeSet<(String, String)> =
        rows().iter().map(|row| (row.method.to_string(), row.path.to_owned())).collect();
    let mut known: BTreeSet<(String, String)> =
        ROUTES.iter().map(|route| (route.method.as_str().to_owned(), route.path.to_owned())).collect();
    assert!(known.remove(&(BY_COMMAND.0.to_owned(), BY_COMMAND.1.to_owned())));
    assert_eq!(documented, known);
    let described: BTreeSet<String> = openapi().paths.paths.keys().cloned().collect();
    let paths: BTreeSet<String> = known.iter().map(|(_, path)| path.clone()).collect();
    let open: Vec<&String> =
        described.difference(&paths).filter(|path| !OPEN.contains(&path.as_str())).collect();
    assert!(open.is_empty(), "{open:?}");
    let folder = tempfile::tempdir().unwrap();
    let (running, tokens) = start(folder.path()).await;
    for path in &paths {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            let listed = if method == "HEAD" { "GET" } else { method };
            if known.contains(&(listed.to_owned(), path.clone())) || path == BY_COMMAND.1 {
                continue;
            }
            let request = plausible(&running, &method.parse().unwrap(), path).bearer_auth(&tokens[0].2);
            assert_eq!(status(request).await, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_server_without_keys_refuses_pages_of_other_sites() {
    let running = Running::start().await;
    let with =
        |name: &'static str, value: &str| running.request(Method::GET, "/api/status").header(name, value);
    let own = running.server.address().to_string();
    assert_eq!(status(with("origin", &format!("http://{own}"))).await, StatusCode::OK);
    assert_eq!(
        status(with("host", &format!("localhost:{}", running.server.address().port()))).await,
        StatusCode::OK
    );
    for (name, value) in [("host", "evil.example"), ("origin", "http://evil.example"), ("origin", "null")] {
        let response = with(name, value).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        let allowing: Vec<_> =
            response.headers().keys().filter(|name| name.as_str().starts_with("access-control")).collect();
        assert!(allowing.is_empty(), "{allowing:?}");
    }
}

#[tokio::test]
async fn a_server_without_keys_refuses_requests_through_a_proxy() {
    let running = Running::start().await;
    let with = |name: &'static str| running.request(Method::GET, "/api/status").header(name, "x");
    for name in ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"] {
        assert_eq!(status(with(name)).await, StatusCode::FORBIDDEN, "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (running, tokens) = start(folder.path()).await;
    let request = running.request(Method::GET, "/api/status").header("x-forwarded-for", "192.0.2.1");
    let status = status(request.bearer_auth(&tokens[0].2)).await;
    assert_eq!(status, StatusCode::OK, "with a key a proxy is allowed");
}
