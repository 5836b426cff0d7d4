//! Requests to instances, of which some may be down.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::{sleep, timeout};

/// How long an instance may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The pause before a request is sent to the next instance.
const PAUSE: Duration = Duration::from_millis(200);

/// A client of all instances. Every request of the shop may be repeated, so it tries them in turn.
pub struct Client {
    http: HttpClient<HttpConnector, Full<Bytes>>,
    urls: Vec<String>,
    next: AtomicUsize,
    repeated: AtomicU64,
}

/// A response: its status, and its body as JSON or null.
pub type Response = (StatusCode, Value);

impl Client {
    /// A client of the instances at these addresses, such as `http://127.0.0.1:8090`.
    pub fn new(urls: &[String]) -> Result<Self, String> {
        let urls: Vec<String> = urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        for url in &urls {
            let uri: Uri = url.parse().map_err(|_| format!("{url} is not an address"))?;
            if uri.scheme_str() != Some("http") || uri.host().is_none() {
                return Err(format!("{url} is not an address such as http://127.0.0.1:8090"));
            }
        }
        if urls.is_empty() {
            return Err("name at least one instance with --against".to_owned());
        }
        let http = HttpClient::builder(TokioExecutor::new()).build_http();
        Ok(Self { http, urls, next: AtomicUsize::new(0), repeated: AtomicU64::new(0) })
    }

    /// Requests that were sent more than once.
    pub fn repeated(&self) -> u64 {
        self.repeated.load(Relaxed)
    }

    /// Sends a request until an instance answers with anything but 503.
    pub async fn send(&self, method: &Method, path: &str, token: Option<&str>, body: &str) -> Response {
        loop {
            match self.try_send(method, path, token, body).await {
                Some((status, _)) if status == StatusCode::SERVICE_UNAVAILABLE => {}
                Some(response) => return response,
                None => {}
            }
            self.repeated.fetch_add(1, Relaxed);
            sleep(PAUSE).await;
        }
    }

    async fn try_send(
        &self,
        method: &Method,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> Option<Response> {
        let url = &self.urls[self.next.fetch_add(1, Relaxed) % self.urls.len()];
        let mut request = Request::builder().method(method).uri(format!("{url}{path}"));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::from(body.to_owned())).ok()?;
        let exchange = async {
            let response = self.http.request(request).await.ok()?;
            let status = response.status();
            let body = response.into_body().collect().await.ok()?.to_bytes();
            Some((status, serde_json::from_slice(&body).unwrap_or_default()))
        };
        timeout(TIMEOUT, exchange).await.ok().flatten()
    }
}
