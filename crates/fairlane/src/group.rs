//! A handle to a group: its share, its limits and its view.

use std::sync::Arc;

use fairlane_core::limits::MAKE_DUE_JOBS_MAX;
use fairlane_core::queue::{
    BulkView, CongestionView, GroupPatch, GroupSettings, GroupView, InspectCongestion, InspectGroup,
    ListBulks, ListSnapshots, MadeDue, MakeDue, SetGroup, Snapshot,
};
use fairlane_core::{GroupId, Rate, Weight};
use fairlane_engine::Engine;

use crate::error::Error;
use crate::rate::{InvalidRate, parse_rate};

/// Pages of waiting jobs that one [`Group::make_due`] scans.
const MAKE_DUE_PAGES_MAX: usize = 200;

/// A handle to a group (customer), made with [`Fairlane::group`](crate::Fairlane::group).
///
/// Its methods collect changes, which [`apply`](Self::apply) sends. Settings without a change stay
/// as they are.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// # let fairlane = fairlane::Fairlane::open("memory:").await?;
/// let settings = fairlane.group("customer-7").weight(3).rate("50/s").concurrency(10).apply().await?;
/// assert_eq!(settings.weight.get(), 3);
/// assert!(fairlane.group("customer-7").pause().apply().await?.paused);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Group {
    engine: Arc<dyn Engine>,
    name: String,
    patch: GroupPatch,
    weight: Option<u32>,
    rate: Option<Result<Rate, InvalidRate>>,
    reset_congestion: bool,
}

/// A value that can be used as a rate: a [`Rate`], or text such as `"50/s"`, `"10/min"` or
/// `"500/s burst 20"`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rate",
    note = "write a rate as text with its period, such as \"50/s\" or \"10/min\""
)]
pub trait IntoRate {
    /// Converts it into a rate; an error if it is not one.
    fn into_rate(self) -> Result<Rate, InvalidRate>;
}

impl IntoRate for Rate {
    fn into_rate(self) -> Result<Rate, InvalidRate> {
        Ok(self)
    }
}

impl IntoRate for &str {
    fn into_rate(self) -> Result<Rate, InvalidRate> {
        parse_rate(self)
    }
}

impl Group {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: String) -> Self {
        let patch = GroupPatch::default();
        Self { engine, name, patch, weight: None, rate: None, reset_congestion: false }
    }

    /// Sets its share relative to other groups, 1 to 1000.
    pub fn weight(self, weight: u32) -> Self {
        Self { weight: Some(weight), ..self }
    }

    /// Sets its rate over all types.
    pub fn rate(self, rate: impl IntoRate) -> Self {
        Self { rate: Some(rate.into_rate()), ..self }
    }

    /// Removes its rate.
    pub fn no_rate(mut self) -> Self {
        (self.rate, self.patch.rate) = (None, Some(None));
        self
    }

    /// Sets the most jobs of the group that run concurrently.
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.patch.concurrency = Some(Some(concurrency));
        self
    }

    /// Removes its concurrency limit.
    pub fn no_concurrency(mut self) -> Self {
        self.patch.concurrency = Some(None);
        self
    }

    /// Sets the age in milliseconds that is added to its score under the discipline `classic`.
    pub fn base_priority(mut self, base_priority: i64) -> Self {
        self.patch.base_priority = Some(base_priority);
        self
    }

    /// Pauses the group: none of its jobs starts until it is resumed.
    pub fn pause(mut self) -> Self {
        self.patch.paused = Some(true);
        self
    }

    /// Resumes the group: its jobs start again.
    pub fn resume(mut self) -> Self {
        self.patch.paused = Some(false);
        self
    }

    /// Replaces the collected changes by this patch.
    pub fn patch(self, patch: GroupPatch) -> Self {
        Self { patch, weight: None, rate: None, ..self }
    }

    /// Clears the record of its congestion; jobs and counts stay.
    pub fn reset_congestion(self) -> Self {
        Self { reset_congestion: true, ..self }
    }

    /// Applies the changes, and returns the resulting settings.
    pub async fn apply(self) -> Result<GroupSettings, Error> {
        let mut patch = self.patch;
        if let Some(weight) = self.weight {
            patch.weight = Some(Weight::new(weight)?);
        }
        if let Some(rate) = self.rate {
            patch.rate = Some(Some(rate?));
        }
        let group = GroupId::new(&self.name)?;
        let command = SetGroup { group, patch, reset_congestion: self.reset_congestion };
        Ok(self.engine.call(command).await?.settings)
    }

    /// The current state and counts of the group; `None` if there is no such group.
    pub async fn view(&self) -> Result<Option<GroupView>, Error> {
        Ok(self.engine.call(InspectGroup { group: GroupId::new(&self.name)? }).await?)
    }

    /// The congestion of the group; `None` if there is no such group.
    pub async fn congestion(&self) -> Result<Option<CongestionView>, Error> {
        Ok(self.engine.call(InspectCongestion { group: GroupId::new(&self.name)? }).await?)
    }

    /// The congestion of the group over time: its latest snapshots, at most `limit`, oldest first;
    /// empty if there is no such group.
    pub async fn congestion_history(&self, limit: usize) -> Result<Vec<Snapshot>, Error> {
        Ok(self.engine.call(ListSnapshots { group: GroupId::new(&self.name)?, limit }).await?)
    }

    /// Makes its waiting jobs due now: delayed ones, and those that wait for a retry. Scans at most
    /// 100,000 waiting jobs of all groups; the reply says where to continue. The cursor of the
    /// first call is 0.
    pub async fn make_due(&self, cursor: u64) -> Result<MadeDue, Error> {
        let group = Some(GroupId::new(&self.name)?);
        let mut all = MadeDue { moved: 0, next: Some(cursor) };
        for _ in 0..MAKE_DUE_PAGES_MAX {
            let Some(cursor) = all.next else { break };
            let command = MakeDue { group: group.clone(), cursor, jobs_max: MAKE_DUE_JOBS_MAX };
            let made = self.engine.call(command).await?;
            all = MadeDue { moved: all.moved + made.moved, next: made.next };
        }
        Ok(all)
    }

    /// A page of at most `limit` (up to 500) of its bulk actions in the order they were opened, and
    /// the cursor of the next page. The first page is after 0.
    pub async fn bulks(&self, after: u64, limit: usize) -> Result<(Vec<BulkView>, Option<u64>), Error> {
        self.bulks_page(after, limit, false).await
    }

    /// As [`bulks`](Self::bulks), but only bulk actions that have not ended; ended ones cost
    /// nothing.
    pub async fn unfinished_bulks(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<BulkView>, Option<u64>), Error> {
        self.bulks_page(after, limit, true).await
    }

    async fn bulks_page(
        &self,
        after: u64,
        limit: usize,
        unfinished: bool,
    ) -> Result<(Vec<BulkView>, Option<u64>), Error> {
        let group = GroupId::new(&self.name)?;
        let page = self.engine.call(ListBulks { group, after, limit, unfinished }).await?;
        Ok((page.bulks, page.next))
    }
}
