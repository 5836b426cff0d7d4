//! Readiness of a server, checked as a load balancer does: once, and without a key.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;

use super::address::ServerAddress;
use super::client::{body_of, connections, unanswered};
use super::error_response::{Asked, ErrorResponse, no_server};
use crate::engine::EngineError;

const PATH: &str = "/readyz";
/// Largest response, in bytes: it is a word in a small object.
const ANSWER_BYTES_MAX: usize = 4096;

/// Whether the server at `url` is ready: it responds in time, its engine responds, and it is not
/// stopping. The error says what is missing.
pub async fn ready(url: &str, within: Duration) -> Result<(), EngineError> {
    #[derive(Deserialize)]
    struct Health {
        status: String,
    }
    let address = ServerAddress::read(url)?;
    let request = connections(&address, within)?.get(address.at(PATH)).timeout(within);
    let mut answer = request.send().await.map_err(unanswered)?;
    if answer.status() != StatusCode::OK {
        let asked = Asked { address: &address, key_advice: "no key is needed", sent_bytes: 0 };
        return Err(ErrorResponse::read(answer).await.at_first(&asked));
    }
    let body = body_of(&mut answer, ANSWER_BYTES_MAX).await?.unwrap_or_default();
    match serde_json::from_slice::<Health>(&body) {
        Ok(health) if health.status == "ready" => Ok(()),
        _ => Err(no_server(&address)),
    }
}
