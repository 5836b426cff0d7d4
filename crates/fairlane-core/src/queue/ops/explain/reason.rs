//! The interpretation of the facts: the reason to name first, and when the job may start.

use crate::limits::WORKER_SILENCE_MS;
use crate::numbers::Micros;
use crate::queue::{BulkMode, Discipline, JobState, LaneStanding};
use crate::rate::Rate;

use super::{Explanation, LaneView};

/// Why a job is not running, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The job has succeeded.
    Completed,
    /// The job is dead.
    Failed,
    /// The job was cancelled.
    Cancelled,
    /// Its bulk action drops its jobs.
    BulkDropped,
    /// The job is running.
    Running,
    /// The job is running, and its cancellation was requested.
    Unwanted,
    /// The job was enqueued with a delay.
    Delayed,
    /// The job failed and waits for its retry.
    Retrying,
    /// The downstream refused it.
    Throttled,
    /// Its lease expired.
    Lost,
    /// The rate window was used up, or the job was enqueued with a delay (`classic`).
    SentAway,
    /// The job is due and returns to its lane with the next lease.
    Due,
    /// Its bulk action is held.
    BulkHeld,
    /// Its bulk action was held, and its jobs are being returned to their lanes.
    BulkResuming,
    /// Its group is paused.
    GroupPaused,
    /// Its type is paused.
    TypePaused,
    /// No worker requests jobs of its type.
    NoWorker,
    /// The downstream has asked for a pause by Retry-After.
    DownstreamClosed,
    /// Its group has no free seat.
    GroupSeats,
    /// Its type has no free seat.
    TypeSeats,
    /// Its group is at its rate.
    GroupRate,
    /// Its type is at its rate.
    TypeRate,
    /// The queue is at its rate.
    QueueRate,
    /// The job is admitted and waits for a worker (`classic`).
    Admitted,
    /// The ready list of its type is full (`classic`).
    ReadyFull,
    /// The queue has used up the window of this second (`classic`).
    WindowUsed,
    /// Its group has used up its part of this second (`classic`).
    GroupWindowUsed,
    /// Jobs before it in its lane are held or cancelled and are being removed.
    LaneClearing,
    /// Other jobs come first.
    Turn,
}

impl Reason {
    /// The stable name of the reason, for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::BulkDropped => "bulk-dropped",
            Self::Running => "running",
            Self::Unwanted => "unwanted",
            Self::Delayed => "delayed",
            Self::Retrying => "retrying",
            Self::Throttled => "throttled",
            Self::Lost => "lost",
            Self::SentAway => "sent-away",
            Self::Due => "due",
            Self::BulkHeld => "bulk-held",
            Self::BulkResuming => "bulk-resuming",
            Self::GroupPaused => "group-paused",
            Self::TypePaused => "type-paused",
            Self::NoWorker => "no-worker",
            Self::DownstreamClosed => "downstream-closed",
            Self::GroupSeats => "group-seats",
            Self::TypeSeats => "type-seats",
            Self::GroupRate => "group-rate",
            Self::TypeRate => "type-rate",
            Self::QueueRate => "queue-rate",
            Self::Admitted => "admitted",
            Self::ReadyFull => "ready-full",
            Self::WindowUsed => "window-used",
            Self::GroupWindowUsed => "group-window-used",
            Self::LaneClearing => "lane-clearing",
            Self::Turn => "turn",
        }
    }
}

impl Explanation {
    /// The reason to name first: the condition that has to change before any other matters.
    pub fn reason(&self) -> Reason {
        match self.job.state {
            JobState::Completed => Reason::Completed,
            JobState::Failed => Reason::Failed,
            JobState::Cancelled => {
                let dropped = self.bulk.as_ref().is_some_and(|bulk| bulk.mode == BulkMode::Drop);
                if dropped { Reason::BulkDropped } else { Reason::Cancelled }
            }
            JobState::Processing if self.unwanted => Reason::Unwanted,
            JobState::Processing => Reason::Running,
            JobState::Waiting => self.why_waiting(),
            JobState::Pending | JobState::Ready => self.why_not_leased(),
        }
    }

    fn why_waiting(&self) -> Reason {
        if self.job.until.is_some_and(|due| due <= self.at) {
            return if self.is_unasked() { Reason::NoWorker } else { Reason::Due };
        }
        match &self.job {
            job if job.attempts > 0 => Reason::Retrying,
            job if job.throttles > 0 => Reason::Throttled,
            job if job.losses > 0 => Reason::Lost,
            _ if self.is_classic() => Reason::SentAway,
            _ => Reason::Delayed,
        }
    }

    fn why_not_leased(&self) -> Reason {
        let (group, of_type) = (&self.group, &self.of_type);
        let full = |most: Option<u32>, in_flight| most.is_some_and(|most| in_flight >= u64::from(most));
        match () {
            () if self.bulk.as_ref().is_some_and(|bulk| bulk.mode == BulkMode::Hold) => Reason::BulkHeld,
            () if self.is_being_put_back() => Reason::BulkResuming,
            () if group.settings.paused => Reason::GroupPaused,
            () if of_type.settings.paused => Reason::TypePaused,
            () if self.is_unasked() => Reason::NoWorker,
            () if self.is_being_cleared() => Reason::LaneClearing,
            () if of_type.closed_until.is_some() => Reason::DownstreamClosed,
            () if full(group.settings.concurrency, group.in_flight) => Reason::GroupSeats,
            () if full(of_type.settings.concurrency, of_type.in_flight) => Reason::TypeSeats,
            () if self.is_classic() && self.job.state == JobState::Pending => self.why_not_admitted(),
            () => self.last_rate_to_open().map_or_else(|| self.otherwise(), |(reason, _)| reason),
        }
    }

    /// Whether the job is in no lane because its resumed bulk action still has jobs on hold.
    fn is_being_put_back(&self) -> bool {
        let resumed = self.bulk.as_ref().is_some_and(|bulk| bulk.on_hold > 0);
        let returned = self.lane().map_or(0, |lane| lane.returned);
        resumed && self.job.state == JobState::Pending && self.position.is_none() && returned == 0
    }

    /// Whether the job is in a lane that `sweep` is clearing.
    fn is_being_cleared(&self) -> bool {
        let clearing = |lane: &LaneView| matches!(lane.standing, LaneStanding::Clearing(_));
        self.job.state == JobState::Pending && self.lane().is_some_and(clearing)
    }

    /// Why the job is not in the ready list. In `classic`, jobs move there regardless of rates.
    fn why_not_admitted(&self) -> Reason {
        let rules = &self.rules;
        match () {
            () if self.of_type.ready >= rules.ready_queue_max_size => Reason::ReadyFull,
            () if rules.passed >= rules.global_rps => Reason::WindowUsed,
            () if rules.group_passed >= rules.group_rps => Reason::GroupWindowUsed,
            () => Reason::Turn,
        }
    }

    fn otherwise(&self) -> Reason {
        if self.job.state == JobState::Ready { Reason::Admitted } else { Reason::Turn }
    }

    /// Of the exhausted rates, the one that opens last.
    fn last_rate_to_open(&self) -> Option<(Reason, Micros)> {
        let parked = match self.lane().map(|lane| lane.standing) {
            Some(LaneStanding::RateParked(until)) => Some(until).filter(|until| *until > self.at),
            _ => None,
        };
        let gates = [
            (Reason::QueueRate, self.queue_opens_at),
            (Reason::TypeRate, self.type_opens_at),
            (Reason::GroupRate, self.group_opens_at.max(parked)),
        ];
        let closed = gates.into_iter().filter_map(|(reason, opens_at)| Some((reason, opens_at?)));
        closed.max_by_key(|(_, opens_at)| *opens_at)
    }

    /// Whether no worker has requested jobs of its type recently, or ever.
    fn is_unasked(&self) -> bool {
        self.of_type.asked_at.is_none_or(|asked_at| self.at.since(asked_at) > WORKER_SILENCE_MS * 1000)
    }

    pub(super) fn is_classic(&self) -> bool {
        self.rules.discipline == Discipline::Classic
    }

    /// The most jobs before it in its lane: the returned jobs, and those before it in the backlog.
    pub fn ahead(&self) -> Option<u64> {
        if self.job.state != JobState::Pending {
            return None;
        }
        let returned = self.lane().map_or(0, |lane| lane.returned);
        match self.position {
            Some(position) => Some(returned + position),
            None if returned > 0 => Some(returned - 1),
            None => None,
        }
    }

    /// Lanes that share the capacity of its type and level, its own included.
    pub fn sharing_lanes(&self) -> u64 {
        let active = self.of_type.active_lanes[self.job.level.index()];
        let own = self.lane().is_some_and(|lane| lane.standing == LaneStanding::Active);
        (active + u64::from(!own)).max(1)
    }

    /// The shortest time per job of its lane, in microseconds. It is the slowest of the group's
    /// rate, an equal part of the rates of the type and the queue, and an equal part of the type's
    /// recent throughput. `None` if nothing is known.
    fn us_per_job(&self) -> Option<u64> {
        let lanes = self.sharing_lanes();
        let rate_us = |rate: Rate| rate.period_ms() * 1000 / rate.count();
        let group_us = if self.is_classic() {
            Some(1_000_000 / self.rules.group_rps.max(1))
        } else {
            self.group.settings.rate.map(rate_us)
        };
        let type_us = self.of_type.rate_milli.map(|milli| lanes * 1_000_000_000 / milli.max(1));
        let answers = Some(self.of_type.answers).filter(|answers| *answers > 0);
        let answers_us = answers.map(|answers| lanes * 1_000_000 / answers);
        let queue_us = self.rules.rate.map(|rate| lanes * rate_us(rate));
        [group_us, type_us, answers_us, queue_us].into_iter().flatten().max()
    }

    /// The estimated time until the job starts, in microseconds; `None` if no estimate is possible.
    pub fn starts_in_us(&self) -> Option<u64> {
        let opens_at = match self.reason() {
            Reason::Delayed | Reason::Retrying | Reason::Throttled | Reason::Lost | Reason::SentAway => {
                return self.job.until.map(|due| due.since(self.at));
            }
            Reason::DownstreamClosed => self.of_type.closed_until,
            Reason::GroupRate | Reason::TypeRate | Reason::QueueRate => {
                self.last_rate_to_open().map(|(_, opens_at)| opens_at)
            }
            Reason::GroupSeats | Reason::TypeSeats | Reason::Turn => None,
            Reason::ReadyFull | Reason::WindowUsed | Reason::GroupWindowUsed => None,
            _ => return None,
        };
        let opens_in_us = opens_at.map_or(0, |opens_at| opens_at.since(self.at));
        Some(self.us_per_job()?.saturating_mul(self.ahead()?).max(opens_in_us))
    }
}
