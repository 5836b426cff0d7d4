//! The HTTP client under targets and callbacks.
//!
//! Invariant: no redirect is followed and no proxy of the environment is used: a request goes where it was
//! addressed, or nowhere.

use std::sync::Once;
use std::time::Duration;

use fairlane_engine::causes;
use fairlane_worker::Outcome;
use reqwest::{Client, ClientBuilder, Url, redirect};

/// Idle connections that are kept for each receiver.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long they are kept.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// A target that cannot be used as it was described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTarget(pub(crate) String);

/// Whether a client without root certificates is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certificates {
    /// Its only address is one of https.
    Needed,
    /// It trusts nobody without them: http works, https does not.
    Wanted,
}

/// A client; `adjust` adds what only its owner needs.
pub(crate) fn client(
    connect_timeout: Duration,
    timeout: Duration,
    certificates: Certificates,
    adjust: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<Client, BadTarget> {
    install_provider();
    let plain = || {
        let builder = Client::builder()
            .user_agent(concat!("fairlane/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(connect_timeout)
            .timeout(timeout)
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_only();
        adjust(builder)
    };
    let built = match plain().build() {
        Err(error) if certificates == Certificates::Wanted => {
            tracing::warn!(error = causes(&error), "{NO_CERTIFICATES}");
            plain().tls_certs_only([]).build()
        }
        built => built,
    };
    built.map_err(|error| {
        BadTarget(format!("no HTTP client can be made: {}; {NO_CERTIFICATES}", causes(&error)))
    })
}

const NO_CERTIFICATES: &str = "https needs the system's root certificates: install them (ca-certificates), or name \
                               a file of them in SSL_CERT_FILE";

/// The client asks for the process's provider of cryptography; another one that is there already will do.
fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Reads an http or https address.
pub(crate) fn http_url(text: &str) -> Result<Url, BadTarget> {
    let url = Url::parse(text).map_err(|error| BadTarget(format!("it is no URL: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => {
            Err(BadTarget(format!("{other}: is not spoken here; it must begin with http:// or https://")))
        }
    }
}

/// An address as it may be shown: without credentials, path and query, any of which can be secret.
pub(crate) fn shown(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// A request that got no whole answer, to be tried again.
pub(crate) fn unanswered(error: reqwest::Error) -> Outcome {
    let error = error.without_url();
    let (code, what) = if error.is_connect() {
        ("connect", "no connection")
    } else if error.is_timeout() {
        ("timeout", "no answer in time")
    } else {
        ("protocol", "no whole HTTP answer")
    };
    Outcome::retry(code, format!("{what}: {}", causes(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_is_spoken() {
        for (text, word) in
            [("ftp://a/b", "ftp:"), ("file:///etc/passwd", "file:"), ("mailer/send", "no URL")]
        {
            let refused = http_url(text).unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
        assert!(http_url("HTTPS://example.com").is_ok());
    }

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let url = http_url("https://user:pass@example.com:8443/hook/s3cret?token=x").unwrap();
        assert_eq!(shown(&url), "https://example.com:8443");
    }
}
