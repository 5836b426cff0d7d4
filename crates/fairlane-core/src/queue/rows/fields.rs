//! Converts settings and counters of the queue to named texts and back.
//!
//! A missing name reads as its default, so that new versions open rows of older ones.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::congestion::Congestion;
use crate::kernel::row::Damage;
use crate::names::TypeId;
use crate::numbers::OutOfRange;
use crate::queue::settings::{Discipline, LevelOrder, Settings};
use crate::queue::{Finished, Machine};
use crate::rate::{Bucket, Rate};

/// The name of the time of the last command.
pub(super) const TIME: &str = "time";

impl Machine {
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = self.settings.fields();
        let sweeping: Vec<String> = self.sweeping.iter().map(u64::to_string).collect();
        let cursor = self.cursor.map_or(String::new(), |key| self.types[key].name.to_string());
        fields.extend([
            (TIME, self.now.0.to_string()),
            ("fence", self.fence.0.to_string()),
            ("sequence", self.sequence.to_string()),
            ("created", self.created.to_string()),
            ("cursor", cursor),
            ("bucket", format!("{}:{}", self.bucket.level, self.bucket.at.0)),
            ("reclaimed_at", self.reclaimed_at.map_or(String::new(), |at| at.0.to_string())),
            ("grace_until", self.reclaim_grace_until.0.to_string()),
            ("completed_chunk", next_chunk(&self.completed).to_string()),
            ("opened", self.opened.to_string()),
            ("epochs", self.epochs.to_string()),
            ("window", format!("{}:{}", self.window.0, self.window.1)),
            ("saved_spins", self.saved_spins.to_string()),
            ("succeeded_total", self.succeeded_total.to_string()),
            ("dead_total", self.dead_total.to_string()),
            ("sweeping", sweeping.join(" ")),
        ]);
        fields
    }

    /// Sets every field but the cursor, which names a type that is not restored yet.
    pub(super) fn set_fields(&mut self, fields: &Fields) -> Result<(), Damage> {
        self.settings = fields.settings()?;
        self.now = fields.bounded(TIME)?;
        self.fence = fields.bounded("fence")?;
        self.sequence = fields.number("sequence", 0)?;
        self.created = fields.number("created", 0)?;
        if let Some(text) = fields.text("bucket") {
            let [level, at] = fields.numbers("bucket", text)?;
            self.bucket = Bucket { level, at: in_bounds("bucket", at)? };
        }
        let reclaimed_at = fields.text("reclaimed_at").filter(|text| !text.is_empty());
        self.reclaimed_at = reclaimed_at.map(|_| fields.bounded("reclaimed_at")).transpose()?;
        self.reclaim_grace_until = fields.bounded("grace_until")?;
        self.opened = fields.number("opened", 0)?;
        self.epochs = fields.number("epochs", 0)?;
        if let Some(text) = fields.text("window") {
            let [second, jobs] = fields.numbers("window", text)?;
            self.window = (second, jobs);
        }
        self.saved_spins = fields.number("saved_spins", 0)?;
        self.succeeded_total = fields.number("succeeded_total", 0)?;
        self.dead_total = fields.number("dead_total", 0)?;
        let sweeping = fields.text("sweeping").unwrap_or_default().split_whitespace().map(str::parse);
        self.sweeping =
            sweeping.collect::<Result<_, _>>().map_err(|_| Damage::new("what is swept is unclear"))?;
        Ok(())
    }
}

/// The number of the next chunk, which does not restart when all chunks were removed.
fn next_chunk(finished: &Finished) -> u64 {
    finished.popped + finished.chunks.len() as u64
}

fn in_bounds<T: TryFrom<u64, Error = OutOfRange>>(name: &str, number: u64) -> Result<T, Damage> {
    number.try_into().map_err(|error| Damage::new(format!("{name} of the queue: {error}")))
}

/// Named texts, as read from a store.
#[derive(Debug, Default)]
pub(super) struct Fields(pub BTreeMap<String, String>);

impl Fields {
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub fn cursor(&self) -> Result<Option<TypeId>, Damage> {
        let named = self.text("cursor").filter(|text| !text.is_empty());
        named.map(TypeId::new).transpose().map_err(|error| Damage::new(format!("the cursor: {error}")))
    }

    /// The number of the next chunk of completed jobs.
    pub fn next_chunk(&self) -> Result<u64, Damage> {
        self.number("completed_chunk", 0)
    }

    fn number<T: FromStr>(&self, name: &str, absent: T) -> Result<T, Damage> {
        let Some(text) = self.text(name) else { return Ok(absent) };
        text.parse().map_err(|_| Damage::new(format!("{name} of the queue is {text:?}, not a number")))
    }

    /// A number whose type has its own bounds; 0 if it is absent.
    fn bounded<T: TryFrom<u64, Error = OutOfRange>>(&self, name: &str) -> Result<T, Damage> {
        in_bounds(name, self.number(name, 0)?)
    }

    fn numbers<const N: usize>(&self, name: &str, text: &str) -> Result<[u64; N], Damage> {
        let parsed: Vec<u64> = text.split(':').map_while(|part| part.parse().ok()).collect();
        parsed.try_into().map_err(|_| Damage::new(format!("{name} of the queue is {text:?}")))
    }

    fn settings(&self) -> Result<Settings, Damage> {
        let absent = Settings::default();
        let rate = match self.text("rate").map(|text| self.numbers("rate", text)).transpose()? {
            None | Some([0, 0, 0]) => None,
            Some([count, period_ms, burst]) => Some(
                Rate::new(count, period_ms, Some(burst))
                    .map_err(|error| Damage::new(format!("the rate of the queue: {error}")))?,
            ),
        };
        let strict = self.number("strict", 0_u8)? != 0;
        let classic = self.number("classic", 0_u8)? != 0;
        let congestion = Congestion {
            enabled: self.number("congestion_enabled", u8::from(absent.congestion.enabled))? != 0,
            base_backoff_ms: self.number("base_backoff_ms", absent.congestion.base_backoff_ms)?,
            max_backoff_ms: self.number("max_backoff_ms", absent.congestion.max_backoff_ms)?,
            stats_retention_ms: self.number("stats_retention_ms", absent.congestion.stats_retention_ms)?,
        };
        Ok(Settings {
            discipline: if classic { Discipline::Classic } else { Discipline::Share },
            alpha: self.number("alpha", absent.alpha)?,
            global_rps: self.number("global_rps", absent.global_rps)?,
            ready_queue_max_size: self.number("ready_queue_max_size", absent.ready_queue_max_size)?,
            congestion,
            bulk_retention_ms: self.number("bulk_retention_ms", absent.bulk_retention_ms)?,
            rate,
            levels: if strict { LevelOrder::Strict } else { LevelOrder::Weighted },
            max_retry_count: self.number("max_retry_count", absent.max_retry_count)?,
            max_throttle_count: self.number("max_throttle_count", absent.max_throttle_count)?,
            max_loss_count: self.number("max_loss_count", absent.max_loss_count)?,
            group_backlog_max: self.number("group_backlog_max", absent.group_backlog_max)?,
            queue_backlog_max: self.number("whole_backlog_max", absent.queue_backlog_max)?,
            group_stored_bytes_max: self.number("group_stored_bytes_max", absent.group_stored_bytes_max)?,
            stored_bytes_max: self.number("stored_bytes_max", absent.stored_bytes_max)?,
            completed_retention_ms: self.number("completed_retention_ms", absent.completed_retention_ms)?,
            failed_retention_ms: self.number("failed_retention_ms", absent.failed_retention_ms)?,
            completed_kept_max: self.number("completed_kept_max", absent.completed_kept_max)?,
            failed_kept_max: self.number("failed_kept_max", absent.failed_kept_max)?,
        })
    }
}
