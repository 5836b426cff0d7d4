//! A server that runs for one test, and a client that sends requests to it.

use std::sync::{Arc, OnceLock};

use fairlane::{Fairlane, Settings};
use fairlane_server::keys::Keys;
use fairlane_server::{OutboxSource, Server, ServerSettings};
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

    /// A server with these keys and settings.
    pub async fn start_with(fairlane: Fairlane, keys: Option<Arc<Keys>>, settings: ServerSettings) -> Self {
        Self::start_with_outbox(fairlane, keys, settings, None).await
    }

    /// The same with an outbox.
    pub async fn start_with_outbox(
        fairlane: Fairlane,
        keys: Option<Arc<Keys>>,
        settings: ServerSettings,
        outbox: Option<Arc<dyn OutboxSource>>,
    ) -> Self {
        let any_port = ([127, 0, 0, 1], 0).into();
        let server = Server::start_with_outbox(fairlane.clone(), any_port, keys, settings, outbox).await;
        Self { fairlane, server: server.unwrap(), client: client(), token: None }
    }

    /// Sends this key with all requests from now on.
    pub fn set_token(&mut self, token: impl Into<String>) {
        self.token = Some(token.into());
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    /// A request that is not sent yet.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, self.url(path));
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// Sends a GET request, and returns the response as JSON (null if it is empty).
    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        send(self.request(Method::GET, path)).await
    }

    /// Sends a POST request with JSON.
    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        send(json(self.request(Method::POST, path), &body)).await
    }

    /// Sends a POST request without a body.
    pub async fn post_nothing(&self, path: String) -> (StatusCode, Value) {
        send(self.request(Method::POST, &path)).await
    }

    /// Sends a PATCH request with JSON.
    pub async fn patch(&self, path: &str, body: Value) -> (StatusCode, Value) {
        send(json(self.request(Method::PATCH, path), &body)).await
    }

    /// Sends a DELETE request.
    pub async fn delete(&self, path: &str) -> (StatusCode, Value) {
        send(self.request(Method::DELETE, path)).await
    }
}

/// A request with this JSON body.
pub fn json(request: RequestBuilder, body: &Value) -> RequestBuilder {
    request.header("content-type", "application/json").body(Body::from(body.to_string()))
}

/// Sends a request and returns the response as JSON.
pub async fn send(request: RequestBuilder) -> (StatusCode, Value) {
    read(request.send().await.unwrap()).await
}

/// Reads a response as JSON.
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
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    // No certificates: no connection here is encrypted.
    Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}
