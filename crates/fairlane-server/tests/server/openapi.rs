//! The API description, and the pages that show it.

use std::collections::BTreeSet;
use std::io::Read;

use fairlane_server::{ProblemKind, openapi};
use fairlane_testkit::document::root;
use flate2::read::GzDecoder;
use reqwest::{Method, Response, StatusCode};

use crate::running::Running;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
const DOCUMENT: &str = include_str!("../../../../docs/http.md");

/// `FAIRLANE_REWRITE=1` rewrites the file.
#[tokio::test]
async fn the_description_equals_the_file_that_is_checked_in() {
    let running = Running::start().await;
    let response = running.request(Method::GET, "/openapi.json").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let text = response.text().await.unwrap();
    if std::env::var_os("FAIRLANE_REWRITE").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap();
    assert!(
        text == golden,
        "docs/openapi.json is outdated; FAIRLANE_REWRITE=1 cargo nextest run -p fairlane-server openapi"
    );
}

#[test]
fn every_operation_has_a_summary_a_description_and_an_error_response() {
    let api = openapi();
    assert_eq!(serde_json::to_value(&api).unwrap()["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for (path, item) in &api.paths.paths {
        for operation in [&item.get, &item.post, &item.patch, &item.delete].into_iter().flatten() {
            let id = operation.operation_id.as_ref().expect("every operation has an id");
            assert!(ids.insert(id.clone()), "{id} appears twice");
            assert!(operation.summary.is_some() && operation.description.is_some(), "{path} {id}");
            assert!(
                operation.responses.responses.contains_key("default"),
                "{path} {id} has no error response"
            );
        }
    }
    assert!(ids.len() > 40, "{ids:?}");
}

#[test]
fn every_kind_of_problem_is_documented() {
    for kind in ProblemKind::ALL {
        let row = format!("| `{}` | {} |", kind.slug(), kind.status().as_u16());
        assert!(DOCUMENT.contains(&row), "docs/http.md lacks {row}");
    }
    let rows = DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains("` | 4") || line.contains("` | 5"));
    assert_eq!(rows.count(), ProblemKind::ALL.len(), "and no others");
}

/// The requests that a page names in its sentences, each with its method if the page gives one.
fn requests(page: &str) -> Vec<(Option<&str>, &str)> {
    let prose = page.split("```").step_by(2);
    let spans = prose.flat_map(|prose| prose.split('`').skip(1).step_by(2));
    let requests = spans.filter_map(|span| {
        let (method, path) = match span.split_once(char::is_whitespace) {
            Some((method, path)) => (Some(method), path),
            None => (None, span),
        };
        path.starts_with("/api/").then(|| (method, path.split('?').next().unwrap_or_default()))
    });
    requests.collect()
}

/// Whether a path is that of the description, with any value for its parameters.
fn is_path(described: &str, path: &str) -> bool {
    let (described, path): (Vec<_>, Vec<_>) = (described.split('/').collect(), path.split('/').collect());
    let is_same = |(one, other): (&&str, &&str)| one.starts_with('{') || one == other;
    described.len() == path.len() && described.iter().zip(&path).all(is_same)
}

#[test]
fn every_request_in_a_sentence_of_the_documents_is_in_the_description() {
    let api = serde_json::to_value(openapi()).unwrap();
    let described = api["paths"].as_object().unwrap();
    let folder = std::fs::read_dir(root().join("docs")).unwrap().map(|file| file.unwrap().path());
    let mut count = 0;
    for page in
        folder.chain([root().join("README.md")]).filter(|path| path.extension() == Some("md".as_ref()))
    {
        let text = std::fs::read_to_string(&page).unwrap();
        for (method, path) in requests(&text) {
            let has_method = |item: &serde_json::Value| {
                method.is_none_or(|method| item.get(method.to_lowercase()).is_some())
            };
            let is_known = described.iter().any(|(known, item)| is_path(known, path) && has_method(item));
            assert!(is_known, "{}: {method:?} {path}", page.display());
            count += 1;
        }
    }
    assert!(count >= 40, "only {count} requests were found");
}

#[tokio::test]
async fn the_pages_load_nothing_from_other_hosts() {
    let running = Running::start().await;
    for path in ["/docs/", "/docs/swagger-initializer.js", "/docs/swagger-ui.css"] {
        let response = running.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let text = page(response).await;
        let outside = text.match_indices("http").filter(|(at, _)| {
            let rest = &text[*at..];
            (rest.starts_with("http://") || rest.starts_with("https://")) && !rest.contains("w3.org")
        });
        assert_eq!(outside.count(), 0, "{path} names another host");
    }
}

#[tokio::test]
async fn the_pages_cannot_be_shown_in_a_frame() {
    let running = Running::start().await;
    for path in ["/docs/", "/docs/index.html", "/docs/swagger-ui-bundle.js"] {
        let response = running.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(
            (header("x-frame-options"), header("x-content-type-options")),
            ("DENY".into(), "nosniff".into())
        );
        let policy = header("content-security-policy");
        for part in
            ["default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        let text = page(response).await;
        assert!(!path.ends_with(".html") || !text.contains("<script>"), "the policy forbids inline scripts");
    }
}

#[tokio::test]
async fn every_response_forbids_content_sniffing() {
    let running = Running::start().await;
    for path in
        ["/healthz", "/readyz", "/openapi.json", "/docs/", "/nowhere", "/api/status", "/metrics", "/engine"]
    {
        let response = running.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{path}");
    }
}

/// The text of a page, which is compressed unless the program writes it.
async fn page(response: Response) -> String {
    let is_compressed = response.headers().contains_key("content-encoding");
    let body = response.bytes().await.unwrap();
    let mut text = String::new();
    match is_compressed {
        true => GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap(),
        false => body.as_ref().read_to_string(&mut text).unwrap(),
    };
    assert!(!text.is_empty());
    text
}
