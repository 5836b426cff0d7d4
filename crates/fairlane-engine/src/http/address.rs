//! The address of a server and its key.
//!
//! Invariant: a key is never shown, neither by `Debug` nor in an error nor in the
//! displayed address.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::engine::EngineError;
use crate::open::without_user;

/// The environment variable with the key of a server, used if the address has none.
pub const KEY_VARIABLE: &str = "FAIRLANE_KEY";

/// A key of a server. It is never shown.
#[derive(Clone)]
pub struct Key(HeaderValue);

impl Key {
    /// A key as the server issued it.
    pub fn new(text: &str) -> Result<Self, EngineError> {
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let header = HeaderValue::from_str(&format!("Bearer {text}")).ok().filter(|_| fits);
        let mut header = header.ok_or_else(|| {
            EngineError::refused(
                "a key has only visible characters and no blanks; copy it as it was given out",
            )
        })?;
        header.set_sensitive(true);
        Ok(Self(header))
    }

    /// The key from the environment, if it is set.
    pub fn from_environment() -> Result<Option<Self>, EngineError> {
        match std::env::var(KEY_VARIABLE) {
            Err(std::env::VarError::NotPresent) => Ok(None),
            Ok(text) if text.is_empty() => Ok(None),
            Ok(text) => Self::new(&text).map(Some),
            Err(std::env::VarError::NotUnicode(_)) => Err(EngineError::refused(format!(
                "{KEY_VARIABLE} is not valid text; set it to a key of the server"
            ))),
        }
    }

    /// The value of the `Authorization` header.
    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// `http://host:port` or `https://host/path`, with or without a key before the host.
#[derive(Debug, Clone)]
pub(crate) struct ServerAddress {
    /// The address without the key; its path does not end with a slash.
    base: Url,
    key: Option<Key>,
}

impl ServerAddress {
    pub fn read(text: &str) -> Result<Self, EngineError> {
        let mut base = Url::parse(text).map_err(|error| bad_address(text, &error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(bad_address(text, "it begins with neither http:// nor https://"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(bad_address(text, "nothing may follow ? or #"));
        }
        if base.password().is_some() {
            return Err(bad_address(text, "only the key goes before the @, without a colon"));
        }
        if base.username().contains('%') {
            let advice =
                format!("the key has characters that an address cannot have; set {KEY_VARIABLE} to it");
            return Err(bad_address(text, &advice));
        }
        let key = match base.username() {
            "" => None,
            key => Some(Key::new(key)?),
        };
        let changed = base.set_username("");
        debug_assert!(changed.is_ok(), "an http address has a host, and so may have a user");
        let path = base.path().trim_end_matches('/').to_owned();
        base.set_path(&path);
        Ok(Self { base, key })
    }

    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// One of the paths of `wire`, below the path of the address.
    pub fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    pub fn is_encrypted(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// Whether the server is on this machine.
    pub fn is_near(&self) -> bool {
        let Some(host) = self.base.host_str() else { return false };
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match ip {
            Ok(ip) => ip.is_loopback(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        }
    }
}

/// Formats the address without the key.
impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base.as_str().trim_end_matches('/'))
    }
}

fn bad_address(text: &str, what: &str) -> EngineError {
    EngineError::refused(format!(
        "{:?} is not the address of a server: {what}; write http://host:port or https://host",
        without_user(text)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "flk_hunter2";

    fn read(text: &str) -> ServerAddress {
        ServerAddress::read(text).expect("nothing is wrong with it")
    }

    #[test]
    fn a_path_behind_a_proxy_is_kept() {
        for (text, execute) in [
            ("http://127.0.0.1:7070", "http://127.0.0.1:7070/engine/execute"),
            ("http://host:7070/", "http://host:7070/engine/execute"),
            ("https://host/queue", "https://host/queue/engine/execute"),
            ("https://host/a/queue/", "https://host/a/queue/engine/execute"),
            ("https://key@[::1]:7/queue", "https://[::1]:7/queue/engine/execute"),
        ] {
            assert_eq!(read(text).at("/engine/execute").as_str(), execute);
        }
        assert_eq!(read("https://key@host:8443/queue/").to_string(), "https://host:8443/queue");
    }

    #[test]
    fn a_key_is_removed_from_the_address_and_never_shown() {
        let address = read(&format!("https://{KEY}@host/queue"));
        let header = address.key().expect("it has one").header();
        assert_eq!(header.to_str().expect("it is text"), format!("Bearer {KEY}"));
        for shown in
            [format!("{address:?}"), address.to_string(), format!("{header:?}"), address.at("/x").into()]
        {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        assert!(read("https://host").key().is_none());
    }

    #[test]
    fn an_invalid_address_is_rejected_without_showing_its_key() {
        for (text, says) in [
            ("https://flk_hunter2@host:99999", "port"),
            ("https://me:hunter2@host", "without a colon"),
            ("https://:hunter2@host", "without a colon"),
            ("https://hunter2%20x@host", KEY_VARIABLE),
            ("https://hunter2@host?x=1", "?"),
            ("https://hunter2@host/#top", "#"),
            ("http://", "host"),
            ("ftp://hunter2@host", "neither http://"),
        ] {
            let refused = ServerAddress::read(text).expect_err("no address").to_string();
            assert!(refused.contains(says) && !refused.contains("hunter2"), "{refused}");
            assert!(refused.contains("write http://host:port"), "{refused}");
        }
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_refused() {
        for text in ["", "two words", "line\nbreak", "schlüssel", "nul\0"] {
            let refused = Key::new(text).expect_err("no key").to_string();
            assert!(refused.contains("as it was given out"), "{refused}");
        }
    }

    #[test]
    fn near_is_this_machine_alone() {
        for near in ["http://localhost:1", "http://127.9.9.9", "http://[::1]:80", "http://a.localhost"] {
            assert!(read(near).is_near(), "{near}");
        }
        for far in ["http://10.0.0.1", "http://localhost.example", "http://[fe80::1]", "http://example"] {
            assert!(!read(far).is_near(), "{far}");
        }
    }
}
