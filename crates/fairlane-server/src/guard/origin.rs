//! The origin of requests to a server that requires no key: web pages of other sites and proxies
//! are refused.
//!
//! Every page that is open in a browser can make it send requests to servers on the same machine. A
//! page of another site is identified by `Origin`, and one whose name resolves to this machine (DNS
//! rebinding) by `Host`. A proxy on the same machine forwards requests from anywhere, often with a
//! `Host` of this machine; most proxies add a header that names the client.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, header};

use crate::problem::{Problem, ProblemKind};

/// Headers that a proxy adds, beside those that begin with [`FORWARDED_PREFIX`].
const PROXY_HEADERS: [&str; 3] = ["forwarded", "x-real-ip", "via"];
/// The prefix of most headers that a proxy adds.
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// Refuses a request from a page of another site or through a proxy.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let named = |name| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let host = named(header::HOST).unwrap_or("");
    if !name_of(host).is_some_and(is_loopback) {
        return Err(ProblemKind::Forbidden.because(
            "without keys the server accepts only localhost and loopback addresses in the header Host; to serve other \
             names, create a key first (fairlane key create)",
        ));
    }
    let is_added_by_proxy = |name: &&str| PROXY_HEADERS.contains(name) || name.starts_with(FORWARDED_PREFIX);
    if let Some(name) = headers.keys().map(|name| name.as_str()).find(is_added_by_proxy) {
        return Err(ProblemKind::Forbidden.because(format!(
            "without keys the server accepts no requests through a proxy, and this one has the header {name}; create a \
             key first (fairlane key create)"
        )));
    }
    let origin = named(header::ORIGIN);
    if origin.is_some_and(|origin| !is_same_origin(origin, host)) {
        return Err(ProblemKind::Forbidden.because(
            "without keys the server accepts no requests from pages of other sites; send them from a program of your \
             own, with a key",
        ));
    }
    Ok(())
}

/// Refuses a change that a page of another site sends. Browsers say in `Sec-Fetch-Site` where a
/// request comes from; older ones, and all of them over unencrypted connections, send `Origin` only.
pub(crate) fn check_page(headers: &HeaderMap) -> Result<(), Problem> {
    let named = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let is_own = match (named("sec-fetch-site"), named("origin")) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => {
            // A proxy may pass on another host than the one in the browser's address bar. A page cannot
            // set either header.
            let hosts = [named("host"), named("x-forwarded-host")];
            hosts.into_iter().flatten().any(|host| is_same_origin(origin, host))
        }
        (None, None) => false,
    };
    if is_own {
        return Ok(());
    }
    Err(ProblemKind::Forbidden.because(
        "changes are accepted from pages of this server only; programs use the API (see /docs), with a key",
    ))
}

/// The name or address in a `Host`, if nothing but a port follows it.
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
    // Checks the most frequent hosts first.
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

fn is_same_origin(origin: &str, host: &str) -> bool {
    let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    site.is_some_and(|site| site.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_accepted_from_a_page_of_the_same_origin_only() {
        let check = |named: &[(&'static str, &'static str)]| {
            let headers = named.iter().map(|(name, value)| {
                (axum::http::HeaderName::from_static(name), axum::http::HeaderValue::from_static(value))
            });
            check_page(&headers.collect()).is_ok()
        };
        let (host, origin) = (("host", "q.example"), ("origin", "https://q.example"));
        assert!(check(&[("sec-fetch-site", "same-origin")]) && check(&[host, origin]));
        assert!(check(&[("host", "10.0.0.1:8080"), ("x-forwarded-host", "q.example"), origin]));
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!check(&[("sec-fetch-site", site), host, origin]), "{site}");
        }
        assert!(!check(&[host]) && !check(&[host, ("origin", "null")]));
        assert!(!check(&[host, ("origin", "https://evil.example")]));
    }

    fn allowed(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        check(&headers).is_ok()
    }

    #[test]
    fn only_hosts_of_this_machine_are_accepted() {
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
    fn only_pages_of_the_same_origin_are_accepted() {
        assert!(allowed("localhost:80", Some("http://localhost:80")));
        for origin in
            ["null", "", "http://evil.example", "http://localhost:3000", "http://localhost:80.evil.example"]
        {
            assert!(!allowed("localhost:80", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn requests_through_a_proxy_are_refused() {
        for name in ["Forwarded", "X-Forwarded-For", "x-forwarded-proto", "X-Real-IP", "Via"] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "127.0.0.1:80".parse().unwrap());
            assert!(check(&headers).is_ok());
            headers.insert(header::HeaderName::from_bytes(name.as_bytes()).unwrap(), "".parse().unwrap());
            assert!(check(&headers).is_err(), "{name}");
        }
    }
}
