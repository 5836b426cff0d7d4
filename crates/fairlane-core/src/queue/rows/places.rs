//! Converts the places of jobs and the standings of lanes to columns and back: a word, a time and a
//! position.

use super::{LaneRow, ProgressRow};
use crate::kernel::row::{Damage, stored_words};
use crate::numbers::Micros;
use crate::queue::Machine;
use crate::queue::job::{Held, Job, JobKey, NO_ORDER, Place, Run};
use crate::queue::lane::Standing;
use crate::queue::ops::Progress;

stored_words! {
    /// The place of a job.
    enum PlaceWord {
        /// In its lane: with a position among the returned jobs, without one in the backlog.
        Lane = "lane",
        Ready = "ready",
        OnHold = "on_hold",
        Waiting = "waiting",
        InFlight = "in_flight",
        /// Leased, and its cancellation was requested.
        InFlightCancelled = "in_flight_cancelled",
        Completed = "completed",
        /// Dead, and in the list of dead jobs.
        Failed = "failed",
        /// Dead, and kept only with its bulk action.
        FailedUnlisted = "failed_unlisted",
        Cancelled = "cancelled",
    }
}

stored_words! {
    /// The standing of a lane.
    enum StandingWord {
        Idle = "idle",
        Active = "active",
        RateParked = "rate_parked",
        SeatParked = "seat_parked",
        Paused = "paused",
        Clearing = "clearing",
    }
}

/// A value that other columns of its row require.
pub(super) fn needed<T>(value: Option<T>, column: &str) -> Result<T, Damage> {
    value.ok_or_else(|| Damage::new(format!("{column} is missing")))
}

impl Machine {
    pub(super) fn place_word(&self, key: JobKey) -> PlaceWord {
        match &self.jobs[key].place {
            Place::Lane => PlaceWord::Lane,
            Place::Ready => PlaceWord::Ready,
            Place::OnHold => PlaceWord::OnHold,
            Place::Waiting(_) => PlaceWord::Waiting,
            Place::InFlight(held) if held.cancelled => PlaceWord::InFlightCancelled,
            Place::InFlight(_) => PlaceWord::InFlight,
            Place::Completed => PlaceWord::Completed,
            Place::Failed(at) if self.dead.contains_key(&(*at, self.full_name(key))) => PlaceWord::Failed,
            Place::Failed(_) => PlaceWord::FailedUnlisted,
            Place::Cancelled => PlaceWord::Cancelled,
        }
    }
}

impl Job {
    /// Its position in its list, if it is in a list with positions.
    pub(super) fn position(&self) -> Option<i64> {
        match self.place {
            Place::Lane => Some(self.order).filter(|order| *order != NO_ORDER),
            Place::Ready | Place::OnHold => Some(self.order),
            _ => None,
        }
    }
}

impl Place {
    /// When a waiting job is due, or when a dead job died.
    pub(super) fn time(&self) -> Option<Micros> {
        match self {
            Self::Waiting(at) | Self::Failed(at) => Some(*at),
            _ => None,
        }
    }

    pub(super) fn lease(&self) -> Option<&Held> {
        match self {
            Self::InFlight(held) => Some(held),
            _ => None,
        }
    }
}

impl ProgressRow {
    /// Whether it adds nothing to the row of the job.
    pub(super) fn is_as_it_came(&self) -> bool {
        let is_in_backlog = self.place == PlaceWord::Lane && self.position.is_none();
        is_in_backlog && !self.cancelled && self.attempts.is_none()
    }

    pub(super) fn place(&self) -> Result<Place, Damage> {
        let due_at = || needed(self.due_at, "progress.due_at");
        Ok(match self.place {
            PlaceWord::Lane => Place::Lane,
            PlaceWord::Ready => Place::Ready,
            PlaceWord::OnHold => Place::OnHold,
            PlaceWord::Waiting => Place::Waiting(due_at()?),
            PlaceWord::InFlight | PlaceWord::InFlightCancelled => Place::InFlight(Held {
                fence: needed(self.fence, "progress.fence")?,
                batch: needed(self.batch, "progress.batch")?,
                worker: needed(self.worker.clone(), "progress.worker")?,
                cancelled: self.place == PlaceWord::InFlightCancelled,
                progress: self.units_done.zip(self.units_total).map(|(done, total)| Progress { done, total }),
            }),
            PlaceWord::Completed => Place::Completed,
            PlaceWord::Failed | PlaceWord::FailedUnlisted => Place::Failed(due_at()?),
            PlaceWord::Cancelled => Place::Cancelled,
        })
    }

    pub(super) fn order(&self) -> Result<i64, Damage> {
        match self.place {
            PlaceWord::Lane => Ok(self.position.unwrap_or(NO_ORDER)),
            PlaceWord::Ready | PlaceWord::OnHold => needed(self.position, "progress.position"),
            _ => Ok(NO_ORDER),
        }
    }

    pub(super) fn run(&self) -> Result<Option<Run>, Damage> {
        let Some(attempts) = self.attempts else { return Ok(None) };
        Ok(Some(Run {
            settled: needed(self.settled_fence, "progress.settled_fence")?,
            settled_at: needed(self.settled_at, "progress.settled_at")?,
            attempts,
            throttles: needed(self.throttles, "progress.throttles")?,
            losses: needed(self.losses, "progress.losses")?,
            worker: self.last_worker.clone(),
            note: needed(self.note.clone(), "progress.note")?,
        }))
    }
}

impl StandingWord {
    pub(super) fn of(standing: Standing) -> Self {
        match standing {
            Standing::Idle => Self::Idle,
            Standing::Active => Self::Active,
            Standing::RateParked(_) => Self::RateParked,
            Standing::SeatParked => Self::SeatParked,
            Standing::Paused => Self::Paused,
            Standing::Clearing(_) => Self::Clearing,
        }
    }
}

impl Standing {
    /// The end of a lane's park by a rate, or the start of its clearing.
    pub(super) fn time(self) -> Option<Micros> {
        match self {
            Self::RateParked(at) | Self::Clearing(at) => Some(at),
            _ => None,
        }
    }
}

impl LaneRow {
    pub(super) fn standing(&self) -> Result<Standing, Damage> {
        let until = || needed(self.until, "lanes.until");
        Ok(match self.standing {
            StandingWord::Idle => Standing::Idle,
            StandingWord::Active => Standing::Active,
            StandingWord::RateParked => Standing::RateParked(until()?),
            StandingWord::SeatParked => Standing::SeatParked,
            StandingWord::Paused => Standing::Paused,
            StandingWord::Clearing => Standing::Clearing(until()?),
        })
    }
}
