//! Finds the queue of a command without a configured address.
//!
//! The order: a data directory here, a server on this machine, a Redis on this machine. Invariant:
//! a server that was not configured receives one request without a key, and is used only if it
//! requires no key.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use fairlane_engine::embedded::disk::holds_queue;
use fairlane_engine::http::wire::{CONTENT_TYPE_FAMILY, INFO_PATH};

use crate::config;
use crate::target::is_server;

/// The address of a Redis on this machine.
pub const REDIS: &str = "redis://127.0.0.1:6379";

/// How long a server on this machine may take to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes of the response that are read, which cover its head.
const RESPONSE_BYTES_MAX: u64 = 4096;

/// The result of a search.
struct Search {
    url: String,
    /// The server that was tried and why it is not used; none if a directory or a server was found.
    rejected_server: Option<(String, String)>,
}

/// The search of this process.
static SEARCH: OnceLock<Search> = OnceLock::new();

/// The address in the environment or in the file, or the result of a search.
pub fn discover() -> Result<String, String> {
    let nearby = config::nearby()?;
    if let Some(url) = config::engine_variable().or(nearby.engine()) {
        return Ok(url);
    }
    Ok(SEARCH.get_or_init(|| search(nearby.listen())).url.clone())
}

/// Whether commands without `--engine` use this address.
pub fn is_default(url: &str) -> bool {
    match SEARCH.get() {
        Some(search) => search.url == url,
        None => configured_or_local().is_ok_and(|expected| expected == url && url != REDIS),
    }
}

/// The configured address, else the directory here, else Redis. Contacts nothing.
pub fn configured_or_local() -> Result<String, String> {
    let configured = config::engine_variable().or(config::nearby()?.engine());
    Ok(configured.unwrap_or_else(|| local().to_owned()))
}

/// The configured address if it is that of a server, else the address of a server on this machine.
/// Contacts nothing.
pub fn server() -> Result<String, String> {
    let nearby = config::nearby()?;
    let configured = config::engine_variable().or(nearby.engine()).filter(|url| is_server(url));
    Ok(configured.unwrap_or_else(|| format!("http://{}", here(nearby.listen()))))
}

/// The address of a server on this machine that listens at the configured address.
fn here(listen: Option<SocketAddr>) -> SocketAddr {
    reachable(listen.unwrap_or(config::ServerConfig::default().listen))
}

/// The directory here if it contains a queue, else Redis.
pub fn local() -> &'static str {
    if holds_queue(Path::new(config::DATA)) { config::DATA } else { REDIS }
}

/// The failed attempts before the Redis at this address, if a search selected it.
pub fn attempts_before(url: &str) -> Option<String> {
    let search = SEARCH.get().filter(|search| search.url == url)?;
    let (server, reason) = search.rejected_server.as_ref()?;
    Some(attempts(server, reason))
}

fn attempts(server: &str, reason: &str) -> String {
    format!("there is no queue in {}, and {server} {reason}", config::DATA)
}

fn search(listen: Option<SocketAddr>) -> Search {
    if local() == config::DATA {
        return Search { url: config::DATA.to_owned(), rejected_server: None };
    }
    let address = here(listen);
    let server = format!("http://{address}");
    match probe(address, RESPONSE_TIMEOUT) {
        Ok(()) => Search { url: server, rejected_server: None },
        Err(reason) => Search { url: REDIS.to_owned(), rejected_server: Some((server, reason)) },
    }
}

/// The address at which a client on this machine reaches a server that listens on every address.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Checks that a server without keys responds at the address. The error completes a sentence that
/// begins with the address.
fn probe(address: SocketAddr, timeout: Duration) -> Result<(), String> {
    if !address.ip().is_loopback() {
        return Err("is not a loopback address".to_owned());
    }
    let head = request(address, timeout).map_err(|_| "does not respond".to_owned())?;
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap_or_default();
    let content_type = head.lines().find_map(|line| line.strip_prefix("content-type:")).unwrap_or_default();
    let select = format!("select it with --engine http://{address}");
    match status {
        "200" if !content_type.trim().starts_with(CONTENT_TYPE_FAMILY) => {
            Err("is not a Fairlane server".to_owned())
        }
        "200" if config::variable("FAIRLANE_KEY").is_some() => {
            Err(format!("does not receive the key in FAIRLANE_KEY unless you {select}"))
        }
        "200" => Ok(()),
        "401" => Err(format!("requires a key; {select} and set FAIRLANE_KEY if it is your server")),
        _ => Err("is not a Fairlane server".to_owned()),
    }
}

/// Sends a request without a key; returns the head of the response.
fn request(address: SocketAddr, timeout: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let request = format!("GET {INFO_PATH} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut response)?;
    let text = String::from_utf8_lossy(&response);
    Ok(text.split("\r\n\r\n").next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Probes a server that sends this response, or none.
    fn probed(response: Option<&'static str>) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let bytes = stream.read(&mut request).unwrap();
            if let Some(response) = response {
                stream.write_all(response.as_bytes()).unwrap();
            } else {
                // Blocks until the client times out and closes the connection.
                let _ = stream.read(&mut request);
            }
            String::from_utf8_lossy(&request[..bytes]).into_owned()
        });
        let timeout = if response.is_some() { Duration::from_secs(60) } else { Duration::from_millis(50) };
        let probed = probe(address, timeout);
        let request = serving.join().unwrap();
        assert!(!request.to_ascii_lowercase().contains("authorization"), "{request}");
        probed
    }

    #[test]
    fn discovery_uses_only_a_fairlane_server_without_keys() {
        let open = "HTTP/1.1 200 OK\r\nContent-Type: application/x-fairlane-9\r\n\r\n";
        assert_eq!(probed(Some(open)), Ok(()));
        for (response, reason) in [
            (Some("HTTP/1.1 401 Unauthorized\r\n\r\n"), "requires a key"),
            (Some("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<h1>"), "is not a Fairlane server"),
            (Some("HTTP/1.1 404 Not Found\r\n\r\n"), "is not a Fairlane server"),
            (Some("SSH-2.0-OpenSSH_9.2\r\n"), "is not a Fairlane server"),
            (None, "does not respond"),
        ] {
            let rejected = probed(response).unwrap_err();
            assert!(rejected.contains(reason), "{rejected}");
        }
    }

    #[test]
    fn discovery_does_not_contact_a_remote_server() {
        let elsewhere = "192.0.2.1:8080".parse().unwrap();
        assert!(probe(elsewhere, Duration::ZERO).unwrap_err().contains("loopback"));
    }

    #[test]
    fn failed_attempts_are_listed_with_their_reasons() {
        let listed = attempts("http://127.0.0.1:8080", "does not respond (connection refused)");
        let expected = "there is no queue in ./fairlane-data, and http://127.0.0.1:8080 does not respond \
                        (connection refused)";
        assert_eq!(listed, expected);
    }
}
