//! The tables `[types.NAME]` and `[callbacks]`: the targets of jobs, and how callbacks are sent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fairlane_core::{GroupId, Rate, TypeId};
use fairlane_targets::{
    AddressRule, CALLBACK_MAX_RETRY_COUNT, CallbackSettings, CommandSettings, CommandTarget, HttpSettings,
    HttpTarget,
};
use fairlane_worker::{CALLBACK_TYPE, RetryPolicy, TypeOptions};
use serde::Deserialize;

use super::tables::RetryTable;
use super::values::{Field, Lasting, RateOrNone, Retries, SecretText, Text, Whole};

/// The configuration of one type.
#[derive(Debug)]
pub struct TypeConfig {
    /// The name of the type.
    pub type_id: TypeId,
    /// What runs its jobs.
    pub target: Target,
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
    headers: Option<BTreeMap<String, Text>>,
    content_type: Option<String>,
    connect_timeout_ms: Option<Lasting>,
    directory: Option<PathBuf>,
    environment: Option<BTreeMap<String, Text>>,
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
        let target = match (self.http.take(), self.command.take()) {
            (Some(url), None) => self.http_target(url.0, options.timeout.unwrap_or(job_timeout))?,
            (None, Some(command)) => self.command_target(command)?,
            (None, None) => {
                return Err("a target is required: http = \"https://…\" or command = [\"program\", …]".into());
            }
            (Some(_), Some(_)) => {
                return Err("a type has one target: http and command are mutually exclusive".into());
            }
        };
        let max_retry_count = max_retry_count.map(|count| count.0);
        Ok(TypeConfig { type_id: type_id.clone(), target, options, rate, max_retry_count })
    }

    fn http_target(self, url: String, timeout: Duration) -> Result<Target, String> {
        refuse("directory", self.directory.is_some(), "command")?;
        refuse("environment", self.environment.is_some(), "command")?;
        let mut settings = HttpSettings { timeout, headers: pairs(self.headers), ..HttpSettings::new(url) };
        settings.content_type = self.content_type.unwrap_or(settings.content_type);
        self.connect_timeout_ms.inspect(|time| time.apply(&mut settings.connect_timeout));
        HttpTarget::new(settings.clone()).map_err(|error| format!("http: {error}"))?;
        Ok(Target::Http(settings))
    }

    fn command_target(self, command: Vec<String>) -> Result<Target, String> {
        refuse("headers", self.headers.is_some(), "http")?;
        refuse("content_type", self.content_type.is_some(), "http")?;
        refuse("connect_timeout_ms", self.connect_timeout_ms.is_some(), "http")?;
        let settings =
            CommandSettings { command, directory: self.directory, environment: pairs(self.environment) };
        CommandTarget::new(settings.clone()).map_err(|error| format!("command: {error}"))?;
        Ok(Target::Command(settings))
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

/// Rejects a key of the other kind of target.
fn refuse(key: &str, is_given: bool, kind: &str) -> Result<(), String> {
    if is_given { Err(format!("{key} is only for types with {kind}")) } else { Ok(()) }
}

fn pairs(written: Option<BTreeMap<String, Text>>) -> Vec<(String, String)> {
    written.into_iter().flatten().map(|(name, value)| (name, value.0)).collect()
}
