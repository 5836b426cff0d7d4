//! Finds the queue of a command whose address is given nowhere.
//!
//! The order: a data directory here, a server on this machine, a Redis on this machine. Invariant: nothing is sent to
//! a server that was not named but a question without a key, and only a server that needs no key is used.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use fairlane_engine::embedded::disk::holds_queue;
use fairlane_engine::http::wire::{CONTENT_TYPE_FAMILY, FACTS_PATH};

use crate::config;

/// Where a Redis on this machine listens.
pub const REDIS: &str = "redis://127.0.0.1:6379";

/// How long a server on this machine may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// The part of the answer that is read: the head of it.
const ANSWER_BYTES_MAX: u64 = 4096;

/// What a search came to.
struct Search {
    url: String,
    /// Where a server was looked for and why it is not used; none where a directory or a server was found.
    server: Option<(String, String)>,
}

/// The search of this process.
static SEARCH: OnceLock<Search> = OnceLock::new();

/// The address that the environment or the file names, or what a search finds.
pub fn found() -> Result<String, String> {
    let nearby = config::nearby()?;
    if let Some(url) = config::variable("FAIRLANE_ENGINE").or(nearby.engine) {
        return Ok(url);
    }
    Ok(SEARCH.get_or_init(|| search(nearby.listen)).url.clone())
}

/// Whether commands that name no address use this one: the place that was found, or that is named.
pub fn is_found(url: &str) -> bool {
    match SEARCH.get() {
        Some(search) => search.url == url,
        None => expected().is_ok_and(|expected| expected == url && url != REDIS),
    }
}

/// The address that is named, or else the directory here, or else Redis. Nothing is asked.
pub fn expected() -> Result<String, String> {
    let named = config::variable("FAIRLANE_ENGINE").or(config::nearby()?.engine);
    Ok(named.unwrap_or_else(|| unnamed().to_owned()))
}

/// The directory here if it holds a queue, or else Redis.
pub fn unnamed() -> &'static str {
    if holds_queue(Path::new(config::DATA)) { config::DATA } else { REDIS }
}

/// What was tried in vain before the Redis at this address, if that was found by a search.
pub fn tried_before(url: &str) -> Option<String> {
    let search = SEARCH.get().filter(|search| search.url == url)?;
    let (server, reason) = search.server.as_ref()?;
    Some(tried(server, reason))
}

fn tried(server: &str, reason: &str) -> String {
    format!("there is no queue in {}, and {server} {reason}", config::DATA)
}

fn search(listen: Option<String>) -> Search {
    if unnamed() == config::DATA {
        return Search { url: config::DATA.to_owned(), server: None };
    }
    let listen = config::variable("FAIRLANE_SERVER_LISTEN").or(listen);
    let address = listen.and_then(|text| text.parse().ok());
    let address = reachable(address.unwrap_or(config::ServerConfig::default().listen));
    let server = format!("http://{address}");
    match probe(address, ANSWER_TIMEOUT) {
        Ok(()) => Search { url: server, server: None },
        Err(reason) => Search { url: REDIS.to_owned(), server: Some((server, reason)) },
    }
}

/// Where a client on this machine finds a server that listens on every address.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Whether a server that needs no key answers there, or the rest of a sentence that says why it is not used.
fn probe(address: SocketAddr, timeout: Duration) -> Result<(), String> {
    if !address.ip().is_loopback() {
        return Err("is not an address of this machine alone".to_owned());
    }
    let head = ask(address, timeout).map_err(|error| format!("does not answer ({error})"))?;
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap_or_default();
    let content_type = head.lines().find_map(|line| line.strip_prefix("content-type:")).unwrap_or_default();
    let names_it = format!("name it with --engine http://{address}");
    match status {
        "200" if !content_type.trim().starts_with(CONTENT_TYPE_FAMILY) => {
            Err("is no Fairlane server".to_owned())
        }
        "200" if config::variable("FAIRLANE_KEY").is_some() => {
            Err(format!("is not sent the key in FAIRLANE_KEY unless you {names_it}"))
        }
        "200" => Ok(()),
        "401" => Err(format!("asks for a key; {names_it} and set FAIRLANE_KEY if it is yours")),
        _ => Err("is no Fairlane server".to_owned()),
    }
}

/// The head of the answer to a question that needs no key where the server asks for none.
fn ask(address: SocketAddr, timeout: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let request = format!("GET {FACTS_PATH} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    Ok(text.split("\r\n\r\n").next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What is found out about a server that answers like this; nothing at all if it does not answer.
    fn probed(answer: Option<&'static str>) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let bytes = stream.read(&mut request).unwrap();
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).unwrap();
            } else {
                // Until the client gives up and closes.
                let _ = stream.read(&mut request);
            }
            String::from_utf8_lossy(&request[..bytes]).into_owned()
        });
        let timeout = if answer.is_some() { Duration::from_secs(60) } else { Duration::from_millis(50) };
        let probed = probe(address, timeout);
        let request = answering.join().unwrap();
        assert!(!request.to_ascii_lowercase().contains("authorization"), "{request}");
        probed
    }

    #[test]
    fn only_an_open_fairlane_server_is_used_without_being_named() {
        let open = "HTTP/1.1 200 OK\r\nContent-Type: application/x-fairlane-9\r\n\r\n";
        assert_eq!(probed(Some(open)), Ok(()));
        for (answer, reason) in [
            (Some("HTTP/1.1 401 Unauthorized\r\n\r\n"), "asks for a key"),
            (Some("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<h1>"), "is no Fairlane server"),
            (Some("HTTP/1.1 404 Not Found\r\n\r\n"), "is no Fairlane server"),
            (Some("SSH-2.0-OpenSSH_9.2\r\n"), "is no Fairlane server"),
            (None, "does not answer"),
        ] {
            let refused = probed(answer).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn a_server_elsewhere_is_not_asked() {
        let elsewhere = "192.0.2.1:8080".parse().unwrap();
        assert!(probe(elsewhere, Duration::ZERO).unwrap_err().contains("this machine alone"));
    }

    #[test]
    fn places_that_were_tried_are_named_with_the_reason() {
        let said = tried("http://127.0.0.1:8080", "does not answer (connection refused)");
        let expected = "there is no queue in ./fairlane-data, and http://127.0.0.1:8080 does not answer \
                        (connection refused)";
        assert_eq!(said, expected);
    }
}
