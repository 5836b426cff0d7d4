//! Processors without code: a URL, a program, and the callbacks of bulk actions.
//!
//! - `http_target.rs`: posts the payload to a URL. `command_target.rs`: gives it to a program.
//! - `callbacks.rs`: tells receivers that a bulk action has ended; `signature.rs` signs what they get,
//!   `addresses.rs` says where it may go.
//! - `call.rs`: what a target is told about a job. `client.rs`: the HTTP client under all of them.
//! - `answer.rs`: answers read within bounds, Retry-After. `timestamps.rs`: times in words.
//!
//! Invariant: nothing that comes from outside is kept in memory without a bound, and no secret is shown.

mod addresses;
mod answer;
mod call;
mod callbacks;
mod client;
mod command_target;
mod http_target;
mod signature;
#[cfg(test)]
mod test_server;
mod timestamps;

pub use addresses::AddressRule;
pub use callbacks::{CALLBACK_MAX_RETRY_COUNT, CallbackJob, CallbackSettings, Callbacks};
pub use client::BadTarget;
pub use command_target::{CommandSettings, CommandTarget};
pub use http_target::{HttpSettings, HttpTarget};
pub use signature::{BadSecret, Secret};
