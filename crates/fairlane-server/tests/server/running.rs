//! A server that runs for one test, and a client that asks it.

use std::sync::{Arc, OnceLock};

use fairlane::{Fairlane, Settings};
use fairlane_server::keys::Keys;
use fairlane_server::{Server, ServerSettings};
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;

/// A running server.
pub struct Running {
    /// The queue behind it.
    pub fairlane: Fairlane,
    /// The server; it ends with the runtime of the test at the latest.
    pub server: Server,
    client: Client,
    token: Option<String>,
}

impl Running {
    /// A server without keys, over a queue in memory.
    pub async fn start() -> Self {
        Self::over("memory:", Settings::default()).await
    }

    /// A server without keys, over the queue at this address.
    pub async fn over(url: &str, settings: Settings) -> Self {
        let fairlane = Fairlane::open_with(url, settings).await.unwrap();
        Self::start_with(fairlane, None, ServerSettings::default()).await
    }

    /// A server as it is wanted.
    pub async fn start_with(fairlane: Fairlane, keys: Option<Arc<Keys>>, settings: ServerSettings) -> Self {
        let any_port = ([127, 0, 0, 1], 0).into();
        let server = Server::start(fairlane.clone(), any_port, keys, settings).await.unwrap();
        Self { fairlane, server, client: client(), token: None }
    }

    /// From now on all requests come with this key.
    pub fn set_token(&mut self, token: impl Into<String>) {
        self.token = Some(token.into());
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    /// A request to be completed.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, self.url(path));
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// Asks, and gives the answer as JSON (null if there is none).
    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    /// Sends JSON.
    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(json(self.request(Method::POST, path), &body)).await
    }

    /// Sends nothing.
    pub async fn post_nothing(&self, path: String) -> (StatusCode, Value) {
        answer(self.request(Method::POST, &path)).await
    }

    /// Sends JSON that changes something.
    pub async fn patch(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(json(self.request(Method::PATCH, path), &body)).await
    }

    /// Removes something.
    pub async fn delete(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::DELETE, path)).await
    }
}

/// A request with this JSON.
pub fn json(request: RequestBuilder, body: &Value) -> RequestBuilder {
    request.header("content-type", "application/json").body(Body::from(body.to_string()))
}

/// Sends a request and reads the answer as JSON.
pub async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    read(request.send().await.unwrap()).await
}

/// Reads an answer as JSON.
pub async fn read(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let body = response.bytes().await.unwrap();
    let value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    if status.is_client_error() || status.is_server_error() {
        assert_eq!(value["status"], status.as_u16(), "{value}");
        assert!(value["type"].as_str().unwrap().starts_with("urn:fairlane:problem:"), "{value}");
    }
    (status, value)
}

/// The last part of a problem's type.
pub fn problem(value: &Value) -> &str {
    value["type"].as_str().and_then(|text| text.strip_prefix("urn:fairlane:problem:")).unwrap_or("none")
}

fn client() -> Client {
    static PROVIDER: OnceLock<()> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    // No certificates: nothing here is encrypted.
    Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}
