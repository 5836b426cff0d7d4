//! Signs callbacks as Standard Webhooks specifies: HMAC-SHA256 over id, time and body, with every
//! active secret.
//!
//! Invariant: a secret never leaves this file, neither in a log nor in an error.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// Shortest key, in bytes.
const KEY_BYTES_MIN: usize = 24;
/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 64;

/// A secret shared with a receiver, written `whsec_<base64 of 24 to 64 bytes>`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Why a secret is invalid; the message does not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// The prefix is missing.
    #[error("a secret begins with {PREFIX}; make one with: echo {PREFIX}$(head -c 32 /dev/urandom | base64)")]
    Prefix,
    /// The part after the prefix is not base64.
    #[error("the part after {PREFIX} must be base64 with its padding")]
    Encoding,
    /// The key is too short or too long; its length in bytes.
    #[error("a secret has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes when decoded, this one has {0}")]
    Length(usize),
}

impl FromStr for Secret {
    type Err = BadSecret;

    fn from_str(text: &str) -> Result<Self, BadSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(BadSecret::Prefix)?;
        let key = STANDARD.decode(encoded).map_err(|_| BadSecret::Encoding)?;
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key.len()) {
            return Err(BadSecret::Length(key.len()));
        }
        Ok(Self(key))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The value of `webhook-signature`: `v1,<base64>` for each secret, so that receivers with the old
/// or the new secret accept it while a secret is being replaced.
pub(crate) fn signatures(secrets: &[Secret], id: &str, timestamp: u64, body: &[u8]) -> String {
    let signed: Vec<String> = secrets.iter().map(|secret| signature(secret, id, timestamp, body)).collect();
    signed.join(" ")
}

fn signature(secret: &Secret, id: &str, timestamp: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("a key of any length will do");
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification's reference libraries.
    #[test]
    fn the_signature_of_the_specifications_example_is_as_published() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signed =
            signatures(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn an_invalid_secret_is_rejected_without_being_shown() {
        let encoded = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        assert_eq!("hunter2hunter2hunter2hunter2".parse::<Secret>(), Err(BadSecret::Prefix));
        assert_eq!("whsec_not base64!".parse::<Secret>(), Err(BadSecret::Encoding));
        assert_eq!(encoded(23).parse::<Secret>(), Err(BadSecret::Length(23)));
        assert_eq!(encoded(65).parse::<Secret>(), Err(BadSecret::Length(65)));
        for bytes in [24, 64] {
            let secret: Secret = encoded(bytes).parse().unwrap();
            assert_eq!(format!("{secret:?}"), "Secret(…)");
        }
    }
}
