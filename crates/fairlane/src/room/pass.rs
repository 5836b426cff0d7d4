//! Passes: signed statements that a user's place is active, which an edge checks without a call.
//!
//! A pass is a JWT signed with EdDSA over Ed25519. Its claims are `sub` (the user), `room`, `iat` and
//! `exp`. A pass ends before the place does by the clock skew, so an edge whose clock is off by less
//! never accepts a pass after the end of its place. After a place was revoked, a pass lasts for at
//! most [`PassOptions::ttl`]. Keys rotate: a new key signs, and old keys stay in the published set
//! until the passes that they signed have expired.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use fairlane_core::room::PlaceView;
use fairlane_core::{RoomName, UserId};
use ring::digest;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::draw::random_bytes;
use crate::error::Error;

/// The time of passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassOptions {
    /// How long a pass lasts at most; a user's next poll renews it.
    pub ttl: Duration,
    /// How far the clock of an edge may be off.
    pub clock_skew: Duration,
}

impl Default for PassOptions {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(60), clock_skew: Duration::from_secs(5) }
    }
}

/// A pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// The JWT.
    pub jwt: String,
    /// When it expires, in seconds since 1970 by the clock of the store.
    pub expires_at: u64,
}

/// The claims of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassClaims {
    /// The user.
    pub sub: String,
    /// The room.
    pub room: String,
    /// When the pass was issued, in seconds since 1970.
    pub iat: u64,
    /// When the pass expires, in seconds since 1970.
    pub exp: u64,
    /// Whether the user passes without a place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bypass: bool,
}

/// Why a pass was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// Not a JWT of the expected form.
    #[error("the pass is malformed")]
    Malformed,
    /// Signed with a key that is not in the set.
    #[error("the pass is signed with a key that is not in the set, or no longer")]
    UnknownKey,
    /// The signature does not match.
    #[error("the signature of the pass does not match")]
    BadSignature,
    /// The pass is for another room.
    #[error("the pass is for the room {0}")]
    OtherRoom(String),
    /// The pass has expired.
    #[error("the pass has expired")]
    Expired,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    typ: Option<String>,
    kid: String,
}

/// A key as a JSON Web Key; `d` is the secret.
#[derive(Clone, Serialize, Deserialize)]
struct Jwk {
    kty: String,
    crv: String,
    kid: String,
    x: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    d: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alg: Option<String>,
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    usage: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

/// The keys that sign passes; the first one signs.
pub struct PassKeys {
    jwks: Jwks,
    signer: Ed25519KeyPair,
}

impl PassKeys {
    /// One new random key.
    pub fn generate() -> Result<Self, Error> {
        Self::with_keys(vec![new_key()?])
    }

    /// Keys from a JSON Web Key Set with secrets, as [`to_json`](Self::to_json) writes it.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let jwks: Jwks = serde_json::from_str(json).map_err(|error| Error::PassKeys(error.to_string()))?;
        Self::with_keys(jwks.keys)
    }

    fn with_keys(keys: Vec<Jwk>) -> Result<Self, Error> {
        let invalid = |what: &str| Error::PassKeys(what.to_owned());
        let first = keys.first().ok_or_else(|| invalid("the set has no key"))?;
        let secret = first.d.as_deref().ok_or_else(|| invalid("the first key has no secret"))?;
        let secret = BASE64.decode(secret).map_err(|_| invalid("the secret is not base64url"))?;
        let public = BASE64.decode(&first.x).map_err(|_| invalid("the public key is not base64url"))?;
        let signer = Ed25519KeyPair::from_seed_and_public_key(&secret, &public)
            .map_err(|_| invalid("the secret and the public key do not belong together"))?;
        Ok(Self { jwks: Jwks { keys }, signer })
    }

    /// Adds a new key, which signs from now on. Verifiers must know it before: publish
    /// [`public_set`](Self::public_set) first where they cache it.
    pub fn rotate(&self) -> Result<Self, Error> {
        Self::with_keys([vec![new_key()?], self.jwks.keys.clone()].concat())
    }

    /// Removes all keys but the newest `count`. Passes of the others are refused from then on.
    pub fn retire(&self, count: usize) -> Result<Self, Error> {
        Self::with_keys(self.jwks.keys.iter().take(count).cloned().collect())
    }

    /// The keys with their secrets, for a file that only the server reads.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.jwks).expect("a key set is valid JSON")
    }

    /// The public keys as a JSON Web Key Set, for verifiers.
    pub fn public_set(&self) -> String {
        let keys = self.jwks.keys.iter().map(|key| Jwk { d: None, ..key.clone() }).collect();
        serde_json::to_string(&Jwks { keys }).expect("a key set is valid JSON")
    }

    /// A pass for an active place; `None` if the place is not active, or ends within the clock skew.
    pub fn issue(
        &self,
        room: &RoomName,
        user: &UserId,
        place: &PlaceView,
        options: PassOptions,
    ) -> Option<Pass> {
        let PlaceView::Active { remaining_us, until } = place else { return None };
        let now_us = until.0.saturating_sub(*remaining_us);
        let end_us = until.0.min(now_us + options.ttl.as_micros() as u64);
        let exp = end_us.saturating_sub(options.clock_skew.as_micros() as u64) / 1_000_000;
        let iat = now_us / 1_000_000;
        let claims = PassClaims { sub: user.to_string(), room: room.to_string(), iat, exp, bypass: false };
        (exp > iat).then(|| self.sign(&claims))
    }

    /// A pass for a user who needs no place, such as an operator or a test.
    pub fn issue_bypass(&self, room: &RoomName, user: &UserId, now_secs: u64, ttl: Duration) -> Pass {
        let (sub, room, exp) = (user.to_string(), room.to_string(), now_secs + ttl.as_secs());
        self.sign(&PassClaims { sub, room, iat: now_secs, exp, bypass: true })
    }

    fn sign(&self, claims: &PassClaims) -> Pass {
        let kid = self.jwks.keys[0].kid.clone();
        let header = Header { alg: "EdDSA".into(), typ: Some("JWT".into()), kid };
        let part = |json: String| BASE64.encode(json);
        let header = part(serde_json::to_string(&header).expect("a header is valid JSON"));
        let message =
            format!("{header}.{}", part(serde_json::to_string(claims).expect("claims are valid JSON")));
        let signature = BASE64.encode(self.signer.sign(message.as_bytes()));
        Pass { jwt: format!("{message}.{signature}"), expires_at: claims.exp }
    }
}

fn new_key() -> Result<Jwk, Error> {
    let secret: [u8; 32] = random_bytes()?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&secret).map_err(|_| Error::NoRandomness)?;
    let x = BASE64.encode(pair.public_key());
    // The thumbprint of RFC 7638.
    let canonical = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    let kid = BASE64.encode(digest::digest(&digest::SHA256, canonical.as_bytes()));
    Ok(Jwk {
        kty: "OKP".into(),
        crv: "Ed25519".into(),
        kid,
        x,
        d: Some(BASE64.encode(secret)),
        alg: Some("EdDSA".into()),
        usage: Some("sig".into()),
    })
}

/// Verifies passes with the public keys of a room's server, without a call.
#[derive(Debug, Clone)]
pub struct PassVerifier {
    keys: Vec<(String, Vec<u8>)>,
}

impl PassVerifier {
    /// A verifier with the keys of a JSON Web Key Set. Keys of other kinds are left out.
    pub fn from_jwks(json: &str) -> Result<Self, Error> {
        let jwks: Jwks = serde_json::from_str(json).map_err(|error| Error::PassKeys(error.to_string()))?;
        let ours = jwks.keys.into_iter().filter(|key| key.kty == "OKP" && key.crv == "Ed25519");
        let keys = ours.filter_map(|key| Some((key.kid, BASE64.decode(key.x).ok()?))).collect();
        Ok(Self { keys })
    }

    /// The claims of a pass for this room that is valid at `now_secs`, in seconds since 1970.
    pub fn verify(&self, jwt: &str, room: &str, now_secs: u64) -> Result<PassClaims, PassError> {
        let (message, signature) = jwt.rsplit_once('.').ok_or(PassError::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(PassError::Malformed)?;
        let header: Header = part(header)?;
        if header.alg != "EdDSA" {
            return Err(PassError::Malformed);
        }
        let key = self.keys.iter().find(|(kid, _)| *kid == header.kid).ok_or(PassError::UnknownKey)?;
        let signature = BASE64.decode(signature).map_err(|_| PassError::Malformed)?;
        let public = UnparsedPublicKey::new(&ED25519, &key.1);
        public.verify(message.as_bytes(), &signature).map_err(|_| PassError::BadSignature)?;
        let claims: PassClaims = part(claims)?;
        if claims.room != room {
            return Err(PassError::OtherRoom(claims.room));
        }
        if now_secs >= claims.exp {
            return Err(PassError::Expired);
        }
        Ok(claims)
    }
}

fn part<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, PassError> {
    let json = BASE64.decode(text).map_err(|_| PassError::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| PassError::Malformed)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use fairlane_core::Micros;

    use super::*;

    const NOW_SECS: u64 = 1_700_000_000;

    fn names() -> (RoomName, UserId) {
        (RoomName::new("concert").unwrap(), UserId::new("ada").unwrap())
    }

    fn active_for(secs: u64) -> PlaceView {
        let (now_us, remaining_us) = (NOW_SECS * 1_000_000, secs * 1_000_000);
        PlaceView::Active { remaining_us, until: Micros(now_us + remaining_us) }
    }

    fn pass(keys: &PassKeys, secs: u64) -> Option<Pass> {
        let (room, user) = names();
        keys.issue(&room, &user, &active_for(secs), PassOptions::default())
    }

    #[test]
    fn pass_is_valid_until_the_skew_before_its_end() {
        let keys = PassKeys::generate().unwrap();
        let verifier = PassVerifier::from_jwks(&keys.public_set()).unwrap();
        let long = pass(&keys, 600).unwrap();
        assert_eq!(long.expires_at, NOW_SECS + 55, "a minute, less the skew");
        let short = pass(&keys, 20).unwrap();
        assert_eq!(short.expires_at, NOW_SECS + 15, "the end of the place, less the skew");
        let claims = verifier.verify(&long.jwt, "concert", NOW_SECS + 54).unwrap();
        assert_eq!((&*claims.sub, claims.iat, claims.bypass), ("ada", NOW_SECS, false));
        for clock_off in [0, 5] {
            // An edge whose clock is behind by the skew refuses at the end of the place at the latest.
            let edge_clock = NOW_SECS + 20 - clock_off;
            assert_eq!(verifier.verify(&short.jwt, "concert", edge_clock), Err(PassError::Expired));
        }
        assert!(verifier.verify(&short.jwt, "concert", NOW_SECS + 5).is_ok(), "ahead by the skew");
    }

    #[test]
    fn only_an_active_place_gets_a_pass() {
        let (keys, (room, user)) = (PassKeys::generate().unwrap(), names());
        assert_eq!(keys.issue(&room, &user, &PlaceView::Unknown, PassOptions::default()), None);
        assert_eq!(pass(&keys, 5), None, "it would end within the skew");
        let bypass = keys.issue_bypass(&room, &user, NOW_SECS, Duration::from_secs(60));
        let verifier = PassVerifier::from_jwks(&keys.public_set()).unwrap();
        assert!(verifier.verify(&bypass.jwt, "concert", NOW_SECS).unwrap().bypass);
    }

    #[test]
    fn tampered_expired_and_foreign_passes_are_refused() {
        let (keys, other) = (PassKeys::generate().unwrap(), PassKeys::generate().unwrap());
        let verifier = PassVerifier::from_jwks(&keys.public_set()).unwrap();
        let verify = |jwt: &str| verifier.verify(jwt, "concert", NOW_SECS);
        let jwt = pass(&keys, 600).unwrap().jwt;
        assert!(verify(&jwt).is_ok());
        assert_eq!(verifier.verify(&jwt, "other", NOW_SECS), Err(PassError::OtherRoom("concert".into())));
        assert_eq!(verifier.verify(&jwt, "concert", NOW_SECS + 55), Err(PassError::Expired));
        assert_eq!(verify(&pass(&other, 600).unwrap().jwt), Err(PassError::UnknownKey));
        let parts: Vec<&str> = jwt.split('.').collect();
        let forged = BASE64.encode(r#"{"sub":"eve","room":"concert","iat":1,"exp":9999999999}"#);
        assert_eq!(verify(&format!("{}.{forged}.{}", parts[0], parts[2])), Err(PassError::BadSignature));
        let none = BASE64.encode(r#"{"alg":"none","kid":"x"}"#);
        assert_eq!(verify(&format!("{none}.{}.", parts[1])), Err(PassError::Malformed));
        for malformed in ["", "a", "a.b", "a.b.c", "..", &jwt[1..]] {
            assert_eq!(verify(malformed), Err(PassError::Malformed), "{malformed:?}");
        }
    }

    #[test]
    fn keys_rotate_and_retire() {
        let first = PassKeys::generate().unwrap();
        let old = pass(&first, 600).unwrap().jwt;
        let both = PassKeys::from_json(&first.rotate().unwrap().to_json()).unwrap();
        let new = pass(&both, 600).unwrap().jwt;
        let verify = |keys: &PassKeys, jwt: &str| {
            PassVerifier::from_jwks(&keys.public_set()).unwrap().verify(jwt, "concert", NOW_SECS).is_ok()
        };
        assert!(verify(&both, &old) && verify(&both, &new) && !verify(&first, &new));
        let newest = both.retire(1).unwrap();
        assert!(verify(&newest, &new) && !verify(&newest, &old));
        assert!(!both.public_set().contains("\"d\""), "secrets stay");
        assert!(PassKeys::from_json(&both.public_set()).is_err() && PassKeys::from_json("{}").is_err());
        assert!(both.retire(0).is_err());
    }
}
