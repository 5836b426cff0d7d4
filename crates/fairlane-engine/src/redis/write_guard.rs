//! The conditions for a write: the user may run every command of the scripts, the layout is ours,
//! and no group that the write affects was left half written.
//!
//! The first two are checked on every new connection before its first write, so that reading
//! writes nothing. A script that fails midway is not rolled back. The groups that it affected
//! are remembered here, and audited and repaired before the next write that affects them. A
//! group that cannot be repaired blocks only the commands that name it, and the repair is
//! retried after a pause.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::redis::{RedisError, Value};
use fairlane_core::queue::{self, *};
use fairlane_core::{Command, GroupId};

use super::codec::text;
use super::connection::Link;
use super::errors::{self, unavailable};
use super::{RedisEngine, startup};
use crate::engine::{Engine, EngineError};
use crate::observe;

const PROBE: &str = include_str!("probe.lua");
/// A number that no connection has.
const NONE: u64 = 0;
/// The pause after a failed repair.
const REPAIR_PAUSE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct WriteGuard {
    /// The number of the connection that was checked.
    checked: AtomicU64,
    half_written: Mutex<HalfWritten>,
    /// Held while a connection is checked.
    checking: tokio::sync::Mutex<()>,
    /// Held during a repair. Another lock than `checking`, because the commands of a repair may
    /// need a new connection.
    repairing: tokio::sync::Mutex<()>,
}

/// What scripts that failed midway may have left inconsistent.
#[derive(Default, Clone)]
struct HalfWritten {
    /// Whether a script failed that chooses its groups itself, so that everything is in doubt.
    everything: bool,
    suspects: BTreeSet<Suspect>,
    /// When the last repair failed, with the reason.
    failed: Option<(Instant, String)>,
}

/// How a command relates to what is in doubt.
#[derive(PartialEq)]
enum Concern {
    /// The command does not touch it.
    None,
    /// The command may touch it: a repair is attempted first.
    Some,
    /// The command names it: it fails unless the repair succeeds.
    Named,
}

impl HalfWritten {
    fn concern(&self, command: &Command) -> Concern {
        let is_clear = !self.everything && self.suspects.is_empty();
        // A repair is itself a write. Settle and extend are decided by fences alone.
        let Some(command) = command.queue().filter(|_| !is_clear) else { return Concern::None };
        if matches!(command, queue::Command::Audit(_)) {
            return Concern::None;
        }
        let touched = suspects_of(command);
        let named = |group: &GroupId| touched.iter().flatten().any(|one| one.group() == Some(group));
        if self.suspects.iter().filter_map(Suspect::group).any(named) {
            return Concern::Named;
        }
        let is_about_leases = matches!(
            command,
            queue::Command::Settle(_) | queue::Command::Extend(_) | queue::Command::ReportProgress(_)
        );
        let chooses = touched.is_none();
        if !is_about_leases && (self.everything || chooses) { Concern::Some } else { Concern::None }
    }

    /// Why the last repair failed, if that was less than [`REPAIR_PAUSE`] ago.
    fn failed_lately(&self) -> Option<&str> {
        let (at, reason) = self.failed.as_ref()?;
        (at.elapsed() < REPAIR_PAUSE).then_some(&**reason)
    }
}

impl WriteGuard {
    fn half_written(&self) -> MutexGuard<'_, HalfWritten> {
        self.half_written.lock().expect("nothing panics while it holds what is in doubt")
    }

    /// A link on which this command may write.
    pub async fn prepare(&self, engine: &RedisEngine, command: &Command) -> Result<Link, EngineError> {
        let link = engine.commands.link().await?;
        if self.checked.load(Ordering::Acquire) != link.number {
            let _checking = self.checking.lock().await;
            if self.checked.load(Ordering::Acquire) != link.number {
                probe(engine, &link).await?;
                startup::mark_layout(&link, &engine.keys).await?;
                self.checked.store(link.number, Ordering::Release);
            }
        }
        if self.half_written().concern(command) != Concern::None {
            self.repair(engine, command).await?;
        }
        Ok(link)
    }

    /// Repairs what is in doubt. Fails if the repair does and the command names it.
    async fn repair(&self, engine: &RedisEngine, command: &Command) -> Result<(), EngineError> {
        let _repairing = self.repairing.lock().await;
        let doubt = self.half_written().clone();
        let concern = doubt.concern(command);
        if concern == Concern::None {
            return Ok(());
        }
        let reason = match doubt.failed_lately() {
            Some(reason) => reason.to_owned(),
            None => match self.try_repair(engine, &doubt).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    observe::half_written_not_repaired(&error);
                    let reason = reason_of(&error);
                    self.half_written().failed = Some((Instant::now(), reason.clone()));
                    reason
                }
            },
        };
        match concern {
            Concern::Named => Err(unavailable(format!(
                "a group of this command was left half written and cannot be repaired: {reason}; `fairlane audit` \
                 shows what is wrong with it"
            ))),
            Concern::Some | Concern::None => Ok(()),
        }
    }

    async fn try_repair(&self, engine: &RedisEngine, doubt: &HalfWritten) -> Result<(), EngineError> {
        let engine: &dyn Engine = engine;
        let report = match doubt.everything {
            true => engine.audit_all(true, |_| {}).await?,
            false => engine.repair(&with_owners(engine, doubt.suspects.clone()).await?).await?,
        };
        observe::half_written_repaired(report.findings.len(), &report.too_large);
        let mut left = self.half_written();
        left.failed = None;
        left.everything &= !doubt.everything;
        left.suspects.retain(|suspect| !doubt.suspects.contains(suspect));
        Ok(())
    }

    /// The meaning of a script's error for the caller; remembers what the script leaves in doubt.
    pub fn failed(&self, link: &Link, command: &Command, stem: &str, error: &RedisError) -> EngineError {
        let meaning = link.explain(error);
        if command.is_read_only() {
            return meaning;
        }
        if errors::is_permission(error) {
            self.checked.store(NONE, Ordering::Release);
        }
        // A failed repair leaves its suspects remembered.
        if !errors::is_midway(error) || matches!(command.queue(), Some(queue::Command::Audit(_))) {
            return meaning;
        }
        let mut doubt = self.half_written();
        match command.queue().map(suspects_of) {
            Some(Some(suspects)) => doubt.suspects.extend(suspects),
            Some(None) => doubt.everything = true,
            None => {}
        }
        let reason = format!(
            "{stem} failed midway and may be half done; the groups it concerns are audited and repaired before \
             their next write: {}",
            reason_of(&meaning)
        );
        if meaning.is_retryable() { unavailable(reason) } else { EngineError::broken(reason) }
    }
}

fn reason_of(error: &EngineError) -> String {
    match error {
        EngineError::Unavailable { reason, .. }
        | EngineError::Refused { reason }
        | EngineError::Broken { reason } => reason.clone(),
        EngineError::Invalid(invalid) => invalid.to_string(),
    }
}

/// The suspects for a command: what it names, and the counts that it may change. `None` if it
/// chooses its jobs itself.
fn suspects_of(command: &queue::Command) -> Option<BTreeSet<Suspect>> {
    use queue::Command;
    let (mut suspects, mut groups) = (BTreeSet::from([Suspect::Queue]), BTreeSet::new());
    let mut add_job = |job: &JobRef| {
        suspects.insert(Suspect::Job(job.clone()));
        groups.insert(job.group.clone());
    };
    match command {
        Command::Enqueue(enqueue) => enqueue.jobs.iter().for_each(|new| add_job(&new.job)),
        Command::CancelJob(CancelJob { jobs })
        | Command::RequeueDead(RequeueDead { jobs })
        | Command::Discard(Discard { jobs }) => jobs.iter().for_each(add_job),
        Command::Settle(settle) => {
            settle.settlements.iter().for_each(|one| add_job(&one.job));
            suspects.extend(settle.settlements.iter().map(|one| Suspect::Lease(one.fence)));
        }
        Command::Extend(extend) => {
            extend.leases.iter().for_each(|(job, _)| add_job(job));
            suspects.extend(extend.leases.iter().map(|(_, fence)| Suspect::Lease(*fence)));
        }
        Command::ReportProgress(report) => report.reports.iter().for_each(|one| add_job(&one.job)),
        Command::SetGroup(set) => drop(groups.insert(set.group.clone())),
        Command::SetType(set) => drop(suspects.insert(Suspect::Type(set.type_id.clone()))),
        Command::SetQueue(_) => {}
        Command::OpenBulk(OpenBulk { bulk, .. })
        | Command::SealBulk(SealBulk { bulk, .. })
        | Command::HoldBulk(HoldBulk { bulk })
        | Command::ResumeBulk(ResumeBulk { bulk })
        | Command::CancelBulk(CancelBulk { bulk }) => {
            groups.insert(bulk.group.clone());
            suspects.insert(Suspect::Bulk(bulk.clone()));
        }
        Command::SettleBulk(SettleBulk { bulk, callback, .. }) => {
            if let Some(Callback { id, .. }) = callback {
                add_job(&JobRef { group: bulk.group.clone(), id: id.clone() });
            }
            groups.insert(bulk.group.clone());
            suspects.insert(Suspect::Bulk(bulk.clone()));
        }
        _ => return None,
    }
    suspects.extend(groups.into_iter().flat_map(counts_of));
    Some(suspects)
}

fn counts_of(group: GroupId) -> [Suspect; 2] {
    [Suspect::Group(group.clone()), Suspect::Backlog(group)]
}

/// The suspects, with the types and bulk actions of the jobs among them.
async fn with_owners(engine: &dyn Engine, suspects: BTreeSet<Suspect>) -> Result<Vec<Suspect>, EngineError> {
    let mut all = suspects.clone();
    for suspect in suspects {
        let Suspect::Job(job) = suspect else { continue };
        if let Some(view) = engine.call(InspectJob { job }).await? {
            all.insert(Suspect::Type(view.type_id));
            all.extend(view.bulk.map(|id| Suspect::Bulk(BulkRef { group: view.job.group, id })));
        }
    }
    Ok(all.into_iter().collect())
}

/// Runs every command that the scripts use on a scratch key.
async fn probe(engine: &RedisEngine, link: &Link) -> Result<(), EngineError> {
    let mut run = ::redis::cmd("EVAL");
    run.arg(PROBE).arg(1).arg(engine.keys.probe());
    let failed = match link.query(&run).await? {
        Value::Array(items) => items.into_iter().map(text).collect::<Result<Vec<_>, _>>()?,
        other => return Err(EngineError::broken(format!("the probe was answered with {other:?}"))),
    };
    let failed: Vec<(&str, &str)> = failed.chunks_exact(2).map(|pair| (&*pair[0], &*pair[1])).collect();
    match lacking(&failed, &engine.commands.user(), engine.keys.prefix()) {
        None => Ok(()),
        Some(reason) => Err(link.refuse(reason)),
    }
}

/// The missing permission, and the ACL rule that grants it.
fn lacking(failed: &[(&str, &str)], user: &str, prefix: &str) -> Option<String> {
    let (first, error) = failed.first()?;
    if error.contains("Unknown Redis command") {
        return Some(format!(
            "Redis does not know the command {first}: it was renamed or disabled (rename-command); nothing is \
             written until it is back"
        ));
    }
    if error.contains("access") && error.contains("key") {
        return Some(format!(
            "the Redis user {user} may not use the keys {prefix}*; run ACL SETUSER {user} ~{prefix}*; nothing \
             is written until then"
        ));
    }
    let mut commands: Vec<&str> = failed.iter().map(|(command, _)| *command).collect();
    commands.dedup();
    let rules: Vec<String> = commands.iter().map(|command| format!("+{}", command.to_lowercase())).collect();
    Some(format!(
        "the Redis user {user} may not run {}, which the scripts use ({error}); run ACL SETUSER {user} {}; \
         nothing is written until then",
        commands.join(", "),
        rules.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::lua::commands_of_all_scripts;

    #[test]
    fn probe_runs_every_command_the_scripts_use() {
        let probed: BTreeSet<&str> =
            PROBE.split("try('").skip(1).filter_map(|rest| rest.split('\'').next()).collect();
        let used = commands_of_all_scripts();
        assert!(used.contains("RPUSH") && used.contains("LPUSH"), "{used:?}");
        assert_eq!(probed.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), used);
    }

    #[test]
    fn missing_permission_names_command_and_acl_rule() {
        let failed = [("RPUSH", "ERR The user executing the script can't run this command or subcommand")];
        let reason = lacking(&failed, "limited", "bulk-action:").unwrap();
        assert!(reason.contains("ACL SETUSER limited +rpush"), "{reason}");
        let failed = [("DEL", "ERR The user executing the script can't access at least one of the keys")];
        let reason = lacking(&failed, "limited", "bulk-action:").unwrap();
        assert!(reason.contains("ACL SETUSER limited ~bulk-action:*"), "{reason}");
        assert_eq!(lacking(&[], "limited", "bulk-action:"), None);
    }
}
