//! One group: its share, its limits, and how it stands.

use std::sync::Arc;

use fairlane_core::queue::{
    BulkView, CongestionView, GroupPatch, GroupSettings, GroupView, Inspect, Inspected, SetGroup,
};
use fairlane_core::{GroupId, Rate, Weight};
use fairlane_engine::Engine;

use crate::error::Error;
use crate::fairlane::broken;
use crate::rate::{InvalidRate, parse_rate};

/// One group (customer), made with [`Fairlane::group`](crate::Fairlane::group).
///
/// What is said with its methods holds from [`apply`](Self::apply) on; what is not said stays as it is.
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

/// What can be given as a rate: a [`Rate`], or words such as `"50/s"`, `"10/min"` or `"500/s burst 20"`.
pub trait IntoRate {
    /// The rate, if it is one.
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

    /// Its share relative to other groups, 1 to 1000.
    pub fn weight(self, weight: u32) -> Self {
        Self { weight: Some(weight), ..self }
    }

    /// Its rate over all types.
    pub fn rate(self, rate: impl IntoRate) -> Self {
        Self { rate: Some(rate.into_rate()), ..self }
    }

    /// No rate of its own.
    pub fn no_rate(mut self) -> Self {
        (self.rate, self.patch.rate) = (None, Some(None));
        self
    }

    /// Its jobs that run at once.
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.patch.concurrency = Some(Some(concurrency));
        self
    }

    /// No concurrency limit of its own.
    pub fn no_concurrency(mut self) -> Self {
        self.patch.concurrency = Some(None);
        self
    }

    /// Added to its score under the discipline `classic`, in milliseconds of age.
    pub fn base_priority(mut self, base_priority: i64) -> Self {
        self.patch.base_priority = Some(base_priority);
        self
    }

    /// Nothing of it starts until it is resumed.
    pub fn pause(mut self) -> Self {
        self.patch.paused = Some(true);
        self
    }

    /// Its jobs start again.
    pub fn resume(mut self) -> Self {
        self.patch.paused = Some(false);
        self
    }

    /// Forgets what is recorded of its congestion; jobs and counts stay.
    pub fn reset_congestion(self) -> Self {
        Self { reset_congestion: true, ..self }
    }

    /// Sets what was said, and gives what holds now.
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
        Ok(self.engine.set_group(command).await?.settings)
    }

    /// How it stands; none if nothing is known of it.
    pub async fn view(&self) -> Result<Option<GroupView>, Error> {
        match self.engine.inspect(Inspect::Group(GroupId::new(&self.name)?)).await? {
            Inspected::Group(view) => Ok(view),
            _ => Err(broken("inspect was answered with something else")),
        }
    }

    /// How crowded it is; none if nothing is known of it.
    pub async fn congestion(&self) -> Result<Option<CongestionView>, Error> {
        match self.engine.inspect(Inspect::Congestion(GroupId::new(&self.name)?)).await? {
            Inspected::Congestion(view) => Ok(view),
            _ => Err(broken("inspect was answered with something else")),
        }
    }

    /// A page of at most `limit` (up to 500) of its bulk actions in the order they were opened, and where the next
    /// page begins; the first begins after 0.
    pub async fn bulks(&self, after: u64, limit: usize) -> Result<(Vec<BulkView>, Option<u64>), Error> {
        self.bulks_page(after, limit, false).await
    }

    /// The same of those that have not ended; however many have, they cost nothing.
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
        match self.engine.inspect(Inspect::Bulks { group, after, limit, unfinished }).await? {
            Inspected::Bulks { bulks, next } => Ok((bulks, next)),
            _ => Err(broken("inspect was answered with something else")),
        }
    }
}
