//! The steps of a job, and how to see that it has reached one.

use fairlane::JobState;

use super::Accepted;
use super::ground::Ground;

/// A step of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Its upload is under way.
    Upload,
    /// The client has the answer.
    Accepted,
    /// The relay has passed it on to the queue.
    Relayed,
    /// A worker has begun it, and the row says so.
    Running,
    /// The engine has got the prompt.
    Submitted,
    /// The engine runs the prompt.
    EngineRuns,
    /// The engine has ended the prompt.
    EngineEnded,
    /// Its end is in the database.
    Ended,
    /// Its end is in the queue.
    Settled,
    /// The relay has passed its callback on to the queue.
    CallbackRelayed,
    /// The receiver has got the callback, and has not yet answered.
    CallbackSent,
    /// The delivery of the callback is in the database.
    Delivered,
}

impl Step {
    /// All steps, in their order.
    pub const ALL: [Self; 12] = [
        Self::Upload,
        Self::Accepted,
        Self::Relayed,
        Self::Running,
        Self::Submitted,
        Self::EngineRuns,
        Self::EngineEnded,
        Self::Ended,
        Self::Settled,
        Self::CallbackRelayed,
        Self::CallbackSent,
        Self::Delivered,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Accepted => "accepted",
            Self::Relayed => "relayed",
            Self::Running => "running",
            Self::Submitted => "submitted",
            Self::EngineRuns => "engine_runs",
            Self::EngineEnded => "engine_ended",
            Self::Ended => "ended",
            Self::Settled => "settled",
            Self::CallbackRelayed => "callback_relayed",
            Self::CallbackSent => "callback_sent",
            Self::Delivered => "delivered",
        }
    }
}

/// The end that a job should have.
fn end(job: &Accepted) -> &'static str {
    if job.fails { "failed" } else { "succeeded" }
}

/// The id in the queue of the callback of a job.
pub fn callback_id(job: &Accepted) -> String {
    format!("{}-{}", job.queue_id, end(job))
}

/// Whether a job has reached a step. A store that does not reply shows nothing.
pub async fn is_reached(ground: &Ground, job: &Accepted, step: Step) -> bool {
    let (end, callback) = (end(job), callback_id(job));
    match step {
        Step::Upload | Step::Accepted => true,
        Step::Relayed => ground.state_in_queue(&job.queue_id).await.is_some(),
        Step::Running => ground.status(job.id).await.is_some_and(|status| status != "QUEUED"),
        Step::Submitted => ground.is_in_journal("submitted", &job.queue_id),
        Step::EngineRuns => ground.is_in_journal("run", &job.queue_id),
        Step::EngineEnded => ground.is_in_journal("ended", &job.queue_id),
        Step::Ended => ground.status(job.id).await.is_some_and(|status| status == end.to_uppercase()),
        Step::Settled => {
            let state = ground.state_in_queue(&job.queue_id).await;
            matches!(state, Some(JobState::Completed | JobState::Failed))
        }
        Step::CallbackRelayed => ground.state_in_queue(&callback).await.is_some(),
        Step::CallbackSent => ground.callbacks(job.round) > 0,
        Step::Delivered => ground.is_delivered(&callback).await,
    }
}
