//! Passes: signed statements that a user's place is active, which an edge checks without a call.
//!
//! A pass is a JWT signed with EdDSA over Ed25519. Its claims are `sub` (the user), `room`, `iat` and
//! `exp`. A pass ends before the place does by the clock skew, so an edge whose clock is off by less
//! never accepts a pass after the end of its place. After a place was revoked, a pass lasts for at
//! most [`PassOptions::ttl`]. Keys rotate: a new key is published before it signs, so that verifiers
//! which cache the set know it by then. Old keys stay in the set until they are removed.

use std::fmt;
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

/// How long passes are valid.
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

/// A signed pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// The encoded JWT.
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
    /// When the key begins to sign, in seconds since 1970; not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signs_from: Option<u64>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

/// The keys that sign passes, newest first. The newest one whose time to sign has come signs.
pub struct PassKeys {
    jwks: Jwks,
    signers: Vec<Signer>,
}

struct Signer {
    kid: String,
    signs_from: u64,
    pair: Ed25519KeyPair,
}

/// The public facts about a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassKeyView {
    /// The id of the key, which passes and the published set carry.
    pub kid: String,
    /// When the key begins to sign, in seconds since 1970.
    pub signs_from: u64,
}

impl fmt::Debug for PassKeys {
    /// Omits the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PassKeys").field(&self.views()).finish()
    }
}

impl PassKeys {
    /// One new random key, which signs at once.
    pub fn generate() -> Result<Self, Error> {
        Self::with_keys(vec![new_key(0)?])
    }

    /// Keys from a JSON Web Key Set with secrets, as [`to_json`](Self::to_json) writes it.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let jwks: Jwks = serde_json::from_str(json).map_err(|error| Error::PassKeys(error.to_string()))?;
        Self::with_keys(jwks.keys)
    }

    fn with_keys(keys: Vec<Jwk>) -> Result<Self, Error> {
        if keys.is_empty() {
            return Err(Error::PassKeys("the set has no key".to_owned()));
        }
        let signers = keys.iter().map(Signer::new).collect::<Result<_, _>>()?;
        Ok(Self { jwks: Jwks { keys }, signers })
    }

    /// Adds a new key, which signs from a time on, in seconds since 1970. Leave verifiers that cache
    /// [`public_set`](Self::public_set) the time to read it before.
    pub fn rotate(&self, signs_from: u64) -> Result<Self, Error> {
        Self::with_keys([vec![new_key(signs_from)?], self.jwks.keys.clone()].concat())
    }

    /// Removes a key. Passes that it has signed are refused from then on by verifiers that read the
    /// set again.
    pub fn remove(&self, kid: &str) -> Result<Self, Error> {
        let (removed, kept): (Vec<Jwk>, Vec<Jwk>) =
            self.jwks.keys.iter().cloned().partition(|key| key.kid == kid);
        if removed.is_empty() {
            return Err(Error::PassKeys(format!("the set has no key {kid}")));
        }
        if kept.is_empty() {
            return Err(Error::PassKeys(
                "this is the only key; add another one first, which signs at once".to_owned(),
            ));
        }
        Self::with_keys(kept)
    }

    /// The keys without their secrets, newest first.
    pub fn views(&self) -> Vec<PassKeyView> {
        let view = |one: &Signer| PassKeyView { kid: one.kid.clone(), signs_from: one.signs_from };
        self.signers.iter().map(view).collect()
    }

    /// The key that signs at a time, in seconds since 1970.
    pub fn signing_key(&self, now_secs: u64) -> &str {
        &self.signer(now_secs).kid
    }

    /// If none of the keys has begun to sign, the oldest one does.
    fn signer(&self, now_secs: u64) -> &Signer {
        let due = self.signers.iter().find(|one| one.signs_from <= now_secs);
        due.or(self.signers.last()).expect("a set has a key")
    }

    /// The keys with their secrets, for a file that only the server reads.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.jwks).expect("a key set is valid JSON")
    }

    /// The public keys as a JSON Web Key Set, for verifiers.
    pub fn public_set(&self) -> String {
        let keys =
            self.jwks.keys.iter().map(|key| Jwk { d: None, signs_from: None, ..key.clone() }).collect();
        serde_json::to_string(&Jwks { keys }).expect("a key set is valid JSON")
    }

    /// A pass for an active place; `None` if the place is not active, or ends within the clock skew.
    pub fn issue(&self, room: &RoomName, place: &PlaceView, options: PassOptions) -> Option<Pass> {
        let PlaceView::Active { user, remaining_us, until } = place else { return None };
        let now_us = until.0.saturating_sub(*remaining_us);
        let end_us = until.0.min(now_us + options.ttl.as_micros() as u64);
        let exp = end_us.saturating_sub(options.clock_skew.as_micros() as u64) / 1_000_000;
        let iat = now_us / 1_000_000;
        let (sub, room) = (user.unescaped().into_owned(), room.unescaped().into_owned());
        (exp > iat).then(|| self.sign(&PassClaims { sub, room, iat, exp, bypass: false }))
    }

    /// A pass for a user who needs no place, such as an operator or a test.
    pub fn issue_bypass(&self, room: &RoomName, user: &UserId, now_secs: u64, ttl: Duration) -> Pass {
        let (sub, room) = (user.unescaped().into_owned(), room.unescaped().into_owned());
        let exp = now_secs.saturating_add(ttl.as_secs());
        self.sign(&PassClaims { sub, room, iat: now_secs, exp, bypass: true })
    }

    fn sign(&self, claims: &PassClaims) -> Pass {
        let signer = self.signer(claims.iat);
        let header = Header { alg: "EdDSA".into(), typ: Some("JWT".into()), kid: signer.kid.clone() };
        let part = |json: String| BASE64.encode(json);
        let header = part(serde_json::to_string(&header).expect("a header is valid JSON"));
        let message =
            format!("{header}.{}", part(serde_json::to_string(claims).expect("claims are valid JSON")));
        let signature = BASE64.encode(signer.pair.sign(message.as_bytes()));
        Pass { jwt: format!("{message}.{signature}"), expires_at: claims.exp }
    }
}

impl Signer {
    fn new(key: &Jwk) -> Result<Self, Error> {
        let invalid = |what: &str| Error::PassKeys(format!("the key {:?} {what}", key.kid));
        let secret = key.d.as_deref().ok_or_else(|| invalid("has no secret"))?;
        let secret = BASE64.decode(secret).map_err(|_| invalid("has a secret that is not base64url"))?;
        let public = BASE64.decode(&key.x).map_err(|_| invalid("is not base64url"))?;
        let pair = Ed25519KeyPair::from_seed_and_public_key(&secret, &public)
            .map_err(|_| invalid("has a secret that does not belong to it"))?;
        Ok(Self { kid: key.kid.clone(), signs_from: key.signs_from.unwrap_or_default(), pair })
    }
}

fn new_key(signs_from: u64) -> Result<Jwk, Error> {
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
        signs_from: Some(signs_from),
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

    fn verify(keys: &PassKeys, jwt: &str) -> Result<PassClaims, PassError> {
        PassVerifier::from_jwks(&keys.public_set()).unwrap().verify(jwt, "concert", NOW_SECS)
    }

    fn active_for(secs: u64) -> PlaceView {
        let (now_us, remaining_us) = (NOW_SECS * 1_000_000, secs * 1_000_000);
        PlaceView::Active { user: names().1, remaining_us, until: Micros(now_us + remaining_us) }
    }

    fn pass(keys: &PassKeys, secs: u64) -> Option<Pass> {
        keys.issue(&names().0, &active_for(secs), PassOptions::default())
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
        assert_eq!(keys.issue(&room, &PlaceView::Unknown, PassOptions::default()), None);
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
    fn new_key_signs_from_its_time_on_and_is_published_before() {
        let first = PassKeys::generate().unwrap();
        let old = pass(&first, 600).unwrap().jwt;
        let both = first.rotate(NOW_SECS + 1).unwrap();
        let both = PassKeys::from_json(&both.to_json()).unwrap();
        assert_eq!(both.signing_key(NOW_SECS), first.signing_key(NOW_SECS), "not yet");
        assert_eq!(both.signing_key(NOW_SECS + 1), both.views()[0].kid);
        assert!(both.public_set().contains(&both.views()[0].kid));
        let newest = first.rotate(NOW_SECS).unwrap();
        let new = pass(&newest, 600).unwrap().jwt;
        assert!(verify(&newest, &old).is_ok() && verify(&newest, &new).is_ok());
        assert_eq!(verify(&first, &new), Err(PassError::UnknownKey));
        let hidden = both.public_set() + &format!("{both:?}");
        assert!(!hidden.contains("\"d\"") && !hidden.contains("signs_from\""), "secrets stay: {hidden}");
    }

    #[test]
    fn passes_of_a_removed_key_are_refused() {
        let first = PassKeys::generate().unwrap();
        let old = pass(&first, 600).unwrap().jwt;
        let kid = first.signing_key(0).to_owned();
        assert!(first.remove(&kid).unwrap_err().to_string().contains("only key"));
        let next = first.rotate(0).unwrap().remove(&kid).unwrap();
        assert_eq!(verify(&next, &old), Err(PassError::UnknownKey));
        assert!(next.remove(&kid).is_err(), "it is not there any more");
    }

    #[test]
    fn sets_without_usable_keys_are_refused() {
        let keys = PassKeys::generate().unwrap();
        let foreign = keys.to_json().replace("\"d\": \"", "\"d\": \"AAAA");
        for json in [keys.public_set(), foreign, "{}".into(), r#"{"keys":[]}"#.into(), String::new()] {
            assert!(matches!(PassKeys::from_json(&json), Err(Error::PassKeys(_))), "{json}");
        }
    }
}
