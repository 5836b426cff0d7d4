//! A handle to a type of job: the limits of its downstream, and its view.

use std::sync::Arc;

use fairlane_core::queue::{
    InspectType, RemoveType, SetType, TypePatch, TypeRemoved, TypeSet, TypeSettings, TypeView,
};
use fairlane_core::{Rate, TypeId};
use fairlane_engine::Engine;

use crate::error::Error;
use crate::group::IntoRate;
use crate::rate::InvalidRate;

/// A handle to a type of job, made with [`Fairlane::job_type`](crate::Fairlane::job_type).
///
/// Its methods collect changes, which [`apply`](Self::apply) sends. Settings without a change stay
/// as they are.
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

    /// Sets the rate that its downstream allows.
    pub fn rate(self, rate: impl IntoRate) -> Self {
        Self { rate: Some(rate.into_rate()), ..self }
    }

    /// Removes its rate.
    pub fn no_rate(mut self) -> Self {
        (self.rate, self.patch.rate) = (None, Some(None));
        self
    }

    /// Sets the most jobs of the type that run concurrently, over all workers.
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.patch.concurrency = Some(Some(concurrency));
        self
    }

    /// Removes its concurrency limit.
    pub fn no_concurrency(mut self) -> Self {
        self.patch.concurrency = Some(None);
        self
    }

    /// Sets the number of retries before a job of the type is dead.
    pub fn max_retry_count(mut self, max_retry_count: u32) -> Self {
        self.patch.max_retry_count = Some(Some(max_retry_count));
        self
    }

    /// Uses the number of retries that the queue's settings give.
    pub fn default_max_retry_count(mut self) -> Self {
        self.patch.max_retry_count = Some(None);
        self
    }

    /// Pauses the type: none of its jobs starts until it is resumed.
    pub fn pause(mut self) -> Self {
        self.patch.paused = Some(true);
        self
    }

    /// Resumes the type: its jobs start again.
    pub fn resume(mut self) -> Self {
        self.patch.paused = Some(false);
        self
    }

    /// Replaces the collected changes by this patch.
    pub fn patch(self, patch: TypePatch) -> Self {
        Self { patch, rate: None, ..self }
    }

    /// Applies the changes, and returns the resulting settings.
    pub async fn apply(self) -> Result<TypeSettings, Error> {
        let mut patch = self.patch;
        if let Some(rate) = self.rate {
            patch.rate = Some(Some(rate?));
        }
        let type_id = TypeId::new(&self.name)?;
        match self.engine.call(SetType { type_id, patch }).await? {
            TypeSet::Set(settings) => Ok(settings),
            TypeSet::TooManyTypes => Err(Error::TooManyTypes(self.name)),
        }
    }

    /// Removes the type with its settings; false if there is no such type. Refused while it has
    /// jobs that have not ended, or dead jobs.
    pub async fn remove(&self) -> Result<bool, Error> {
        let type_id = TypeId::new(&self.name)?;
        loop {
            match self.engine.call(RemoveType { type_id: type_id.clone() }).await? {
                TypeRemoved::Removed => return Ok(true),
                TypeRemoved::Unknown => return Ok(false),
                TypeRemoved::HasJobs { jobs } => {
                    return Err(Error::TypeHasJobs { type_name: self.name.clone(), jobs });
                }
                TypeRemoved::Again => {}
            }
        }
    }

    /// The current state of the type; `None` if there is no such type.
    pub async fn view(&self) -> Result<Option<TypeView>, Error> {
        Ok(self.engine.call(InspectType { type_id: TypeId::new(&self.name)? }).await?)
    }
}
