//! The tables `[types.NAME]` and `[callbacks]`: the targets of jobs, and how callbacks are sent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fairlane_core::limits::ATTEMPTS_MAX;
use fairlane_core::{GroupId, Rate, TypeId};
use fairlane_targets::{
    AddressRule, CALLBACK_MAX_RETRY_COUNT, CallbackSettings, CommandSettings, CommandTarget, HttpSettings,
    HttpTarget, Secret,
};
use fairlane_worker::{CALLBACK_TYPE, RetryPolicy, TypeOptions};
use serde::Deserialize;

use super::text::{RateText, Text};

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

fn ms(written: Option<u64>, standard: Duration) -> Duration {
    written.map_or(standard, Duration::from_millis)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryTable {
    base_ms: Option<u64>,
    cap_ms: Option<u64>,
}

impl RetryTable {
    fn over(self, standard: RetryPolicy) -> Result<RetryPolicy, String> {
        let policy =
            RetryPolicy { base: ms(self.base_ms, standard.base), cap: ms(self.cap_ms, standard.cap) };
        if policy.base > policy.cap {
            let (base, cap) = (policy.base.as_millis(), policy.cap.as_millis());
            return Err(format!("retry: base_ms is {base} and must not be above cap_ms, which is {cap}"));
        }
        Ok(policy)
    }
}

/// A table `[types.NAME]`; everything but its name is checked.
#[derive(Deserialize)]
#[serde(try_from = "TypeTable")]
pub struct CheckedType {
    target: Target,
    options: TypeOptions,
    rate: Option<Option<Rate>>,
    max_retry_count: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypeTable {
    http: Option<Text>,
    command: Option<Vec<String>>,
    headers: Option<BTreeMap<String, Text>>,
    content_type: Option<String>,
    connect_timeout_ms: Option<u64>,
    directory: Option<PathBuf>,
    environment: Option<BTreeMap<String, Text>>,
    concurrency: Option<usize>,
    rate: Option<RateText>,
    timeout_ms: Option<u64>,
    max_retry_count: Option<u32>,
    retry: Option<RetryTable>,
}

impl TryFrom<TypeTable> for CheckedType {
    type Error = String;

    fn try_from(mut table: TypeTable) -> Result<Self, String> {
        let target = match (table.http.take(), table.command.take()) {
            (Some(url), None) => Target::Http(table.http_settings(url)?),
            (None, Some(command)) => Target::Command(table.command_settings(command)?),
            (None, None) => {
                return Err("a target is required: http = \"https://…\" or command = [\"program\", …]".into());
            }
            (Some(_), Some(_)) => {
                return Err("a type has one target: http and command are mutually exclusive".into());
            }
        };
        let options = TypeOptions {
            concurrency: table.concurrency,
            own_slots: false,
            timeout: table.timeout_ms.map(Duration::from_millis),
            retry: table.retry.map(|retry| retry.over(RetryPolicy::default())).transpose()?,
        };
        options.check()?;
        check_retries(table.max_retry_count)?;
        let rate = table.rate.map(|rate| rate.0);
        Ok(Self { target, options, rate, max_retry_count: table.max_retry_count })
    }
}

impl TypeTable {
    fn http_settings(&self, url: Text) -> Result<HttpSettings, String> {
        refuse(
            "command",
            &[("directory", self.directory.is_some()), ("environment", self.environment.is_some())],
        )?;
        let standard = HttpSettings::new(url.0);
        let settings = HttpSettings {
            content_type: self.content_type.clone().unwrap_or(standard.content_type),
            headers: pairs(self.headers.as_ref()),
            connect_timeout: ms(self.connect_timeout_ms, standard.connect_timeout),
            ..HttpSettings::new(standard.url)
        };
        HttpTarget::new(settings.clone()).map_err(|error| format!("http: {error}"))?;
        Ok(settings)
    }

    fn command_settings(&self, command: Vec<String>) -> Result<CommandSettings, String> {
        let (typed, connecting) = (self.content_type.is_some(), self.connect_timeout_ms.is_some());
        let foreign = [
            ("headers", self.headers.is_some()),
            ("content_type", typed),
            ("connect_timeout_ms", connecting),
        ];
        refuse("http", &foreign)?;
        let environment = pairs(self.environment.as_ref());
        let settings = CommandSettings { command, directory: self.directory.clone(), environment };
        CommandTarget::new(settings.clone()).map_err(|error| format!("command: {error}"))?;
        Ok(settings)
    }
}

/// Rejects keys of the other kind of target.
fn refuse(kind: &str, given: &[(&str, bool)]) -> Result<(), String> {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => Err(format!("{key} is only for types with {kind}")),
        None => Ok(()),
    }
}

fn pairs(written: Option<&BTreeMap<String, Text>>) -> Vec<(String, String)> {
    written.into_iter().flatten().map(|(name, value)| (name.clone(), value.0.clone())).collect()
}

fn check_retries(written: Option<u32>) -> Result<(), String> {
    match written {
        Some(count) if count > ATTEMPTS_MAX => {
            Err(format!("max_retry_count is {count}; it must be from 0 to {ATTEMPTS_MAX}"))
        }
        _ => Ok(()),
    }
}

impl CheckedType {
    /// Adds the name. The timeout of an HTTP request is that of an attempt.
    pub fn named(mut self, name: &str, job_timeout: Duration) -> Result<TypeConfig, String> {
        let type_id = TypeId::new(name).map_err(|error| format!("[types.{name}]: {error}"))?;
        if name == CALLBACK_TYPE {
            return Err(format!("[types.{name}]: callbacks are configured in [callbacks]"));
        }
        if let Target::Http(settings) = &mut self.target {
            settings.timeout = self.options.timeout.unwrap_or(job_timeout);
        }
        let Self { target, options, rate, max_retry_count } = self;
        Ok(TypeConfig { type_id, target, options, rate, max_retry_count })
    }
}

/// The table `[callbacks]`, checked.
#[derive(Deserialize)]
#[serde(try_from = "CallbackTable")]
pub struct CheckedCallbacks(pub CallbackConfig);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallbackTable {
    secrets: Vec<Text>,
    #[serde(default)]
    group_secrets: BTreeMap<String, Vec<Text>>,
    #[serde(default)]
    allow_private: bool,
    #[serde(default)]
    allow_hosts: Vec<String>,
    timeout_ms: Option<u64>,
    connect_timeout_ms: Option<u64>,
    concurrency: Option<usize>,
    max_retry_count: Option<u32>,
    retry: Option<RetryTable>,
}

impl TryFrom<CallbackTable> for CheckedCallbacks {
    type Error = String;

    fn try_from(table: CallbackTable) -> Result<Self, String> {
        let mut group_secrets = Vec::new();
        for (name, written) in &table.group_secrets {
            let group = GroupId::new(name).map_err(|error| format!("group_secrets: {error}"))?;
            group_secrets.push((group, secrets(&format!("group_secrets of {name}"), written)?));
        }
        let standard = CallbackSettings::new(secrets("secrets", &table.secrets)?);
        let settings = CallbackSettings {
            group_secrets,
            addresses: AddressRule { allow_private: table.allow_private, allow_hosts: table.allow_hosts },
            connect_timeout: ms(table.connect_timeout_ms, standard.connect_timeout),
            timeout: ms(table.timeout_ms, standard.timeout),
            retry: table.retry.map_or(Ok(standard.retry), |retry| retry.over(standard.retry))?,
            ..standard
        };
        settings.check().map_err(|error| error.to_string())?;
        check_retries(table.max_retry_count)?;
        let max_retry_count = table.max_retry_count.unwrap_or(CALLBACK_MAX_RETRY_COUNT);
        let config = CallbackConfig { settings, concurrency: table.concurrency, max_retry_count };
        config.options().check()?;
        Ok(Self(config))
    }
}

fn secrets(what: &str, written: &[Text]) -> Result<Vec<Secret>, String> {
    let numbered = written.iter().enumerate();
    let read = numbered.map(|(index, text)| {
        text.0.parse().map_err(|error| format!("number {} of {what}: {error}", index + 1))
    });
    read.collect()
}
