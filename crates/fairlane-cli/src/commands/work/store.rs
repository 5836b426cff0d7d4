//! Connects a worker to its store: waits for it, and applies the settings of the file, also to a
//! store that has lost them in an outage.
//!
//! At startup the file wins, and a warning names each stored value that it replaces. After an outage
//! what an operator has stored wins, also with a warning. A setting with the value of a new store gets
//! the file's, because a store that has lost its settings looks the same.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use fairlane::{
    EngineError, Error, Fairlane, GroupId, GroupPatch, GroupSettings, Rate, TypeId, TypePatch, TypeSettings,
    rate_text,
};
use fairlane_core::queue::Settings;
use fairlane_engine::embedded::disk::owner_of;
use fairlane_engine::{Backoff, directory_of};

use super::difference::{
    Difference, KnownSettings, MAX_RETRY_COUNT, QUEUE, RATE, name, report_replaced, split,
};
use super::event::WorkEvent;
use super::reporter::{Reporter, RetryLimits};
use crate::commands::settings::readable;
use crate::config::{Config, callback_type, queue_settings};
use crate::failure::Failure;
use crate::limit::limit_text;
use crate::target::QueueTarget;

/// How often an unreachable store is reported again.
const REMINDER_PAUSE: Duration = Duration::from_secs(30);
/// How often a busy worker reports its progress.
const PROGRESS_PAUSE: Duration = Duration::from_secs(30);
/// Activities in messages.
const CONNECTING: &str = "connecting";
const APPLYING_SETTINGS: &str = "applying the settings of the file";

/// What a queue is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To run its jobs, whatever its address.
    Work,
    /// To serve it: no other process may serve it.
    Serve,
}

/// Waits until the store responds, at most as long as `patience`, and applies the settings of the
/// file.
pub async fn reach(
    target: &QueueTarget,
    purpose: Purpose,
    patience: Option<Duration>,
    config: &Config,
    reporter: &Reporter,
) -> Result<Fairlane, Failure> {
    let began = Instant::now();
    let (mut reported, mut backoff) = (None::<Instant>, Backoff::default());
    loop {
        let error = match connect(target, purpose, config, reporter).await {
            Ok(fairlane) => {
                if reported.is_some() {
                    reporter.report(WorkEvent::EngineBack { after_ms: began.elapsed().as_millis() as u64 });
                }
                return Ok(fairlane);
            }
            Err(error) => error,
        };
        let delay = backoff.next_delay();
        let is_over = patience.is_some_and(|patience| began.elapsed() + delay > patience);
        if is_over || !may_recover(target, patience, &error) {
            return Err(target.failure(error));
        }
        if reported.is_none_or(|reported| reported.elapsed() >= REMINDER_PAUSE) {
            reported = Some(Instant::now());
            let error = format!("{}: {error}", target.address());
            reporter.report(WorkEvent::EngineDown { doing: CONNECTING, error });
        }
        tokio::time::sleep(delay).await;
    }
}

/// Whether waiting may help: the store does not respond, or the owner of its directory may be about
/// to serve it. Without a limit to the patience, such an owner is assumed to keep the directory to
/// itself, as a worker does.
fn may_recover(target: &QueueTarget, patience: Option<Duration>, error: &Error) -> bool {
    let Error::Engine(error) = error else { return false };
    let owner = || directory_of(&target.engine).and_then(|folder| owner_of(&folder));
    error.is_retryable() || patience.is_some() && owner().is_some_and(|owner| owner.address.is_none())
}

async fn connect(
    target: &QueueTarget,
    purpose: Purpose,
    config: &Config,
    reporter: &Reporter,
) -> Result<Fairlane, Error> {
    let fairlane = target.open_or_make().await?;
    // Checked before any settings are written: they belong to the process that serves the queue.
    if purpose == Purpose::Serve && fairlane.engine().name() == "http" {
        let reason = format!(
            "{} is already served by another process; stop that process first, or select another directory with --engine",
            target.address()
        );
        return Err(EngineError::Refused { reason }.into());
    }
    apply_settings(&fairlane, config, None, reporter).await?;
    reporter.set_retry_limits(stored_limits(&fairlane, config).await?.0);
    Ok(fairlane)
}

/// Never completes: reports the progress of the worker, and applies the settings again to a store
/// that may have lost them in an outage.
pub async fn keep(fairlane: &Fairlane, config: &Config, reporter: &Reporter) {
    let mut known = KnownSettings::default();
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS_PAUSE, PROGRESS_PAUSE);
    loop {
        tokio::select! {
            _ = ticks.tick() => reporter.report_progress(),
            () = reporter.engine_back() => apply_settings_again(fairlane, config, &mut known, reporter).await,
        }
        // Another process may have changed the limits. If this fails, the known ones stay in use.
        if let Ok((limits, unset)) = stored_limits(fairlane, config).await {
            reporter.set_retry_limits(limits);
            known.unset = unset;
        }
    }
}

async fn apply_settings_again(
    fairlane: &Fairlane,
    config: &Config,
    known: &mut KnownSettings,
    reporter: &Reporter,
) {
    let mut backoff = Backoff::default();
    while let Err(error) = apply_settings(fairlane, config, Some(&mut *known), reporter).await {
        if !error.is_retryable() {
            return reporter.report_refusal(APPLYING_SETTINGS, error.to_string());
        }
        backoff.sleep().await;
    }
}

/// Writes the settings of the queue, its types and its groups to the store; `known` after an outage.
async fn apply_settings(
    fairlane: &Fairlane,
    config: &Config,
    mut known: Option<&mut KnownSettings>,
    reporter: &Reporter,
) -> Result<(), Error> {
    set_queue(fairlane, config, known.as_deref_mut(), reporter).await?;
    for one in &config.types {
        let known = known.as_deref_mut();
        set_type(fairlane, &one.type_id, one.rate, one.max_retry_count, known, reporter).await?;
    }
    for (group, patch) in &config.groups {
        set_group(fairlane, group, patch, known.as_deref_mut(), reporter).await?;
    }
    if let Some(callbacks) = &config.callbacks {
        set_type(fairlane, &callback_type(), None, Some(callbacks.max_retry_count), known, reporter).await?;
    }
    Ok(())
}

/// Settings that are not in the file keep their stored values.
async fn set_queue(
    fairlane: &Fairlane,
    config: &Config,
    known: Option<&mut KnownSettings>,
    reporter: &Reporter,
) -> Result<(), Error> {
    let stored = fairlane.queue_view().await?.settings;
    let (kept, replaced) = split(queue_differences(config, &stored), known, reporter);
    let kept: Vec<&str> = kept.iter().map(|one| one.key.as_str()).collect();
    let Some(settings) = config.queue_over(&stored, &kept) else { return Ok(()) };
    match fairlane.set_queue(settings).await {
        Ok(()) => report_replaced(&replaced, reporter),
        // A worker's key is not permitted to: the worker uses the settings of an admin.
        Err(Error::Engine(EngineError::Refused { reason })) if fairlane.engine().name() == "http" => {
            let pairs: Vec<String> =
                replaced.iter().map(|one| format!("{}='{}'", one.key, one.of_file)).collect();
            let warning = format!(
                "the settings of the queue in the file were not applied, the stored ones stay in use: {reason}; or have \
                 an admin run fairlane settings set {}",
                pairs.join(" ")
            );
            reporter.report(WorkEvent::EngineWarning { warning });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The settings of the queue that differ.
fn queue_differences(config: &Config, stored: &Settings) -> Vec<Difference> {
    let Some(of_file) = config.queue_over(stored, &[]) else { return Vec::new() };
    let (of_file, unset) = (queue_settings(&of_file), queue_settings(&Settings::default()));
    let rows = queue_settings(stored).into_iter().zip(of_file).zip(unset);
    rows.filter(|((stored, of_file), _)| stored != of_file)
        .map(|(((key, stored), (_, of_file)), (_, unset))| {
            let is_unset = stored == unset;
            let [stored, of_file] = [stored, of_file].map(|value| readable(&key, value));
            Difference { owner: QUEUE.to_owned(), key, stored, of_file, is_unset }
        })
        .collect()
}

async fn set_type(
    fairlane: &Fairlane,
    type_id: &TypeId,
    rate: Option<Option<Rate>>,
    max_retry_count: Option<u32>,
    known: Option<&mut KnownSettings>,
    reporter: &Reporter,
) -> Result<(), Error> {
    if rate.is_none() && max_retry_count.is_none() {
        return Ok(());
    }
    let view = fairlane.job_type(type_id).view().await?;
    let mut patch = TypePatch { rate, max_retry_count: max_retry_count.map(Some), ..TypePatch::default() };
    let mut replaced = Vec::new();
    if let Some(view) = view {
        let (_, written) = split(type_differences(type_id, &view.settings, &patch), known, reporter);
        // A change, even to what holds already, opens a type that a Retry-After has closed: a start is no
        // reason to.
        if written.is_empty() {
            return Ok(());
        }
        let is_written = |key| written.iter().any(|one| one.key == key);
        patch.rate = patch.rate.filter(|_| is_written(RATE));
        patch.max_retry_count = patch.max_retry_count.filter(|_| is_written(MAX_RETRY_COUNT));
        replaced = written;
    }
    let (rate, count) = (patch.rate, patch.max_retry_count.flatten());
    match fairlane.job_type(type_id).patch(patch).apply().await {
        Ok(_) => report_replaced(&replaced, reporter),
        // A worker's key is not permitted to: the worker uses the settings of an admin.
        Err(Error::Engine(EngineError::Refused { reason })) if fairlane.engine().name() == "http" => {
            let warning = not_applied(type_id, rate, count, &reason);
            reporter.report(WorkEvent::EngineWarning { warning });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The settings of a type that differ.
fn type_differences(type_id: &TypeId, stored: &TypeSettings, of_file: &TypePatch) -> Vec<Difference> {
    let rate = |rate: Option<Rate>| limit_text(rate.map(rate_text).as_ref());
    let rate = Difference::of_type(type_id, RATE, stored.rate, of_file.rate, rate);
    let count = |count: Option<u32>| count.map_or("none".to_owned(), |count| count.to_string());
    let (stored, of_file) = (stored.max_retry_count, of_file.max_retry_count);
    let count = Difference::of_type(type_id, MAX_RETRY_COUNT, stored, of_file, count);
    rate.into_iter().chain(count).collect()
}

/// At startup the file replaces what is stored; after an outage it is only written to a group without
/// settings.
async fn set_group(
    fairlane: &Fairlane,
    group: &GroupId,
    patch: &GroupPatch,
    known: Option<&mut KnownSettings>,
    reporter: &Reporter,
) -> Result<(), Error> {
    let stored = fairlane.group(group).view().await?;
    let stored = stored.map(|view| view.settings).unwrap_or_default();
    let is_changed = stored != GroupSettings::default();
    let of_file = patch.applied_to(&stored);
    if of_file == stored {
        return Ok(());
    }
    if let Some(known) = known.filter(|_| is_changed) {
        let (stored, of_file) = (format!("at {}", words(&stored)), words(&of_file));
        known.warn(&format!("group {group}"), &stored, &of_file, reporter);
        return Ok(());
    }
    let warning = match fairlane.group(group).patch(patch.clone()).apply().await {
        Ok(_) if is_changed => {
            format!("the settings of group {group} are now those of the file; they were {}", words(&stored))
        }
        Ok(_) => return Ok(()),
        // A worker's key is not permitted to.
        Err(Error::Engine(EngineError::Refused { reason })) if fairlane.engine().name() == "http" => format!(
            "the settings of group {group} in the file were not applied, the stored ones stay in use: {reason}"
        ),
        Err(error) => return Err(error),
    };
    reporter.report(WorkEvent::EngineWarning { warning });
    Ok(())
}

fn words(settings: &GroupSettings) -> String {
    let (rate, concurrency) = (settings.rate.map(rate_text), settings.concurrency);
    let (rate, concurrency) = (limit_text(rate.as_ref()), limit_text(concurrency.as_ref()));
    format!("weight {}, rate {rate}, concurrency {concurrency}", settings.weight.get())
}

/// A warning about settings that could not be applied, with the command that applies them.
fn not_applied(
    type_id: &TypeId,
    rate: Option<Option<Rate>>,
    max_retry_count: Option<u32>,
    reason: &str,
) -> String {
    let mut options = String::new();
    if let Some(rate) = rate {
        options += &format!(" --rate '{}'", rate.map_or("none".to_owned(), rate_text));
    }
    if let Some(count) = max_retry_count {
        options += &format!(" --max-retry-count {count}");
    }
    format!(
        "the settings of {type_id} in the file were not applied, the stored ones stay in use: {reason}; or have an \
         admin run fairlane type set {type_id}{options}"
    )
}

/// The stored retry limits of the types in the file, and the settings of the queue and these types that
/// have the values of a new store.
async fn stored_limits(
    fairlane: &Fairlane,
    config: &Config,
) -> Result<(RetryLimits, HashSet<String>), Error> {
    let queue = fairlane.queue_view().await?;
    let rows = queue_settings(&queue.settings).into_iter().zip(queue_settings(&Settings::default()));
    let unset = rows.filter(|(stored, unset)| stored == unset).map(|((key, _), _)| name(&key, QUEUE));
    let (mut limits, mut unset) = (RetryLimits::new(), unset.collect::<HashSet<_>>());
    let types = config.types.iter().map(|one| one.type_id.clone());
    for type_id in types.chain(config.callbacks.iter().map(|_| callback_type())) {
        let view = fairlane.job_type(&type_id).view().await?;
        let settings = view.map(|view| view.settings);
        if let Some(settings) = &settings {
            let is_unset =
                [(RATE, settings.rate.is_none()), (MAX_RETRY_COUNT, settings.max_retry_count.is_none())];
            let keys = is_unset.into_iter().filter(|(_, is_unset)| *is_unset);
            unset.extend(keys.map(|(key, _)| name(key, &type_id.to_string())));
        }
        let of_type = settings.and_then(|settings| settings.max_retry_count);
        limits.insert(type_id, of_type.unwrap_or(queue.settings.max_retry_count));
    }
    Ok((limits, unset))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use fairlane::{Job, Outcome, Weight};

    use super::*;
    use crate::config::ConfigArguments;

    async fn is_closed(fairlane: &Fairlane, type_id: &TypeId) -> bool {
        let view = fairlane.job_type(type_id).view().await.unwrap();
        view.expect("the type exists").closed_until.is_some()
    }

    #[tokio::test]
    async fn a_rate_stored_by_an_operator_stays_after_an_outage() {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        let (type_id, reporter) = (TypeId::new("mail").unwrap(), Reporter::start(false));
        let (of_file, slow) = (Some(Rate::per_second(100).unwrap()), Some(Rate::per_second(5).unwrap()));
        let stored = async || {
            let view = fairlane.job_type(&type_id).view().await.unwrap();
            view.expect("the type exists").settings.rate
        };
        let operator = async |rate| {
            let patch = TypePatch { rate: Some(rate), ..TypePatch::default() };
            fairlane.job_type(&type_id).patch(patch).apply().await.unwrap()
        };
        let (rate, none) = (name(RATE, "mail"), "unlimited".to_owned());
        let mut known = KnownSettings::default();
        let after_outage = async |known: &mut KnownSettings| {
            set_type(&fairlane, &type_id, Some(of_file), None, Some(known), &reporter).await.unwrap();
            stored().await
        };
        assert_eq!(after_outage(&mut known).await, of_file, "an empty store gets the rate of the file");
        operator(slow).await;
        assert_eq!(after_outage(&mut known).await, slow);
        operator(None).await;
        assert_eq!(after_outage(&mut known).await, of_file, "the store has lost the rate");
        operator(None).await;
        known.unset.insert(rate.clone());
        assert_eq!(after_outage(&mut known).await, None);
        assert_eq!(known.warned, HashMap::from([(rate, none)]));
        set_type(&fairlane, &type_id, Some(of_file), None, None, &reporter).await.unwrap();
        assert_eq!(stored().await, of_file, "at startup the file wins");
        reporter.finish().await;
    }

    #[tokio::test]
    async fn settings_of_the_queue_and_retry_limits_stored_by_an_operator_stay_after_an_outage() {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        let (type_id, reporter) = (TypeId::new("mail").unwrap(), Reporter::start(false));
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("fairlane.toml");
        let file = "[queue]\nmax_retry_count = 5\nmax_loss_count = 6\n[types.mail]\nmax_retry_count = 2\n";
        std::fs::write(&path, file).unwrap();
        let config = Config::read(&ConfigArguments { config: Some(path), ..Default::default() }).unwrap();
        let stored = async || {
            let queue = fairlane.queue_view().await.unwrap().settings;
            let view = fairlane.job_type(&type_id).view().await.unwrap();
            let of_type = view.and_then(|view| view.settings.max_retry_count);
            (queue.max_retry_count, queue.max_loss_count, of_type)
        };
        let operator = async |queue: u32, of_type| {
            let settings = fairlane.queue_view().await.unwrap().settings;
            fairlane.set_queue(Settings { max_retry_count: queue, ..settings }).await.unwrap();
            let patch = TypePatch { max_retry_count: Some(of_type), ..TypePatch::default() };
            fairlane.job_type(&type_id).patch(patch).apply().await.unwrap();
        };
        let apply = async |known: Option<&mut KnownSettings>| {
            apply_settings(&fairlane, &config, known, &reporter).await.unwrap()
        };
        let mut known = KnownSettings::default();
        apply(Some(&mut known)).await;
        assert_eq!(stored().await, (5, 6, Some(2)), "an empty store gets the settings of the file");
        operator(9, Some(7)).await;
        apply(Some(&mut known)).await;
        assert_eq!(stored().await, (9, 6, Some(7)), "what an operator has stored stays");
        let warned = [("max_retry_count of the queue", "9"), ("max_retry_count of mail", "7")];
        assert_eq!(known.warned, HashMap::from(warned.map(|(name, value)| (name.into(), value.into()))));
        operator(Settings::default().max_retry_count, None).await;
        known.unset = stored_limits(&fairlane, &config).await.unwrap().1;
        apply(Some(&mut known)).await;
        assert_eq!(stored().await, (3, 6, None), "the operator chose the values of a new store");
        known.unset.clear();
        apply(Some(&mut known)).await;
        assert_eq!(stored().await, (5, 6, Some(2)), "the store has lost its settings");
        operator(9, Some(7)).await;
        apply(None).await;
        assert_eq!(stored().await, (5, 6, Some(2)), "at startup the file wins");
        reporter.finish().await;
    }

    #[tokio::test]
    async fn settings_of_a_group_are_replaced_at_startup_only() {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        let (group, reporter) = (GroupId::new("g").unwrap(), Reporter::start(false));
        let weight = |weight| GroupPatch { weight: Weight::new(weight).ok(), ..GroupPatch::default() };
        let mut known = KnownSettings::default();
        let stored = async |known: Option<&mut KnownSettings>| {
            set_group(&fairlane, &group, &weight(3), known, &reporter).await.unwrap();
            let view = fairlane.group(&group).view().await.unwrap();
            view.expect("the group has settings").settings.weight.get()
        };
        assert_eq!(stored(Some(&mut known)).await, 3, "an empty store gets the settings of the file");
        fairlane.group(&group).weight(7).apply().await.unwrap();
        assert_eq!(stored(Some(&mut known)).await, 7, "what an operator has stored stays after an outage");
        assert_eq!(stored(None).await, 3, "at startup the file wins");
        reporter.finish().await;
    }

    #[tokio::test]
    async fn a_start_does_not_open_a_type_that_a_retry_after_has_closed() {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        let (type_id, rate) = (TypeId::new("mail").unwrap(), Rate::new(100, 1000, None).unwrap());
        let reporter = Reporter::start(false);
        let set = async |rate| {
            set_type(&fairlane, &type_id, Some(Some(rate)), Some(3), None, &reporter).await.unwrap()
        };
        set(rate).await;
        fairlane.enqueue(Job::new("g", "mail", &1)).await.unwrap().accepted().unwrap();
        let leases = fairlane.leases();
        let jobs = leases.leaser("w", ["mail"]).unwrap().lease(1, Duration::ZERO).await.unwrap();
        let throttled = Outcome::throttled(Some(Duration::from_secs(60)));
        leases.settle([throttled.settlement(&jobs[0])]).await.unwrap();
        assert!(is_closed(&fairlane, &type_id).await);
        set(rate).await;
        assert!(is_closed(&fairlane, &type_id).await, "the file contains the current values");
        set(Rate::new(50, 1000, None).unwrap()).await;
        assert!(!is_closed(&fairlane, &type_id).await, "the file was changed");
        reporter.finish().await;
    }
}
