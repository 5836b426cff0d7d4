//! The counts over all groups, added up in pages.
//!
//! A sum over pages is exact only while nothing changes. So a sum that agrees is right; one that differs twice in the
//! same way is wrong; and one that differs each time belongs to a queue at work, whose counts are recounted in one
//! step only where that step is short.

use super::{PAGE, Walk};
use crate::engine::EngineError;

/// Times the sums are compared with the counts.
const PASSES_MAX: usize = 3;
/// Groups and chunks together that a step counts in a few milliseconds.
const COUNTED_AT_ONCE_MAX: u64 = 4000;
const CHUNKS_PAGE: usize = 100;

impl Walk<'_> {
    /// Whether the counts over all groups must be counted again in one step.
    pub(super) async fn are_counts_odd(&self) -> Result<bool, EngineError> {
        let mut before = None;
        for _ in 0..PASSES_MAX {
            let difference = self.count_difference().await?;
            if difference == (0, 0, 0) {
                return Ok(false);
            }
            if before == Some(difference) {
                return Ok(true);
            }
            before = Some(difference);
        }
        let groups = self.number("ZCARD", "active-groups", &[]).await?;
        let chunks = self.number("LLEN", "completed", &[]).await?;
        Ok(groups + chunks <= COUNTED_AT_ONCE_MAX)
    }

    /// By how much the backlog, the finished jobs and the stored bytes differ from what groups and chunks add up to.
    async fn count_difference(&self) -> Result<(i64, i64, i64), EngineError> {
        let backlog = self.sum("backlogs", "", PAGE).await?;
        let completed = self.sum("chunks", "completed", CHUNKS_PAGE).await?;
        let bytes = self.sum_bytes().await?;
        let stored = self.texts("HMGET", "partition", &["backlog", "completed", "stored_bytes"]).await?;
        let stored = |index: usize| stored[index].parse().unwrap_or(0);
        Ok((stored(0) - backlog, stored(1) - completed, stored(2) - bytes))
    }

    /// The stored bytes of the groups that the walk knows.
    async fn sum_bytes(&self) -> Result<i64, EngineError> {
        let names: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let mut sum = 0;
        for page in names.chunks(PAGE) {
            let request = ["", "page", "stored_bytes", "", "0", "0"];
            let (_, words) = self.page_of(&[&request, page].concat()).await?;
            sum += words.first().and_then(|word| word.parse::<i64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    async fn sum(&self, source: &str, name: &str, count: usize) -> Result<i64, EngineError> {
        let (mut sum, mut cursor) = (0, Some("0".to_owned()));
        while let Some(at) = cursor {
            let (next, words) = self.page(source, name, &at, count).await?;
            sum += words.first().and_then(|word| word.parse::<i64>().ok()).unwrap_or(0);
            cursor = next;
        }
        Ok(sum)
    }
}
