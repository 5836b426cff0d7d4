//! Connections: accepted within limits, with timeouts, and closed without cutting off a response.
//!
//! - `serve/connections.rs`: open connections, in total and per address. `serve/descriptors.rs`:
//!   the limit of the operating system.
//! - `serve/timeout_stream.rs`: clients that are slow to send or to read, or continue to send.
//!   `serve/framing.rs`: requests whose end is ambiguous.
//! - `serve/tracked_body.rs`: the body of a request while it arrives. `serve/tracked_response.rs`:
//!   the body of a response while it is sent.

mod connections;
mod descriptors;
mod framing;
mod timeout_stream;
mod tracked_body;
mod tracked_response;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use self::connections::{Connection, ConnectionSlot, Connections};
use self::timeout_stream::{ConnectionState, TimeoutStream};
use self::tracked_body::TrackedBody;
use self::tracked_response::track_response;
use crate::app::App;
use crate::metrics::Gauged;
use crate::problem::ProblemKind;
use crate::settings::ServerSettings;

/// How long a connection is silent before the system sends TCP keepalive probes.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
/// The interval between two keepalive probes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);

pub(crate) use self::connections::block;
pub use self::framing::Framing;

/// The client of the connection on which a request came.
#[derive(Clone)]
pub(crate) struct Peer {
    /// The client's address.
    pub address: IpAddr,
    /// The connection.
    pub connection: Arc<Connection>,
}

/// Serves until the app stops, and then until the last response is sent or the grace period ends.
pub(crate) async fn serve(listener: TcpListener, router: Router, app: Arc<App>) {
    let settings = &app.settings;
    let slots = descriptors::connections_max(settings.connections_max).min(Semaphore::MAX_PERMITS);
    let connections = Arc::new(Connections::new(slots, settings.address_connections_max));
    let (open, builder) = (TaskTracker::new(), builder(settings));
    loop {
        let accepted = tokio::select! {
            () = app.stopping.cancelled() => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        let Some((stream, address, slot)) = accepted else { continue };
        let state = Arc::new(ConnectionState::default());
        let io = TokioIo::new(TimeoutStream::new(stream, state.clone(), settings, app.stopping.clone()));
        let peer = Peer { address, connection: slot.connection.clone() };
        let router = router.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            peer.connection.begin();
            let open_request = state.begin();
            let mut request =
                request.map(|body| Body::new(TrackedBody::new(body, &state, open_request.clone())));
            request.extensions_mut().insert(peer.clone());
            let response = (!state.is_ambiguous()).then(|| router.clone().call(request));
            let connection = peer.connection.clone();
            async move {
                let response = match response {
                    Some(response) => response.await.unwrap_or_else(|never| match never {}),
                    None => ambiguous(),
                };
                drop(open_request);
                Ok::<_, std::convert::Infallible>(finish(response, connection))
            }
        });
        let connection = builder.serve_connection(io, service);
        open.spawn(run(connection, slot, app.stopping.clone()));
    }
    drop(listener);
    open.close();
    let _ = tokio::time::timeout(settings.shutdown_grace_period, open.wait()).await;
}

/// Serves a connection until its client closes it, it is closed for another one, or the server
/// stops.
async fn run<S>(
    connection: http1::Connection<TokioIo<TimeoutStream<TcpStream>>, S>,
    slot: ConnectionSlot,
    stopping: CancellationToken,
) where
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let _gauged = Gauged::connection();
    let mut connection = pin!(connection);
    let is_over = tokio::select! {
        // A client that goes away is not an error.
        _ = connection.as_mut() => true,
        () = stopping.cancelled() => false,
        () = slot.connection.closing() => false,
    };
    if !is_over {
        // A response in progress is completed first.
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

fn ambiguous() -> Response {
    let problem = ProblemKind::Malformed
        .because("the request has both Content-Length and Transfer-Encoding; send it with one of them");
    let mut response = problem.into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The response as it is sent. A connection without a valid key ends with it: a client must not
/// hold a connection with requests to public routes.
fn finish(mut response: Response, connection: Arc<Connection>) -> Response {
    if !connection.has_key() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    track_response(response, connection)
}

fn builder(settings: &ServerSettings) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // It runs from the end of one response to the end of the next head; `TimeoutStream` bounds
        // a head that has begun.
        .header_read_timeout(settings.idle_timeout)
        .max_header_size(settings.head_bytes_max)
        // The memory that one connection can take for its buffer.
        .max_buf_size(settings.head_bytes_max.max(8 * 1024));
    builder
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Connections>,
) -> Option<(TcpStream, IpAddr, ConnectionSlot)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            prepare(&stream);
            let slot = connections.admit(peer.ip()).await?;
            Some((stream, peer.ip(), slot))
        }
        Err(error) => {
            tracing::warn!(target: "fairlane", %error, "a connection could not be accepted");
            // Most likely the process is out of file descriptors, until other connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// Sets options of the socket. All of them are optional, so errors are ignored.
fn prepare(stream: &TcpStream) {
    // Responses are small, and clients wait for them.
    let _ = stream.set_nodelay(true);
    // Without keepalive a client whose machine is gone would hold its connection for ever.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_AFTER);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE_EVERY);
}
