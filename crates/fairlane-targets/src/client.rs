//! The HTTP client of targets and callbacks.
//!
//! Invariant: the client follows no redirect and uses no proxy of the environment. A request goes
//! only to the address in its URL.

use std::sync::Once;
use std::time::Duration;

use fairlane_engine::causes;
use fairlane_worker::Outcome;
use reqwest::{Client, ClientBuilder, Url, redirect};

/// Most idle connections kept for each receiver.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long an idle connection is kept.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// A target with invalid settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTarget(pub(crate) String);

/// Whether a client needs root certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certificates {
    /// Required, because the only URL of the client is an https URL.
    Required,
    /// Optional: without root certificates http works, and every https request fails.
    Optional,
}

/// Makes a client; `adjust` adds options of one kind of target.
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
        Err(error) if certificates == Certificates::Optional => {
            tracing::warn!(error = causes(&error), "{NO_CERTIFICATES}");
            plain().tls_certs_only([]).build()
        }
        built => built,
    };
    built.map_err(|error| {
        BadTarget(format!("the HTTP client cannot be built: {}; {NO_CERTIFICATES}", causes(&error)))
    })
}

const NO_CERTIFICATES: &str = "https needs the system's root certificates: install them (ca-certificates), or set \
                               SSL_CERT_FILE to a file with certificates";

/// Installs the cryptography provider of the process, unless one is installed already.
fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Parses an http or https URL.
pub(crate) fn http_url(text: &str) -> Result<Url, BadTarget> {
    let url = Url::parse(text).map_err(|error| {
        BadTarget(format!(
            "it is not a URL ({error}); write it as http://host:port/path or https://host/path"
        ))
    })?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => {
            Err(BadTarget(format!("{other}: is not supported; the URL must begin with http:// or https://")))
        }
    }
}

/// The origin of a URL, without credentials, path and query, any of which can be secret.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The outcome of a request without a complete response: a retry.
pub(crate) fn no_response(error: reqwest::Error) -> Outcome {
    let server = error.url().map_or_else(|| "the server".to_owned(), origin);
    let error = error.without_url();
    let (code, what) = if error.is_connect() {
        ("connect", "no connection to")
    } else if error.is_timeout() {
        ("timeout", "no response in time from")
    } else {
        ("protocol", "no complete HTTP response from")
    };
    Outcome::retry(code, format!("{what} {server}: {}", causes(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_and_https_urls_are_accepted() {
        for (text, word) in
            [("ftp://a/b", "ftp:"), ("file:///etc/passwd", "file:"), ("mailer/send", "not a URL")]
        {
            let refused = http_url(text).unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
        assert!(http_url("HTTPS://example.com").is_ok());
    }

    #[test]
    fn the_origin_of_a_url_contains_no_secrets() {
        let url = http_url("https://user:pass@example.com:8443/hook/s3cret?token=x").unwrap();
        assert_eq!(origin(&url), "https://example.com:8443");
    }
}
