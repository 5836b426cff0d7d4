//! A key as its owner has it: `flk_<id>_<secret>`. The server stores only a hash of the secret.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The prefix of every key, by which secret scanners recognize one.
const PREFIX: &str = "flk_";
/// Random bytes in a secret.
const SECRET_BYTES: usize = 32;
/// The length of an id in characters.
pub(super) const ID_LENGTH: usize = 8;

/// The text of a key, secret included. It is shown once, when the key is created.
pub struct Token(String);

impl Token {
    /// A new secret for a key.
    pub(super) fn new(id: &str) -> Result<Self, getrandom::Error> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret)?;
        Ok(Self(format!("{PREFIX}{id}_{}", BASE64_URL_SAFE_NO_PAD.encode(secret))))
    }

    /// A new public id.
    pub(super) fn new_id() -> Result<String, getrandom::Error> {
        let mut id = [0; ID_LENGTH / 2];
        getrandom::fill(&mut id)?;
        Ok(hex(&id))
    }

    /// The id and the secret of a text in the form of a key.
    pub(super) fn parts(text: &str) -> Option<(&str, &str)> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(ID_LENGTH)?;
        Some((id, secret.strip_prefix('_')?))
    }

    /// The hash that is stored.
    pub(super) fn hash(&self) -> SecretHash {
        SecretHash::of(Self::parts(&self.0).expect("a token has the form of one").1)
    }

    /// The full text, including the secret.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The SHA-256 of a secret, in the form it has in the key.
///
/// A slow hash protects passwords, which can be guessed. A secret has 256 random bits, which cannot
/// be guessed at any speed, and a fast hash costs each request a microsecond instead of 100 ms.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    pub(super) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// The bytes of the hash.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl ConstantTimeEq for SecretHash {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

impl From<SecretHash> for String {
    fn from(hash: SecretHash) -> Self {
        hex(&hash.0)
    }
}

impl TryFrom<String> for SecretHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const INVALID: &str = "a hash has 64 hexadecimal digits";
        let digits = Some(text.as_bytes()).filter(|text| text.len() == 64).ok_or(INVALID)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(INVALID);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(Self(hash))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_sha256_and_round_trips_as_text() {
        let text = String::from(SecretHash::of("abc"));
        assert_eq!(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(SecretHash::try_from(text.clone()), Ok(SecretHash::of("abc")));
        for wrong in ["", "ba", &text.replace('a', "g"), &format!("{text}00"), &"é".repeat(32)] {
            assert!(SecretHash::try_from(wrong.to_owned()).is_err());
        }
    }

    #[test]
    fn two_tokens_with_one_id_have_different_secrets() {
        let (first, second) = (Token::new("0a1b2c3d").unwrap(), Token::new("0a1b2c3d").unwrap());
        let parts =
            |token: &Token| Token::parts(token.reveal()).map(|(id, secret)| (id.to_owned(), secret.len()));
        assert_eq!(parts(&first), Some(("0a1b2c3d".to_owned(), 43)));
        assert_ne!(first.hash(), second.hash());
        assert_eq!(Token::new_id().unwrap().len(), ID_LENGTH);
    }
}
