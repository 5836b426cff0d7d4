//! The counts of the queue, summed over pages.
//!
//! A sum over pages is exact only while nothing changes. A sum that agrees is therefore right, and
//! one that differs twice by the same amount is wrong. One that differs by another amount each time
//! belongs to a busy queue, which is recounted in one step only if that step is short.

use super::{PAGE, Scan};
use crate::engine::EngineError;

/// Most comparisons of the sums with the counts.
const PASSES_MAX: usize = 3;
/// Most groups and chunks together that one step counts, which takes a few milliseconds.
const COUNTED_AT_ONCE_MAX: u64 = 4000;
const CHUNKS_PAGE: usize = 100;

impl Scan<'_> {
    /// Whether the counts of the queue must be recounted in one step.
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

    /// The differences of the backlog, the finished jobs and the stored bytes from the sums over
    /// groups and chunks.
    async fn count_difference(&self) -> Result<(i64, i64, i64), EngineError> {
        let backlog = self.sum("backlogs", "", PAGE).await?;
        let completed = self.sum("chunks", "completed", CHUNKS_PAGE).await?;
        let bytes = self.sum_bytes().await?;
        let stored = self.texts("HMGET", "partition", &["backlog", "completed", "stored_bytes"]).await?;
        let stored = |index: usize| stored[index].parse().unwrap_or(0);
        Ok((stored(0) - backlog, stored(1) - completed, stored(2) - bytes))
    }

    /// The sum of the stored bytes of the groups in the scan.
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
