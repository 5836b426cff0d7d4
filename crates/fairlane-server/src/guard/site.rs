//! Where no key is asked for: which sites a browser may come from, and that nobody comes through a proxy.
//!
//! Every page a person opens can make their browser ask servers on the same machine. A page of another site names
//! itself in `Origin`; one whose name was pointed at this machine (DNS rebinding) is given away by `Host`.
//! A proxy on the same machine asks for the whole world, and often with a `Host` of this machine; most say for whom.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::uri::Authority;
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
    let is_local = is_plain(host) || host.parse::<Authority>().is_ok_and(|host| is_loopback(host.host()));
    if !is_local {
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

/// Whether it is one of the usual names, which need no parsing.
fn is_plain(host: &str) -> bool {
    let name = host.split_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    matches!(name.map_or(host, |(name, _)| name), "localhost" | "127.0.0.1")
}

fn is_loopback(host: &str) -> bool {
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
