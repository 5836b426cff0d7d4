//! The tables `[types.NAME]`, `[groups.NAME]` and `[callbacks]`: the targets of jobs, limits, and how
//! callbacks are sent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fairlane_core::kernel::Operation;
use fairlane_core::queue::{GroupPatch, SetGroup};
use fairlane_core::{GroupId, Rate, TypeId, Weight};
use fairlane_targets::{
    AddressRule, CALLBACK_MAX_RETRY_COUNT, CallbackSettings, ComfyUi, ComfyUiSettings, CommandSettings,
    CommandTarget, HttpSettings, HttpTarget, OutputMode,
};
use fairlane_worker::{CALLBACK_TYPE, RetryPolicy, TypeOptions};
use serde::Deserialize;

use super::tables::RetryTable;
use super::values::{AmountOrNone, Field, Lasting, RateOrNone, Retries, SecretText, Text, Whole};

/// The configuration of one type.
#[derive(Debug)]
pub struct TypeConfig {
    /// The name of the type.
    pub type_id: TypeId,
    /// What runs its jobs; none if other workers do, and the file only has its limits.
    pub target: Option<Target>,
    /// The options of the type in this worker.
    pub options: TypeOptions,
    /// The rate to store in the queue, if the file sets it.
    pub rate: Option<Option<Rate>>,
    /// The number of retries to store in the queue, if the file sets it.
    pub max_retry_count: Option<u32>,
}

/// What runs the jobs of a type.
#[derive(Debug, Clone)]
pub enum Target {
    /// Jobs are sent to a URL.
    Http(HttpSettings),
    /// Jobs are passed to a program.
    Command(CommandSettings),
    /// Jobs are run as prompts of a ComfyUI engine.
    ComfyUi(ComfyUiSettings),
}

/// How callbacks are delivered.
#[derive(Debug)]
pub struct CallbackConfig {
    /// Signatures, allowed addresses and timeouts.
    pub settings: CallbackSettings,
    /// The number of slots, in addition to the worker's.
    pub concurrency: Option<usize>,
    /// The number of retries to store in the queue.
    pub max_retry_count: u32,
}

impl CallbackConfig {
    /// The options of the callback type in this worker.
    pub fn options(&self) -> TypeOptions {
        TypeOptions { concurrency: self.concurrency, ..self.settings.type_options() }
    }
}

/// The keys of `[types.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeTable {
    http: Option<Text>,
    command: Option<Vec<String>>,
    comfyui: Option<Text>,
    headers: Option<BTreeMap<String, Text>>,
    content_type: Option<String>,
    connect_timeout_ms: Option<Lasting>,
    directory: Option<PathBuf>,
    environment: Option<BTreeMap<String, Text>>,
    allow_partial: Option<bool>,
    download_to: Option<PathBuf>,
    concurrency: Option<Whole<usize>>,
    rate: Option<RateOrNone>,
    timeout_ms: Option<Lasting>,
    max_retry_count: Option<Retries>,
    retry: Option<RetryTable>,
}

impl TypeTable {
    /// Checks the table. The timeout of an HTTP request is that of an attempt.
    pub fn checked(mut self, type_id: &TypeId, job_timeout: Duration) -> Result<TypeConfig, String> {
        if *type_id == callback_type() {
            return Err("callbacks are configured in [callbacks]".to_owned());
        }
        let retry = self.retry.take().map(|retry| over(Some(&retry), RetryPolicy::default()));
        let options = TypeOptions {
            concurrency: self.concurrency.as_ref().map(|concurrency| concurrency.0),
            own_slots: false,
            timeout: self.timeout_ms.as_ref().map(|timeout| timeout.0),
            retry,
        };
        options.check()?;
        options.retry.as_ref().map_or(Ok(()), check_retry)?;
        let (rate, max_retry_count) = (self.rate.take().map(|rate| rate.0), self.max_retry_count.take());
        let target = match (self.http.take(), self.command.take(), self.comfyui.take()) {
            (Some(url), None, None) => Some(self.http_target(url.0, options.timeout.unwrap_or(job_timeout))?),
            (None, Some(command), None) => Some(self.command_target(command)?),
            (None, None, Some(url)) => Some(self.comfyui_target(url.0)?),
            (None, None, None) if rate.is_some() || max_retry_count.is_some() => self.no_target(&options)?,
            (None, None, None) => {
                return Err(
                    "a target is required, http = \"https://…\", command = [\"program\", …] or comfyui = \
                            \"http://…\", or a limit such as rate = \"50/s\""
                        .into(),
                );
            }
            _ => return Err("a type has one target: http, command and comfyui are mutually exclusive".into()),
        };
        let max_retry_count = max_retry_count.map(|count| count.0);
        Ok(TypeConfig { type_id: type_id.clone(), target, options, rate, max_retry_count })
    }

    /// Only limits, which are stored in the queue, make sense without a target.
    fn no_target(self, options: &TypeOptions) -> Result<Option<Target>, String> {
        self.refuse_keys_of_others("")?;
        let of_worker = [
            ("concurrency", options.concurrency.is_some()),
            ("timeout_ms", options.timeout.is_some()),
            ("retry", options.retry.is_some()),
        ];
        match of_worker.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(format!("{key} is only for types with http, command or comfyui")),
            None => Ok(None),
        }
    }

    fn http_target(self, url: String, timeout: Duration) -> Result<Target, String> {
        self.refuse_keys_of_others("http")?;
        let mut settings = HttpSettings { timeout, headers: pairs(self.headers), ..HttpSettings::new(url) };
        settings.content_type = self.content_type.unwrap_or(settings.content_type);
        self.connect_timeout_ms.inspect(|time| time.apply(&mut settings.connect_timeout));
        HttpTarget::new(settings.clone()).map_err(|error| format!("http: {error}"))?;
        Ok(Target::Http(settings))
    }

    fn command_target(self, command: Vec<String>) -> Result<Target, String> {
        self.refuse_keys_of_others("command")?;
        let settings =
            CommandSettings { command, directory: self.directory, environment: pairs(self.environment) };
        CommandTarget::new(settings.clone()).map_err(|error| format!("command: {error}"))?;
        Ok(Target::Command(settings))
    }

    fn comfyui_target(self, url: String) -> Result<Target, String> {
        self.refuse_keys_of_others("comfyui")?;
        let mut settings = ComfyUiSettings {
            headers: pairs(self.headers),
            allow_partial: self.allow_partial.unwrap_or(false),
            outputs: self.download_to.map_or(OutputMode::Reference, OutputMode::Download),
            ..ComfyUiSettings::new(url)
        };
        self.connect_timeout_ms.inspect(|time| time.apply(&mut settings.connect_timeout));
        ComfyUi::new(settings.clone()).map_err(|error| format!("comfyui: {error}"))?;
        Ok(Target::ComfyUi(settings))
    }

    /// Rejects keys that a target of this kind does not have.
    fn refuse_keys_of_others(&self, kind: &str) -> Result<(), String> {
        let keys = [
            ("headers", self.headers.is_some(), &["http", "comfyui"][..]),
            ("content_type", self.content_type.is_some(), &["http"]),
            ("connect_timeout_ms", self.connect_timeout_ms.is_some(), &["http", "comfyui"]),
            ("directory", self.directory.is_some(), &["command"]),
            ("environment", self.environment.is_some(), &["command"]),
            ("allow_partial", self.allow_partial.is_some(), &["comfyui"]),
            ("download_to", self.download_to.is_some(), &["comfyui"]),
        ];
        match keys.into_iter().find(|(_, is_given, kinds)| *is_given && !kinds.contains(&kind)) {
            Some((key, _, kinds)) => Err(format!("{key} is only for types with {}", kinds.join(" or "))),
            None => Ok(()),
        }
    }
}

/// The keys of `[groups.NAME]`: settings to store in the queue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupTable {
    weight: Option<Whole<u32>>,
    rate: Option<RateOrNone>,
    concurrency: Option<AmountOrNone>,
}

impl GroupTable {
    /// Checks the table.
    pub fn checked(self, group: &GroupId) -> Result<GroupPatch, String> {
        let weight = self.weight.map(|weight| Weight::new(weight.0)).transpose();
        let limit = |count: Option<usize>| count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let patch = GroupPatch {
            weight: weight.map_err(|error| error.to_string())?,
            rate: self.rate.map(|rate| rate.0),
            concurrency: self.concurrency.map(|concurrency| limit(concurrency.0)),
            ..GroupPatch::default()
        };
        let set = SetGroup { group: group.clone(), patch, reset_congestion: false };
        set.validate().map_err(|error| error.to_string())?;
        Ok(set.patch)
    }
}

/// The keys of `[callbacks]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallbackTable {
    secrets: Vec<SecretText>,
    #[serde(default)]
    group_secrets: BTreeMap<GroupId, Vec<SecretText>>,
    #[serde(default)]
    allow_private: bool,
    #[serde(default)]
    allow_hosts: Vec<String>,
    timeout_ms: Option<Lasting>,
    connect_timeout_ms: Option<Lasting>,
    concurrency: Option<Whole<usize>>,
    max_retry_count: Option<Retries>,
    retry: Option<RetryTable>,
}

impl CallbackTable {
    /// Checks the table.
    pub fn checked(self) -> Result<CallbackConfig, String> {
        let secrets = |written: Vec<SecretText>| written.into_iter().map(|one| one.0).collect::<Vec<_>>();
        let of_groups = self.group_secrets.into_iter().map(|(group, written)| (group, secrets(written)));
        let standard = CallbackSettings::new(secrets(self.secrets));
        let mut settings = CallbackSettings {
            group_secrets: of_groups.collect(),
            addresses: AddressRule { allow_private: self.allow_private, allow_hosts: self.allow_hosts },
            retry: over(self.retry.as_ref(), standard.retry),
            ..standard
        };
        self.timeout_ms.inspect(|time| time.apply(&mut settings.timeout));
        self.connect_timeout_ms.inspect(|time| time.apply(&mut settings.connect_timeout));
        settings.check().map_err(|error| error.to_string())?;
        check_retry(&settings.retry)?;
        let concurrency = self.concurrency.map(|concurrency| concurrency.0);
        let max_retry_count = self.max_retry_count.map_or(CALLBACK_MAX_RETRY_COUNT, |count| count.0);
        let config = CallbackConfig { settings, concurrency, max_retry_count };
        config.options().check()?;
        Ok(config)
    }
}

/// The type of the jobs that deliver callbacks.
pub fn callback_type() -> TypeId {
    TypeId::new(CALLBACK_TYPE).expect("a plain word is a name")
}

/// Rejects delays whose bounds contradict each other.
pub fn check_retry(retry: &RetryPolicy) -> Result<(), String> {
    let (base, cap) = (retry.base.as_millis(), retry.cap.as_millis());
    if base > cap {
        return Err(format!("retry.base is {base} and must not be above retry.cap_ms, which is {cap}"));
    }
    Ok(())
}

fn over(table: Option<&RetryTable>, mut retry: RetryPolicy) -> RetryPolicy {
    table.inspect(|table| table.apply(&mut retry));
    retry
}

fn pairs(written: Option<BTreeMap<String, Text>>) -> Vec<(String, String)> {
    written.into_iter().flatten().map(|(name, value)| (name, value.0)).collect()
}
