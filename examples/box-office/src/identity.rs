//! Who a request is from. All checks are offline, with keys that the instances share through the
//! database.
//!
//! | text | proves | checked by |
//! |---|---|---|
//! | queue token | a place in the waiting room, and the user who has it | the room |
//! | pass | that the user's place is active, for a minute | its signature |
//! | payment token | that the user made the reservation | its code |
//!
//! A payment needs the pass or the payment token only, so it works while the engine is down.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use fairlane::{PassKeys, PassOptions, PassVerifier, PlaceToken, PlaceView, RoomName, UserId};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::store::Store;
use crate::{ROOM, now_ms};

/// The keys of the shop.
pub struct Identity {
    passes: PassKeys,
    verifier: PassVerifier,
    key: Vec<u8>,
}

/// A queue token, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueToken {
    /// The place in the room.
    pub place: PlaceToken,
    /// The user who has it.
    pub user: UserId,
}

impl Identity {
    /// The keys in the database; new ones if it has none.
    pub async fn load(store: &Store) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        let key = BASE64.decode(store.secret("hmac", BASE64.encode(random)).await?)?;
        let passes = PassKeys::from_json(&store.secret("passes", PassKeys::generate()?.to_json()).await?)?;
        let verifier = PassVerifier::from_jwks(&passes.public_set())?;
        Ok(Self { passes, verifier, key })
    }

    /// The queue token of a place.
    pub fn queue_token(&self, token: &QueueToken) -> String {
        let body = format!("{}.{}", token.place, BASE64.encode(token.user.to_string()));
        format!("{body}.{}", self.code("queue", &body))
    }

    /// Reads a queue token; `None` if this shop did not issue it.
    pub fn read_queue_token(&self, text: &str) -> Option<QueueToken> {
        let (body, code) = text.rsplit_once('.')?;
        if !self.is_code("queue", body, code) {
            return None;
        }
        let (place, user) = body.split_once('.')?;
        let user = String::from_utf8(BASE64.decode(user).ok()?).ok()?;
        Some(QueueToken { place: PlaceToken::new(place).ok()?, user: UserId::new(user).ok()? })
    }

    /// A pass for an active place.
    pub fn pass(&self, place: &PlaceView) -> Option<String> {
        let room = RoomName::new(ROOM).expect("the name is valid");
        self.passes.issue(&room, place, PassOptions::default()).map(|pass| pass.jwt)
    }

    /// The user of a pass that is valid now.
    pub fn user_of_pass(&self, jwt: &str) -> Result<String, fairlane::PassError> {
        self.verifier.verify(jwt, ROOM, now_ms() / 1000).map(|claims| claims.sub)
    }

    /// The payment token of a user's reservation.
    pub fn payment_token(&self, reservation: &str, user: &str) -> String {
        let user = BASE64.encode(user);
        format!("{user}.{}", self.code(reservation, &user))
    }

    /// The user of a payment token; `None` if it is not one of this reservation.
    pub fn user_of_payment_token(&self, reservation: &str, text: &str) -> Option<String> {
        let (user, code) = text.split_once('.')?;
        let is_code = self.is_code(reservation, user, code);
        is_code.then(|| String::from_utf8(BASE64.decode(user).ok()?).ok()).flatten()
    }

    fn code(&self, purpose: &str, body: &str) -> String {
        BASE64.encode(self.mac(purpose, body).finalize().into_bytes())
    }

    fn is_code(&self, purpose: &str, body: &str, code: &str) -> bool {
        let code = BASE64.decode(code).unwrap_or_default();
        self.mac(purpose, body).verify_slice(&code).is_ok()
    }

    fn mac(&self, purpose: &str, body: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key may have any length");
        // A purpose has no line break, so the boundary is unambiguous.
        mac.update(format!("{purpose}\n{body}").as_bytes());
        mac
    }
}
