//! A Redis that listens with TLS: which certificates are trusted, and the errors of wrong ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fairlane_conformance::subject::{job, jobs, type_id};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError};
use fairlane_testkit::certificates::CertificateAuthority;
use fairlane_testkit::redis::{RedisServer, ServerOptions, ServerTls};

/// A Redis whose certificate was issued by this CA.
fn server(ca: &CertificateAuthority, asks_clients: bool) -> RedisServer {
    server_with(ca, ca.issue("server"), asks_clients)
}

fn server_with(
    ca: &CertificateAuthority,
    (certificate, key): (PathBuf, PathBuf),
    asks_clients: bool,
) -> RedisServer {
    RedisServer::start_tls(ServerTls { ca: ca.file(), certificate, key, asks_clients })
}

async fn connect(url: &str) -> Result<Arc<dyn Engine>, EngineError> {
    Ok(Arc::new(RedisEngine::connect(url, RedisOptions::default()).await?))
}

/// The error of an address that cannot be used.
async fn refusal(url: &str) -> String {
    let error = connect(url).await.err().expect("it cannot be used");
    assert!(!error.is_retryable(), "{error:?}");
    error.to_string()
}

fn with_ca(server: &RedisServer, ca: &Path) -> String {
    format!("rediss://127.0.0.1:{}?ca={}", server.tls_port(), ca.display())
}

#[tokio::test]
async fn queue_works_over_tls_with_its_own_ca_and_an_acl_user() {
    let ca = CertificateAuthority::new();
    let server = server(&ca, false);
    server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~bulk-action:*", "+@all"]);
    let url = with_ca(&server, &ca.file()).replace("rediss://127.0.0.1", "rediss://app:pw@localhost");
    let engine = connect(&url).await.unwrap();
    engine.enqueue_all(jobs("a", 20)).await.unwrap();
    assert!(engine.wait(&[type_id("t")], Duration::from_secs(20)).await.unwrap());
    let clients = server.command(&["CLIENT", "LIST"]);
    assert!(clients.lines().filter(|line| line.contains("user=app")).count() >= 2, "{clients}");
}

#[tokio::test]
async fn server_of_an_unknown_ca_is_refused_unless_insecure() {
    let (ca, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let server = server(&ca, false);
    for url in [with_ca(&server, &other.file()), format!("rediss://127.0.0.1:{}", server.tls_port())] {
        let refused = refusal(&url).await;
        assert!(refused.contains("name its CA with ?ca=FILE"), "{refused}");
    }
    let engine = connect(&format!("rediss://127.0.0.1:{}?insecure", server.tls_port())).await.unwrap();
    engine.enqueue_all([job("a", "1")]).await.unwrap();
}

#[tokio::test]
async fn expired_certificate_is_refused_with_what_to_do() {
    let ca = CertificateAuthority::new();
    let server = server_with(&ca, ca.issue_expired("server"), false);
    let refused = refusal(&with_ca(&server, &ca.file())).await;
    assert!(refused.contains("has expired; renew it"), "{refused}");
}

#[tokio::test]
async fn client_certificate_is_shown_to_a_server_that_asks_for_one() {
    let ca = CertificateAuthority::new();
    let server = server(&ca, true);
    let url = with_ca(&server, &ca.file());
    let refused = refusal(&url).await;
    assert!(refused.contains("?cert=FILE&key=FILE"), "{refused}");
    let (certificate, key) = ca.issue("client");
    let engine =
        connect(&format!("{url}&cert={}&key={}", certificate.display(), key.display())).await.unwrap();
    engine.enqueue_all([job("a", "1")]).await.unwrap();
}

#[tokio::test]
async fn plain_and_tls_ports_mixed_up_are_reported() {
    let ca = CertificateAuthority::new();
    let server = server(&ca, false);
    let error = connect(&format!("redis://:secret@127.0.0.1:{}", server.tls_port())).await.err();
    let error = error.expect("it speaks TLS only").to_string();
    assert!(error.contains("rediss://") && !error.contains("secret"), "{error}");
    let plain = RedisServer::start(ServerOptions::default());
    let url = format!("rediss://:secret@127.0.0.1:{}?ca={}", plain.port(), ca.file().display());
    let error = connect(&url).await.err().expect("it does not speak TLS").to_string();
    assert!(error.contains("TLS") && !error.contains("secret"), "{error}");
}
