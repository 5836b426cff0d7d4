//! A key as its owner has it: `flk_<id>_<secret>`, of which only a hash of the secret is kept.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// What every key begins with, so that scanners find one that lies about.
const PREFIX: &str = "flk_";
/// Bytes of chance in a secret.
const SECRET_BYTES: usize = 32;
/// Signs of an id.
pub(super) const ID_LENGTH: usize = 8;

/// The text of a key. It is shown once, to whoever made it.
pub struct Token(String);

impl Token {
    /// A new secret for a key.
    pub(super) fn new(id: &str) -> Result<Self, getrandom::Error> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret)?;
        Ok(Self(format!("{PREFIX}{id}_{}", BASE64_URL_SAFE_NO_PAD.encode(secret))))
    }

    /// A new id, which is public.
    pub(super) fn new_id() -> Result<String, getrandom::Error> {
        let mut id = [0; ID_LENGTH / 2];
        getrandom::fill(&mut id)?;
        Ok(hex(&id))
    }

    /// Id and secret of a text that has the form of a key.
    pub(super) fn parts(text: &str) -> Option<(&str, &str)> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(ID_LENGTH)?;
        Some((id, secret.strip_prefix('_')?))
    }

    /// What is kept of it.
    pub(super) fn hash(&self) -> SecretHash {
        SecretHash::of(Self::parts(&self.0).expect("a token has the form of one").1)
    }

    /// The whole text, secret and all.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The SHA-256 of a secret, as it is written in the key.
///
/// A slow hash protects passwords, which can be guessed. A secret has 256 bits of chance: nobody guesses it, at any
/// speed, and a fast hash costs each request a microsecond instead of a tenth of a second.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    pub(super) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
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
        const WRONG: &str = "a hash has 64 hexadecimal digits";
        let digits = Some(text.as_bytes()).filter(|text| text.len() == 64).ok_or(WRONG)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            let digit = |sign: u8| char::from(sign).to_digit(16).ok_or(WRONG);
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
    fn a_hash_is_that_of_sha256_and_read_back() {
        let text = String::from(SecretHash::of("abc"));
        assert_eq!(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(SecretHash::try_from(text.clone()), Ok(SecretHash::of("abc")));
        for wrong in ["", "ba", &text.replace('a', "g"), &format!("{text}00"), &"é".repeat(32)] {
            assert!(SecretHash::try_from(wrong.to_owned()).is_err());
        }
    }

    #[test]
    fn two_tokens_of_one_id_differ_in_their_secrets() {
        let (first, second) = (Token::new("0a1b2c3d").unwrap(), Token::new("0a1b2c3d").unwrap());
        let parts =
            |token: &Token| Token::parts(token.reveal()).map(|(id, secret)| (id.to_owned(), secret.len()));
        assert_eq!(parts(&first), Some(("0a1b2c3d".to_owned(), 43)));
        assert_ne!(first.hash(), second.hash());
        assert_eq!(Token::new_id().unwrap().len(), ID_LENGTH);
    }
}
