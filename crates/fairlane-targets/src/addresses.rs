//! The addresses callbacks may connect to: a URL that a customer chose must not lead into the
//! operator's own network.
//!
//! Invariant: the address that is checked is the address that is connected to. A literal address is
//! checked in the URL after normalisation (`0x7f.1` is 127.0.0.1), a name when it is resolved for
//! the connection. So changing the address of a name between two lookups does not bypass the check.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::client::{BadTarget, http_url};

/// The addresses that callbacks may connect to; by default those of the public Internet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRule {
    /// Allows every address: private, loopback, link-local and all others.
    pub allow_private: bool,
    /// Host names, as they appear in the URL, that are allowed at any address.
    pub allow_hosts: Vec<String>,
}

/// An address that callbacks must not connect to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
// The customer reads this message: it must not reveal what a name resolves to in the operator's
// network.
#[error(
    "{host} is refused: callbacks go to public addresses only, unless the host is listed in allow_hosts of \
     [callbacks], or allow_private is true"
)]
pub(crate) struct AddressRefused {
    pub host: String,
    /// The resolved address, for the log.
    pub address: IpAddr,
    /// The kind of address, for the log.
    pub kind: &'static str,
}

impl AddressRule {
    /// Checks a URL before it is stored: its scheme, and a literal address in it. A name is checked
    /// when a request resolves it.
    pub fn check_url(&self, url: &str) -> Result<(), BadTarget> {
        let url = http_url(url)?;
        self.check_literal(&url).map_err(|error| BadTarget(error.to_string()))
    }

    /// Checks a literal address in the URL; a name is checked when it is resolved.
    pub(crate) fn check_literal(&self, url: &Url) -> Result<(), AddressRefused> {
        let host = url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) if !self.allows_host(host) => self.check(host, address),
            _ => Ok(()),
        }
    }

    /// The permitted ones of a name's addresses; an error if all of them are refused.
    fn permitted(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, AddressRefused> {
        if self.allows_host(host) {
            return Ok(found);
        }
        let mut refused = None;
        let permitted: Vec<SocketAddr> = found
            .into_iter()
            .filter(|address| self.check(host, address.ip()).map_err(|error| refused = Some(error)).is_ok())
            .collect();
        match refused {
            Some(refused) if permitted.is_empty() => Err(refused),
            _ => Ok(permitted),
        }
    }

    fn check(&self, host: &str, address: IpAddr) -> Result<(), AddressRefused> {
        match not_public(address) {
            Some(kind) if !self.allow_private => Err(AddressRefused { host: host.to_owned(), address, kind }),
            _ => Ok(()),
        }
    }

    fn allows_host(&self, host: &str) -> bool {
        let plain = |host: &str| host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
        self.allow_hosts.iter().any(|allowed| plain(allowed) == plain(host))
    }
}

/// Resolves names for connections, and returns only addresses that the rule permits.
pub(crate) struct RuledResolver(pub Arc<AddressRule>);

impl Resolve for RuledResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rule = self.0.clone();
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await?.collect();
            let permitted: Addrs = Box::new(rule.permitted(host, found)?.into_iter());
            Ok(permitted)
        })
    }
}

/// The kind of an address that is not on the public Internet, according to the IANA registries of
/// special-purpose addresses; `None` for a public address.
fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "unspecified",
        [127, ..] => "loopback",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "private",
        [100, 64..=127, ..] => "a provider's shared address",
        [169, 254, ..] => "link-local",
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "for documentation",
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => "for special purposes",
        [224..=239, ..] => "multicast",
        [240..=255, ..] => "reserved",
        _ => return None,
    })
}

/// Only 2000::/3 is allocated; any other address embeds an IPv4 address or is special.
fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([one, two], [three, four]) = (high.to_be_bytes(), low.to_be_bytes());
        not_public_v4(Ipv4Addr::new(one, two, three, four))
    };
    Some(match (a, b) {
        (0, 0) if [c, d, e, f] == [0, 0, 0, 0xffff] => return embedded(high, low),
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => return embedded(high, low),
        (0x2002, _) => return embedded(b, c),
        (0, 0) if address.is_loopback() => "loopback",
        (0, 0) if address.is_unspecified() => "unspecified",
        (0x2001, 0..=0x1ff) => "for special purposes",
        (0x2001, 0xdb8) | (0x3fff, 0..=0xfff) => "for documentation",
        (0x2000..=0x3fff, _) => return None,
        (0xfc00..=0xfdff, _) => "private",
        (0xfe80..=0xfebf, _) => "link-local",
        (0xff00..=0xffff, _) => "multicast",
        _ => "reserved",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::http_url;

    fn refused(rule: &AddressRule, url: &str) -> bool {
        rule.check_literal(&http_url(url).unwrap()).is_err()
    }

    #[test]
    fn every_non_public_address_is_refused() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:c0a8:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(not_public(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[test]
    fn public_addresses_up_to_the_edges_of_reserved_ranges_are_permitted() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "126.1.1.1",
            "128.0.0.1",
            "169.253.1.1",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.1.1",
            "198.17.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "3ffe::1",
        ] {
            assert_eq!(not_public(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn unusual_forms_of_literal_addresses_are_recognised() {
        let rule = AddressRule::default();
        for url in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://017700000001/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://①②⑦.0.0.1/",
            "http://%31%32%37.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[0:0:0:0:0:0:0:1]:80/",
            "http://user@169.254.169.254/latest",
            "http://0/",
            "https://[64:ff9b::7f00:1]/",
        ] {
            assert!(refused(&rule, url), "{url}");
        }
        for url in ["http://8.8.8.8/", "http://[2606:4700::1111]/", "http://example.com/"] {
            assert!(!refused(&rule, url), "{url}");
        }
    }

    #[test]
    fn hosts_and_addresses_allowed_by_the_settings_are_permitted() {
        let hosts =
            AddressRule { allow_private: false, allow_hosts: vec!["Hooks.Internal".into(), "::1".into()] };
        let loopback: Vec<SocketAddr> = vec!["127.0.0.1:0".parse().unwrap()];
        assert_eq!(hosts.permitted("hooks.internal.", loopback.clone()), Ok(loopback.clone()));
        assert!(hosts.permitted("evil.hooks.internal", loopback.clone()).is_err());
        assert!(!refused(&hosts, "http://[::1]:8080/") && refused(&hosts, "http://127.0.0.1/"));
        let all = AddressRule { allow_private: true, ..AddressRule::default() };
        assert_eq!(all.permitted("anything", loopback.clone()), Ok(loopback));
        assert!(!refused(&all, "http://10.0.0.1/"));
    }

    #[test]
    fn only_public_addresses_of_a_name_are_connected_to() {
        let found = |addresses: &[&str]| -> Vec<SocketAddr> {
            addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect()
        };
        let rule = AddressRule::default();
        let permitted = rule.permitted("mixed.example", found(&["10.0.0.1", "8.8.8.8", "::1"])).unwrap();
        assert_eq!(permitted, found(&["8.8.8.8"]));
        let refused = rule.permitted("inside.example", found(&["10.0.0.1"])).unwrap_err().to_string();
        for word in ["inside.example", "allow_hosts", "allow_private"] {
            assert!(refused.contains(word), "{word:?} is missing in: {refused}");
        }
        assert!(!refused.contains("10.0.0.1"), "the message reveals an internal address: {refused}");
    }
}
