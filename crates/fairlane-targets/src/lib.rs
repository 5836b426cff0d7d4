//! Processors without code: HTTP targets, programs, webhooks, and the callbacks of bulk actions.
//!
//! - `http_target.rs`: posts the payload to a URL. `command_target.rs`: passes it to a program.
//!   `comfyui.rs`: runs it as a prompt of a ComfyUI engine.
//! - `callbacks.rs`: notifies receivers that a bulk action has ended. `webhooks.rs`: posts the body in
//!   the payload. `delivery.rs` sends both, `signature.rs` signs them, `addresses.rs` restricts their
//!   addresses.
//! - `call.rs`: the data of an attempt that a target sends on. `client.rs`: the HTTP client.
//! - `response.rs`: reads responses within bounds, and Retry-After. `timestamps.rs`: RFC 3339
//!   times.
//!
//! Invariant: no data from outside is held in memory without a bound, and no secret is shown.

mod addresses;
mod call;
mod callbacks;
mod client;
mod comfyui;
mod command_target;
mod delivery;
mod http_target;
mod response;
mod signature;
mod timestamps;
mod webhooks;

pub use addresses::AddressRule;
pub use callbacks::{CALLBACK_MAX_RETRY_COUNT, CallbackJob, CallbackSettings, Callbacks};
pub use client::BadTarget;
pub use comfyui::{ComfyUi, ComfyUiSettings, InputFile, OutputMode, Prompt, prompt_id};
pub use command_target::{CommandSettings, CommandTarget};
pub use http_target::{HttpSettings, HttpTarget};
pub use signature::{BadSecret, Secret};
pub use webhooks::{WebhookJob, Webhooks};
