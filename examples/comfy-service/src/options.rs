//! The options of all roles.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairlane::parse_duration;
use fairlane_targets::{AddressRule, CallbackSettings, ComfyUiSettings, Secret};

use crate::StartError;
use crate::services::Catalogue;

/// The options of all roles; each uses those that it needs.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The PostgreSQL database, such as postgres://app@localhost/images
    #[arg(long, env = "COMFY_DATABASE")]
    pub database: String,
    /// The queue: redis://host:port, http://host:port of a Fairlane server, or ./directory and memory:
    /// if one process has all roles
    #[arg(long, env = "FAIRLANE_ENGINE")]
    pub engine: String,
    /// The directory of uploaded files, which the API and the workers share
    #[arg(long, default_value = "comfy-files", env = "COMFY_FILES")]
    pub files: PathBuf,
    /// api: the address to listen on; port 0 means any free port
    #[arg(long, default_value = "127.0.0.1:8095")]
    pub listen: SocketAddr,
    /// api: a directory with a file SERVICE.json for each service; one service is built in
    #[arg(long)]
    pub services: Option<PathBuf>,
    /// relay: how often the database and the queue are compared, and how old a difference must be
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub reconcile_every: Duration,
    /// worker: the beginning of its name, which the queue shows with its jobs
    #[arg(long, default_value = "comfy-worker")]
    pub name: String,
    /// worker: the URL of its ComfyUI engine, such as http://gpu-1:8188
    #[arg(long, env = "COMFY_URL")]
    pub comfyui: Option<String>,
    /// worker: a header for the engine, such as "X-API-Key: secret"; may be given several times
    #[arg(long, value_parser = header)]
    pub comfyui_header: Vec<(String, String)>,
    /// worker: how often the state of a prompt is read, also without events
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub poll_every: Duration,
    /// worker: prompts at a time; the engine runs one, the others wait there
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub prompts: u8,
    /// worker: the longest time of an attempt
    #[arg(long, default_value = "30m", value_parser = duration)]
    pub timeout: Duration,
    /// worker: after this time without a sign of life another worker takes a job over
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub lease: Duration,
    /// worker: the secret that signs callbacks, whsec_… as Standard Webhooks has it; may be given
    /// several times
    #[arg(long, env = "COMFY_CALLBACK_SECRET", hide_env_values = true, value_parser = secret)]
    pub callback_secret: Vec<Secret>,
    /// worker: the shortest delay before a callback is sent again
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub callback_retry: Duration,
    /// api, worker: a host that callbacks may go to although its address is private; may be given
    /// several times
    #[arg(long)]
    pub callback_host: Vec<String>,
    /// api, worker: lets callbacks go to every address, also private ones
    #[arg(long)]
    pub allow_private_callbacks: bool,
}

impl Options {
    /// The addresses that callbacks may go to.
    pub fn addresses(&self) -> AddressRule {
        AddressRule { allow_private: self.allow_private_callbacks, allow_hosts: self.callback_host.clone() }
    }

    /// How callbacks are sent.
    pub fn callbacks(&self) -> CallbackSettings {
        let mut settings = CallbackSettings::new(self.callback_secret.clone());
        settings.retry.base = self.callback_retry;
        CallbackSettings { addresses: self.addresses(), ..settings }
    }

    /// The services on offer.
    pub fn catalogue(&self) -> Result<Catalogue, StartError> {
        Ok(self.services.as_deref().map_or_else(|| Ok(Catalogue::built_in()), Catalogue::read)?)
    }

    /// The engine of a worker.
    pub fn engine_settings(&self) -> Result<ComfyUiSettings, StartError> {
        let url = self.comfyui.clone();
        let url = url.ok_or("a worker needs the URL of its engine; add --comfyui http://gpu-1:8188")?;
        let settings = ComfyUiSettings::new(url);
        let forgotten_after = settings.forgotten_after.min(2 * self.poll_every);
        let headers = self.comfyui_header.clone();
        Ok(ComfyUiSettings { headers, poll_interval: self.poll_every, forgotten_after, ..settings })
    }
}

/// A duration from 1 ms to a day.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    let is_allowed = (Duration::from_millis(1)..=Duration::from_secs(86_400)).contains(&duration);
    is_allowed.then_some(duration).ok_or_else(|| "use a duration from 1ms to 24h".to_owned())
}

fn header(text: &str) -> Result<(String, String), String> {
    let header = text.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    header.ok_or_else(|| "write a header as \"Name: value\"".to_owned())
}

fn secret(text: &str) -> Result<Secret, String> {
    text.parse().map_err(|error: fairlane_targets::BadSecret| error.to_string())
}
