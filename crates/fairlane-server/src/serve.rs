//! Connections: accepted within bounds, timed, and ended without cutting an answer.
//!
//! - `serve/connections.rs`: how many may be open, in all and of one address. `serve/answering.rs`: an answer that is
//!   written for as long as it lasts.
//! - `serve/timed.rs`: clients that are slow to ask or to read, or go on sending. `serve/arriving.rs`: a body as it
//!   comes. `serve/descriptors.rs`: how many there may be. `serve/framing.rs`: requests whose end is ambiguous.

mod answering;
mod arriving;
mod connections;
mod descriptors;
mod framing;
mod timed;

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

use self::answering::answering;
use self::arriving::Arriving;
use self::connections::{Connection, Connections, Place};
use self::timed::{Exchanges, Timed};
use crate::app::App;
use crate::figures::Present;
use crate::problem::ProblemKind;
use crate::settings::ServerSettings;

/// How long a client may say nothing before the system asks whether it is still there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
/// How long the system waits between asking again.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);

pub(crate) use self::connections::block;

/// The client's end of the connection on which a request came.
#[derive(Clone)]
pub(crate) struct Peer {
    /// The client's address.
    pub address: IpAddr,
    /// The connection.
    pub connection: Arc<Connection>,
}

/// Serves until the app stops, and then until the last answer is out or the grace period over.
pub(crate) async fn serve(listener: TcpListener, router: Router, app: Arc<App>) {
    let settings = &app.settings;
    let places_max = descriptors::connections_max(settings.connections_max).min(Semaphore::MAX_PERMITS);
    let connections = Arc::new(Connections::new(places_max, settings.address_connections_max));
    let (open, builder) = (TaskTracker::new(), builder(settings));
    loop {
        let accepted = tokio::select! {
            () = app.stopping.cancelled() => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        let Some((stream, address, place)) = accepted else { continue };
        let exchanges = Arc::new(Exchanges::default());
        let io = TokioIo::new(Timed::new(stream, exchanges.clone(), settings, app.stopping.clone()));
        let peer = Peer { address, connection: place.connection.clone() };
        let router = router.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            peer.connection.begin();
            let begun = exchanges.begin();
            let mut request = request.map(|body| Body::new(Arriving::new(body, &exchanges, begun.clone())));
            request.extensions_mut().insert(peer.clone());
            let answer = (!exchanges.is_ambiguous()).then(|| router.clone().call(request));
            let connection = peer.connection.clone();
            async move {
                let answer = match answer {
                    Some(answer) => answer.await.unwrap_or_else(|never| match never {}),
                    None => ambiguous(),
                };
                drop(begun);
                Ok::<_, std::convert::Infallible>(leaving(answer, connection))
            }
        });
        let connection = builder.serve_connection(io, service);
        open.spawn(run(connection, place, app.stopping.clone()));
    }
    drop(listener);
    open.close();
    let _ = tokio::time::timeout(settings.shutdown_grace_period, open.wait()).await;
}

/// Serves a connection until its client ends it, it makes room for others, or the server stops.
async fn run<S>(
    connection: http1::Connection<TokioIo<Timed<TcpStream>>, S>,
    place: Place,
    stopping: CancellationToken,
) where
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let _present = Present::connection();
    let mut connection = pin!(connection);
    let is_over = tokio::select! {
        // A client that goes away is no news.
        _ = connection.as_mut() => true,
        () = stopping.cancelled() => false,
        () = place.connection.closing() => false,
    };
    if !is_over {
        // An answer that is on its way arrives first.
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

fn ambiguous() -> Response {
    let problem = ProblemKind::Malformed
        .because("the request has both Content-Length and Transfer-Encoding; send it with one of them");
    let mut answer = problem.into_response();
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// The answer as it leaves. A connection without a valid key ends with it: a client must not hold a place by asking for
/// what everybody may see.
fn leaving(mut answer: Response, connection: Arc<Connection>) -> Response {
    if !connection.has_key() {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answering(answer, connection)
}

fn builder(settings: &ServerSettings) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // It runs from the end of one answer to the end of the next head; `Timed` bounds a head that has begun.
        .header_read_timeout(settings.idle_timeout)
        .max_header_size(settings.head_bytes_max)
        // What one connection can make the server hold, whatever it sends.
        .max_buf_size(settings.head_bytes_max.max(8 * 1024));
    builder
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Connections>,
) -> Option<(TcpStream, IpAddr, Place)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            prepare(&stream);
            let place = connections.admit(peer.ip()).await?;
            Some((stream, peer.ip(), place))
        }
        Err(error) => {
            tracing::warn!(target: "fairlane", %error, "a connection could not be accepted");
            // Out of file descriptors, most likely: others have to end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// Each of these only makes a connection better; one that the system does not know is done without.
fn prepare(stream: &TcpStream) {
    // Answers are small and waited for.
    let _ = stream.set_nodelay(true);
    // A client whose machine has gone would hold its place for ever.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_AFTER);
    let _ = sockopt::set_tcp_keepintvl(stream, KEEPALIVE_EVERY);
}
