//! What the facts mean: the one reason that comes first, and when the job may start.

use crate::limits::WORKER_SILENCE_MS;
use crate::numbers::Micros;
use crate::queue::{Course, Discipline, JobState, LaneStanding};
use crate::rate::Rate;

use super::{Explanation, LaneView};

/// Why a job is not running, or what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has succeeded.
    Completed,
    /// It is dead.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Its bulk action drops its jobs.
    BulkDropped,
    /// It is running.
    Running,
    /// It is running, and somebody wants it to stop.
    Unwanted,
    /// It was enqueued with a delay.
    Delayed,
    /// It failed and is to be tried again.
    Retrying,
    /// The downstream refused it.
    Throttled,
    /// Its lease ran out.
    Lost,
    /// The window was used up, or it was enqueued with a delay (`classic`).
    SentAway,
    /// It is due and goes back to its lane with the next lease.
    Due,
    /// Its bulk action is held.
    BulkHeld,
    /// Its bulk action was held, and its jobs are being put back.
    BulkResuming,
    /// Its group is paused.
    GroupPaused,
    /// Its type is paused.
    TypePaused,
    /// No worker asks for its type.
    NoWorker,
    /// The downstream asked for silence.
    DownstreamClosed,
    /// Its group has no seat left.
    GroupSeats,
    /// Its type has no seat left.
    TypeSeats,
    /// Its group is at its rate.
    GroupRate,
    /// Its type is at its rate.
    TypeRate,
    /// The whole is at its rate.
    WholeRate,
    /// It is admitted and waits for a worker (`classic`).
    Admitted,
    /// As many admitted jobs of its type as may wait for workers (`classic`).
    ReadyFull,
    /// The whole has used up this second (`classic`).
    WindowUsed,
    /// Its group has used up its part of this second (`classic`).
    GroupWindowUsed,
    /// Jobs before it in its lane are held or cancelled and are being taken out.
    LaneClearing,
    /// Others come first.
    Turn,
}

impl Reason {
    /// A word for programs.
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
            Self::WholeRate => "whole-rate",
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
    /// The reason to name first: what has to change before anything else matters.
    pub fn reason(&self) -> Reason {
        match self.job.state {
            JobState::Completed => Reason::Completed,
            JobState::Failed => Reason::Failed,
            JobState::Cancelled => {
                let dropped = self.bulk.as_ref().is_some_and(|bulk| bulk.course == Course::Drop);
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
            () if self.bulk.as_ref().is_some_and(|bulk| bulk.course == Course::Hold) => Reason::BulkHeld,
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

    /// It stands in no lane, and its bulk action has jobs set aside though it runs.
    fn is_being_put_back(&self) -> bool {
        let resumed = self.bulk.as_ref().is_some_and(|bulk| bulk.on_hold > 0);
        let returned = self.lane().map_or(0, |lane| lane.returned);
        resumed && self.job.state == JobState::Pending && self.position.is_none() && returned == 0
    }

    /// It stands in a lane whose head `sweep` clears.
    fn is_being_cleared(&self) -> bool {
        let clearing = |lane: &LaneView| matches!(lane.standing, LaneStanding::Clearing(_));
        self.job.state == JobState::Pending && self.lane().is_some_and(clearing)
    }

    /// In `classic` jobs leave their lanes for the ready list, whatever rates say.
    fn why_not_admitted(&self) -> Reason {
        let whole = &self.whole;
        match () {
            () if self.of_type.ready >= whole.ready_queue_max_size => Reason::ReadyFull,
            () if whole.passed >= whole.global_rps => Reason::WindowUsed,
            () if whole.group_passed >= whole.group_rps => Reason::GroupWindowUsed,
            () => Reason::Turn,
        }
    }

    fn otherwise(&self) -> Reason {
        if self.job.state == JobState::Ready { Reason::Admitted } else { Reason::Turn }
    }

    /// Of the rates that are used up, the one that opens last.
    fn last_rate_to_open(&self) -> Option<(Reason, Micros)> {
        let parked = match self.lane().map(|lane| lane.standing) {
            Some(LaneStanding::RateParked(until)) => Some(until).filter(|until| *until > self.at),
            _ => None,
        };
        let gates = [
            (Reason::WholeRate, self.whole_opens_at),
            (Reason::TypeRate, self.type_opens_at),
            (Reason::GroupRate, self.group_opens_at.max(parked)),
        ];
        let closed = gates.into_iter().filter_map(|(reason, opens_at)| Some((reason, opens_at?)));
        closed.max_by_key(|(_, opens_at)| *opens_at)
    }

    /// Nobody has asked for jobs of its type for a while, or ever.
    fn is_unasked(&self) -> bool {
        self.of_type.asked_at.is_none_or(|asked_at| self.at.since(asked_at) > WORKER_SILENCE_MS * 1000)
    }

    pub(super) fn is_classic(&self) -> bool {
        self.whole.discipline == Discipline::Classic
    }

    /// Jobs that go before it in its lane, at most: those that came back, and those before it in the backlog.
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

    /// Lanes that share the capacity of its type and level, its own among them.
    pub fn sharing_lanes(&self) -> u64 {
        let active = self.of_type.active_lanes[self.job.level.index()];
        let own = self.lane().is_some_and(|lane| lane.standing == LaneStanding::Active);
        (active + u64::from(!own)).max(1)
    }

    /// How long its lane takes for one job at least, in microseconds: the slowest of what its group may have, an
    /// even part of what its type and the whole may have, and of what the type has just had. `None` where nothing is known.
    fn us_per_job(&self) -> Option<u64> {
        let lanes = self.sharing_lanes();
        let rate_us = |rate: Rate| rate.period_ms() * 1000 / rate.count();
        let group_us = if self.is_classic() {
            Some(1_000_000 / self.whole.group_rps.max(1))
        } else {
            self.group.settings.rate.map(rate_us)
        };
        let type_us = self.of_type.rate_milli.map(|milli| lanes * 1_000_000_000 / milli.max(1));
        let answers = Some(self.of_type.answers).filter(|answers| *answers > 0);
        let answers_us = answers.map(|answers| lanes * 1_000_000 / answers);
        let whole_us = self.whole.rate.map(|rate| lanes * rate_us(rate));
        [group_us, type_us, answers_us, whole_us].into_iter().flatten().max()
    }

    /// In how many microseconds the job may start: an estimate, and `None` where none can be made.
    pub fn starts_in_us(&self) -> Option<u64> {
        let opens_at = match self.reason() {
            Reason::Delayed | Reason::Retrying | Reason::Throttled | Reason::Lost | Reason::SentAway => {
                return self.job.until.map(|due| due.since(self.at));
            }
            Reason::DownstreamClosed => self.of_type.closed_until,
            Reason::GroupRate | Reason::TypeRate | Reason::WholeRate => {
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
