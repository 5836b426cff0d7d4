//! Where no key is asked for: which sites a browser may come from, and that nobody comes through a proxy.
//!
//! Every page a person opens can make their browser ask servers on the same machine. A page of another site names
//! itself in `Origin`; one whose name was pointed at this machine (DNS rebinding) is given away by `Host`.
//! A proxy on the same machine asks for the whole world, and often with a `Host` of this machine; most say for whom.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, header};

use crate::problem::{Problem, ProblemKind};

/// What a proxy adds, beside all that begins with [`FORWARDED`].
const OF_PROXIES: [&str; 3] = ["forwarded", "x-real-ip", "via"];
/// What begins most of what a proxy adds.
const FORWARDED: &str = "x-forwarded-";

/// Refuses what a page of another site or a proxy has sent.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let named = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let host = named(header::HOST).unwrap_or("");
    if !name_of(host).is_some_and(is_loopback) {
        return Err(ProblemKind::Forbidden.because(
            "without keys the server answers only to localhost and loopback addresses in the header Host; to serve \
             other names, create a key first (fairlane key create)",
        ));
    }
    let through = |name: &&str| OF_PROXIES.contains(name) || name.starts_with(FORWARDED);
    if let Some(name) = headers.keys().map(|name| name.as_str()).find(through) {
        return Err(ProblemKind::Forbidden.because(format!(
            "without keys the server answers nobody through a proxy, which has sent the header {name}; create a key \
             first (fairlane key create)"
        )));
    }
    let origin = named(header::ORIGIN);
    if origin.is_some_and(|origin| !is_of(origin, host)) {
        return Err(ProblemKind::Forbidden.because(
            "without keys the server answers no pages of other sites; let a program of your own ask it, with a key",
        ));
    }
    Ok(())
}

/// The name or address in a `Host`, if a port or nothing follows it.
fn name_of(host: &str) -> Option<&str> {
    let begin = if host.starts_with('[') { host.find(']')? } else { 0 };
    let end = host[begin..].find(':').map_or(host.len(), |colon| begin + colon);
    let (name, port) = host.split_at(end);
    let is_port =
        |port: &str| port.is_empty() || (port.as_bytes()[0].is_ascii_digit() && port.parse::<u16>().is_ok());
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte);
    (name.bytes().all(is_name) && is_port(port.strip_prefix(':').unwrap_or(""))).then_some(name)
}

fn is_loopback(host: &str) -> bool {
    // Most come with one of these.
    if matches!(host, "localhost" | "127.0.0.1") {
        return true;
    }
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address
            .parse()
            .is_ok_and(|address: Ipv6Addr| IpAddr::V6(address).to_canonical().is_loopback());
    }
    let named = host == "localhost" || host.ends_with(".localhost");
    named || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn is_of(origin: &str, host: &str) -> bool {
    let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    site.is_some_and(|site| site.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        check(&headers).is_ok()
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:8080",
            "a.localhost:1",
            "localhost.",
            "localhost:",
            "[::1]",
        ] {
            assert!(allowed(host, None), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "a b",
            "localhost:18080.evil.example",
            "localhost:99999",
            "localhost:+80",
            "localhost:80:80",
            "[::1]evil.example",
            "[::1]:80.evil.example",
            "evil.example@localhost",
            "evil.example/.localhost",
        ] {
            assert!(!allowed(host, None), "{host}");
        }
        assert!(check(&HeaderMap::new()).is_err());
    }

    #[test]
    fn only_pages_of_the_server_itself_are_answered() {
        assert!(allowed("localhost:80", Some("http://localhost:80")));
        for origin in
            ["null", "", "http://evil.example", "http://localhost:3000", "http://localhost:80.evil.example"]
        {
            assert!(!allowed("localhost:80", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn nobody_comes_through_a_proxy() {
        for name in ["Forwarded", "X-Forwarded-For", "x-forwarded-proto", "X-Real-IP", "Via"] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "127.0.0.1:80".parse().unwrap());
            assert!(check(&headers).is_ok());
            headers.insert(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), "".parse().unwrap());
            assert!(check(&headers).is_err(), "{name}");
        }
    }
}
