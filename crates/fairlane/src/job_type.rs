//! One type of job: what its downstream allows, and how it stands.

use std::sync::Arc;

use fairlane_core::queue::{
    Inspect, Inspected, RemoveType, SetType, TypePatch, TypeRemoved, TypeSet, TypeSettings, TypeView,
};
use fairlane_core::{Rate, TypeId};
use fairlane_engine::Engine;

use crate::error::Error;
use crate::fairlane::broken;
use crate::group::IntoRate;
use crate::rate::InvalidRate;

/// One type of job, made with [`Fairlane::job_type`](crate::Fairlane::job_type).
///
/// What is said with its methods holds from [`apply`](Self::apply) on; what is not said stays as it is.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// # let fairlane = fairlane::Fairlane::open("memory:").await?;
/// let settings = fairlane.job_type("mail").rate("500/s burst 20").concurrency(50).max_retry_count(5).apply().await?;
/// assert_eq!(settings.concurrency, Some(50));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct JobType {
    engine: Arc<dyn Engine>,
    name: String,
    patch: TypePatch,
    rate: Option<Result<Rate, InvalidRate>>,
}

impl JobType {
    pub(crate) fn new(engine: Arc<dyn Engine>, name: String) -> Self {
        Self { engine, name, patch: TypePatch::default(), rate: None }
    }

    /// What its downstream allows.
    pub fn rate(self, rate: impl IntoRate) -> Self {
        Self { rate: Some(rate.into_rate()), ..self }
    }

    /// No rate of its own.
    pub fn no_rate(mut self) -> Self {
        (self.rate, self.patch.rate) = (None, Some(None));
        self
    }

    /// Its jobs that run at once, over all workers.
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.patch.concurrency = Some(Some(concurrency));
        self
    }

    /// No concurrency limit of its own.
    pub fn no_concurrency(mut self) -> Self {
        self.patch.concurrency = Some(None);
        self
    }

    /// Retries before one of its jobs is dead.
    pub fn max_retry_count(mut self, max_retry_count: u32) -> Self {
        self.patch.max_retry_count = Some(Some(max_retry_count));
        self
    }

    /// As many retries as the whole queue allows.
    pub fn default_max_retry_count(mut self) -> Self {
        self.patch.max_retry_count = Some(None);
        self
    }

    /// None of it starts until it is resumed.
    pub fn pause(mut self) -> Self {
        self.patch.paused = Some(true);
        self
    }

    /// Its jobs start again.
    pub fn resume(mut self) -> Self {
        self.patch.paused = Some(false);
        self
    }

    /// Sets what was said, and gives what holds now.
    pub async fn apply(self) -> Result<TypeSettings, Error> {
        let mut patch = self.patch;
        if let Some(rate) = self.rate {
            patch.rate = Some(Some(rate?));
        }
        let type_id = TypeId::new(&self.name)?;
        match self.engine.set_type(SetType { type_id, patch }).await? {
            TypeSet::Set(settings) => Ok(settings),
            TypeSet::TooManyTypes => Err(Error::TooManyTypes(self.name)),
        }
    }

    /// Removes the type with its settings; false if there is no such type. Refused while it has jobs that have not ended,
    /// or dead ones.
    pub async fn remove(&self) -> Result<bool, Error> {
        let type_id = TypeId::new(&self.name)?;
        loop {
            match self.engine.remove_type(RemoveType { type_id: type_id.clone() }).await? {
                TypeRemoved::Removed => return Ok(true),
                TypeRemoved::Unknown => return Ok(false),
                TypeRemoved::HasJobs { jobs } => {
                    return Err(Error::TypeHasJobs { type_name: self.name.clone(), jobs });
                }
                TypeRemoved::Again => {}
            }
        }
    }

    /// How it stands; none if nothing is known of it.
    pub async fn view(&self) -> Result<Option<TypeView>, Error> {
        match self.engine.inspect(Inspect::Type(TypeId::new(&self.name)?)).await? {
            Inspected::Type(view) => Ok(view),
            _ => Err(broken("inspect was answered with something else")),
        }
    }
}
