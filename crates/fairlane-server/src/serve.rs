//! Connections: accepted within bounds, timed, and ended without cutting an answer.
//!
//! - `serve/timed.rs`: clients that are slow to ask or to read, or go on sending. `serve/arriving.rs`: a body as it
//!   comes. `serve/descriptors.rs`: how many there may be.

mod arriving;
mod descriptors;
mod timed;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::Service;

use self::arriving::Arriving;
use self::timed::{Exchanges, Timed};
use crate::app::App;
use crate::figures::Present;
use crate::settings::ServerSettings;

/// How long a client may say nothing before the system asks whether it is still there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
/// How long the system waits between asking again.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub IpAddr);

/// Serves until the app stops, and then until the last answer is out or the grace period over.
pub(crate) async fn serve(listener: TcpListener, router: Router, app: Arc<App>) {
    let settings = &app.settings;
    let places = Arc::new(Semaphore::new(
        descriptors::connections_max(settings.connections_max).min(Semaphore::MAX_PERMITS),
    ));
    let graceful = GracefulShutdown::new();
    let builder = builder(settings);
    loop {
        let accepted = tokio::select! {
            () = app.stopping.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        let exchanges = Arc::new(Exchanges::default());
        let io = TokioIo::new(Timed::new(stream, exchanges.clone(), settings, app.stopping.clone()));
        let router = router.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let begun = exchanges.begin();
            let mut request = request.map(|body| Body::new(Arriving::new(body, &exchanges, begun.clone())));
            request.extensions_mut().insert(peer);
            let answer = router.clone().call(request);
            async move {
                let answer = answer.await;
                drop(begun);
                answer
            }
        });
        let connection = graceful.watch(builder.serve_connection(io, service));
        let present = Present::connection();
        tokio::spawn(async move {
            // A client that goes away is no news.
            let _ = connection.await;
            drop((place, present));
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(settings.shutdown_grace_period, graceful.shutdown()).await;
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
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, Peer, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => {
            prepare(&stream);
            Some((stream, Peer(peer.ip()), place))
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
