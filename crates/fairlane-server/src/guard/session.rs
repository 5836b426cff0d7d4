//! Sessions of browsers: a cookie, signed with a secret of the server, that names a key.
//!
//! Invariant: a session is at most as long as its key is valid. It ends when the key's secret is
//! rotated, since the signature covers the hash of the secret. The server stores no sessions, so any
//! server with the same secret and the same keys accepts them.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::keys::{Key, Keys, Presented};
use crate::settings::ServerSettings;

/// The name of the cookie.
const COOKIE: &str = "fairlane_session";
/// The prefix of the signed data, so that a signature for another purpose is not a valid session.
const PURPOSE: &[u8] = b"fairlane session 1";
/// The fewest characters of a configured secret.
const SECRET_CHARACTERS_MIN: usize = 32;

/// The secret that signs sessions.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret([u8; 32]);

impl SessionSecret {
    fn random() -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the operating system has random bytes");
        Self(secret)
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

/// The text is too short for a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the secret of sessions needs at least 32 random characters; create one with: openssl rand -base64 32"
)]
pub struct ShortSecret;

impl FromStr for SessionSecret {
    type Err = ShortSecret;

    fn from_str(text: &str) -> Result<Self, ShortSecret> {
        let text = text.trim();
        if text.len() < SECRET_CHARACTERS_MIN {
            Err(ShortSecret)
        } else {
            Ok(Self(Sha256::digest(text).into()))
        }
    }
}

/// Whether the request has the cookie of a session, valid or not.
pub(crate) fn has_cookie(headers: &HeaderMap) -> bool {
    cookie(headers).is_some()
}

/// The cookie that ends a session.
pub(crate) const fn end_session() -> HeaderValue {
    HeaderValue::from_static("fairlane_session=; HttpOnly; SameSite=Strict; Max-Age=0")
}

/// Opens sessions and recognizes them.
pub(super) struct Sessions {
    secret: SessionSecret,
    length: Duration,
}

impl Sessions {
    pub fn new(settings: &ServerSettings) -> Self {
        let secret = settings.session_secret.clone().unwrap_or_else(SessionSecret::random);
        Self { secret, length: settings.session_length }
    }

    /// The cookie of a new session for a key. It has no path, so that the browser sends it to the
    /// paths beside `sign-in`, whatever prefix a proxy adds.
    pub fn open(&self, presented: &Presented, headers: &HeaderMap) -> HeaderValue {
        let until = SystemTime::now() + self.length;
        let until_s = until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let id = &presented.key.caller.name;
        let signature = self.sign(&presented.key, until_s).finalize().into_bytes();
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        let is_encrypted = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
        let secure = if is_encrypted { "; Secure" } else { "" };
        let length_s = self.length.as_secs();
        let text = format!(
            "{COOKIE}={id}.{until_s}.{signature}; HttpOnly; SameSite=Strict; Max-Age={length_s}{secure}"
        );
        HeaderValue::try_from(text).expect("an id, a number and base64 are visible characters")
    }

    /// The key of the session that a request belongs to.
    pub fn find(&self, keys: &Keys, headers: &HeaderMap) -> Option<Presented> {
        let mut parts = cookie(headers)?.split('.');
        let (id, until_s, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let until_s: u64 = until_s.parse().ok()?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let until = UNIX_EPOCH.checked_add(Duration::from_secs(until_s))?;
        let presented = keys.find_opened(id, until)?;
        // The signature is compared in constant time.
        self.sign(&presented.key, until_s).verify_slice(&signature).ok()?;
        Some(presented)
    }

    fn sign(&self, key: &Key, until_s: u64) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret.0).expect("a key may have any length");
        mac.update(PURPOSE);
        mac.update(key.caller.name.as_bytes());
        mac.update(&until_s.to_be_bytes());
        mac.update(key.secret_hash().as_bytes());
        mac
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim() == COOKIE).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;
    use crate::keys::{KeyFile, NewKey};

    fn sent(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, format!("other=1; {pair}").parse().unwrap())])
    }

    #[test]
    fn a_session_belongs_to_its_key_until_it_ends_or_the_key_is_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("keys.json"));
        let new = |name: &str| NewKey {
            name: name.into(),
            role: Role::Viewer,
            groups: None,
            rate: None,
            expires_in: None,
        };
        let (record, token) = file.create(new("a")).unwrap();
        let (other, _) = file.create(new("b")).unwrap();
        let keys = Keys::open(file.path()).unwrap();
        let secret: SessionSecret = "x".repeat(40).parse().unwrap();
        let settings = ServerSettings { session_secret: Some(secret), ..ServerSettings::default() };
        let sessions = Sessions::new(&settings);
        let cookie = sessions.open(&keys.find(token.reveal()).unwrap(), &HeaderMap::new());
        let text = cookie.to_str().unwrap();
        assert!(
            text.contains("HttpOnly; SameSite=Strict; Max-Age=43200") && !text.contains("Secure"),
            "{text}"
        );
        let found = |sessions: &Sessions, cookie: &HeaderValue| {
            sessions.find(&keys, &sent(cookie)).map(|presented| presented.key.caller.name.to_string())
        };
        assert_eq!(found(&sessions, &cookie), Some(record.id.clone()));
        assert_eq!(found(&Sessions::new(&settings), &cookie), Some(record.id.clone()), "another server");
        assert_eq!(found(&Sessions::new(&ServerSettings::default()), &cookie), None, "another secret");
        let forged = HeaderValue::try_from(text.replace(&record.id, &other.id)).unwrap();
        assert_eq!(found(&sessions, &forged), None);
        let until: u64 = text.split('.').nth(1).unwrap().parse().unwrap();
        let longer = text.replace(&until.to_string(), &(until + 1).to_string());
        assert_eq!(found(&sessions, &HeaderValue::try_from(longer).unwrap()), None);
        let ended = Sessions { length: Duration::ZERO, ..Sessions::new(&settings) };
        let cookie_of_ended = ended.open(&keys.find(token.reveal()).unwrap(), &HeaderMap::new());
        assert_eq!(found(&sessions, &cookie_of_ended), None);
        file.rotate(&record.id, Duration::from_secs(3600)).unwrap();
        keys.refresh();
        assert_eq!(found(&sessions, &cookie), None, "the secret was rotated");
    }

    #[test]
    fn a_cookie_that_is_no_session_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::expect(folder.path().join("keys.json")).unwrap();
        let sessions = Sessions::new(&ServerSettings::default());
        for text in ["", ".", "..", "a.b.c", "a.1.!", "a.18446744073709551615.AAAA", "é"] {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_bytes(format!("{COOKIE}={text}").as_bytes()).unwrap();
            headers.insert(header::COOKIE, value);
            assert!(sessions.find(&keys, &headers).is_none(), "{text}");
        }
        assert!("short".parse::<SessionSecret>().is_err());
    }
}
