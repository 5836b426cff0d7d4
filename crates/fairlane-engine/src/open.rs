//! From an address to an engine.

use std::sync::Arc;

use fairlane_core::queue::{SetWhole, Settings};

use crate::clock::Clock;
use crate::embedded::EmbeddedEngine;
use crate::engine::{Engine, EngineError};
use crate::redis::{RedisEngine, RedisOptions};

/// Opens the engine at `url` and gives it these settings of the whole.
///
/// `memory:` (or nothing) is the embedded engine; `redis://host:port` a single Redis or Valkey;
/// `redis+cluster://host:port,host:port` a cluster, known by some of its nodes.
///
/// ```
/// # use fairlane_core::queue::{Inspect, Inspected, Settings};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane_engine::EngineError> {
/// let engine = fairlane_engine::open("memory:", Settings::default()).await?;
/// assert!(matches!(engine.inspect(Inspect::Whole).await?, Inspected::Whole(whole) if whole.backlog == 0));
/// # Ok(())
/// # }
/// ```
pub async fn open(url: &str, settings: Settings) -> Result<Arc<dyn Engine>, EngineError> {
    let engine: Arc<dyn Engine> = match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
        "" | "memory" => Arc::new(EmbeddedEngine::new(settings.clone(), Clock::System)?),
        "redis" | "redis+cluster" => Arc::new(RedisEngine::connect(url, RedisOptions::default()).await?),
        "rediss" => {
            let reason =
                "rediss:// (TLS) is not built in; use redis:// on a private network or through a tunnel";
            return Err(EngineError::refused(reason));
        }
        _ => {
            return Err(EngineError::refused(format!(
                "{url:?} is not the address of an engine; known are memory:, redis://host:port and \
                 redis+cluster://host:port,host:port"
            )));
        }
    };
    engine.set_whole(SetWhole { settings }).await?;
    Ok(engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refusal(url: &str) -> String {
        let refused = open(url, Settings::default()).await.err().expect("nothing is there to open");
        assert!(!refused.is_retryable());
        refused.to_string()
    }

    #[tokio::test]
    async fn an_unknown_address_is_refused_with_the_known_ones() {
        for url in ["memroy:", "postgres://localhost", "localhost"] {
            let message = refusal(url).await;
            assert!(message.contains(url) && message.contains("redis://host:port"), "{message}");
        }
        assert!(refusal("rediss://localhost").await.contains("not built in"));
    }

    #[tokio::test]
    async fn no_address_is_the_embedded_engine() {
        for url in ["", "memory", "memory:"] {
            assert_eq!(open(url, Settings::default()).await.unwrap().name(), "embedded");
        }
    }
}
