//! An explanation as text: one sentence for people, and the facts behind it.

use crate::names::WorkerId;
use crate::numbers::Micros;
use crate::queue::{BulkCause, BulkState, BulkView, JobState, LaneStanding};
use crate::rate::Rate;

use super::{Explanation, Reason};

/// The longest note that is shown, in characters; longer ones are cut.
const NOTE_CHARACTERS_MAX: usize = 160;

impl Explanation {
    /// Why the job is not running, as one sentence. Future times are estimates.
    pub fn sentence(&self) -> String {
        let reason = self.reason();
        let mut parts = vec![self.because(reason)];
        if self.job.state == JobState::Pending && reason != Reason::BulkResuming {
            parts.extend(self.ahead_text(reason));
        }
        if !matches!(self.job.state, JobState::Waiting) {
            parts.extend(self.starts_text());
        }
        parts.join("; ")
    }

    fn because(&self, reason: Reason) -> String {
        let (group, of_type) = (&self.job.job.group, &self.job.type_id);
        match reason {
            Reason::Completed | Reason::Failed | Reason::Cancelled | Reason::BulkDropped => {
                self.ended(reason)
            }
            Reason::Running | Reason::Unwanted => self.running(reason),
            Reason::Delayed
            | Reason::Retrying
            | Reason::Throttled
            | Reason::Lost
            | Reason::SentAway
            | Reason::Due => self.waiting(reason),
            Reason::BulkHeld => format!("its bulk action {} is held", self.bulk_name()),
            Reason::BulkResuming => {
                format!("its bulk action {} was resumed, and its jobs are being put back", self.bulk_name())
            }
            Reason::LaneClearing => {
                "jobs before it in its lane are held or cancelled and are being taken out".to_owned()
            }
            Reason::GroupPaused => format!("{group} is paused"),
            Reason::TypePaused => format!("type {of_type} is paused"),
            Reason::NoWorker => self.no_worker(),
            Reason::DownstreamClosed => {
                let opens_in = self.span_to(self.of_type.closed_until);
                format!(
                    "the downstream of type {of_type} asked for silence (Retry-After) for another {opens_in}, \
                     unless `fairlane type set {of_type} --resume` opens it before"
                )
            }
            Reason::GroupSeats => {
                format!("{group} has {} in use", all_seats(self.group.settings.concurrency))
            }
            Reason::TypeSeats => {
                format!("type {of_type} has {} in use", all_seats(self.of_type.settings.concurrency))
            }
            Reason::GroupRate => {
                format!("{group} is at its limit of {}", rate_or_none(self.group.settings.rate))
            }
            Reason::TypeRate => self.type_at_its_rate(),
            Reason::QueueRate => {
                format!("the queue is at its limit of {}", rate_or_none(self.rules.rate))
            }
            Reason::Admitted => {
                let ready = counted(self.of_type.ready, "ready job");
                format!("it is admitted and waits for a worker, among {ready} of type {of_type}")
            }
            Reason::ReadyFull => {
                let ready = counted(self.of_type.ready, "ready job");
                format!("type {of_type} has {ready} waiting for workers, as many as it may")
            }
            Reason::WindowUsed => {
                format!("the queue has used up this second ({})", counted(self.rules.global_rps, "job"))
            }
            Reason::GroupWindowUsed => {
                let part = counted(self.rules.group_rps, "job");
                format!("{group} has used up its part of this second ({part})")
            }
            Reason::Turn => "its turn has not come".to_owned(),
        }
    }

    fn ended(&self, reason: Reason) -> String {
        let ago = self.job.settled_at.map_or("".to_owned(), |at| format!(" {} ago", span(self.at.since(at))));
        match reason {
            Reason::Completed => format!("it completed{ago}"),
            Reason::Failed => {
                let tries = counted(self.job.attempts.into(), "attempt");
                format!("it failed for good{ago} after {tries}{}", self.note_after(": "))
            }
            Reason::BulkDropped => {
                let how = self.bulk.as_ref().map_or("was dropped", how_it_ended);
                format!("it will not run: its bulk action {} {how}", self.bulk_name())
            }
            _ => format!("it was cancelled{ago}"),
        }
    }

    fn running(&self, reason: Reason) -> String {
        let named = |worker: &WorkerId| format!("worker {}", worker.given_name());
        let worker = self.job.worker.as_ref().map_or("a worker".to_owned(), named);
        // A fence is the time of its lease, unless several were issued in one microsecond.
        let since = self.job.fence.map_or(self.at, |fence| Micros(fence.0));
        let (running, attempt) = (span(self.at.since(since)), self.job.attempts);
        let lease = match self.job.until {
            Some(until) if until > self.at => format!("its lease ends in {}", span(until.since(self.at))),
            _ => "its lease has run out and will be taken back".to_owned(),
        };
        let notice = match reason {
            Reason::Unwanted => {
                "its cancellation was requested, and the worker learns of it when it extends; "
            }
            _ => "",
        };
        format!("{worker} has been running it for {running} (attempt {attempt}); {notice}{lease}")
    }

    fn waiting(&self, reason: Reason) -> String {
        let (job, due_in) = (&self.job, self.span_to(self.job.until));
        match reason {
            Reason::Retrying => {
                let (retry, most) = (job.attempts, self.max_retry_count());
                format!("it is tried again in {due_in} (retry {retry} of {most}){}", self.note_after(": "))
            }
            Reason::Throttled => {
                let times = counted(job.throttles.into(), "time");
                format!("the downstream has refused it {times}; it is tried again in {due_in}")
            }
            Reason::Lost => {
                let leases = counted(job.losses.into(), "lease");
                format!("it has lost {leases} and comes back in {due_in}")
            }
            Reason::SentAway => {
                let group = &job.job.group;
                format!(
                    "{group} had used up its part of the rate, or the job was delayed; it is due in {due_in}"
                )
            }
            Reason::Due => "it is due and goes back to its lane with the next lease".to_owned(),
            _ => format!("it is delayed and due in {due_in}"),
        }
    }

    fn no_worker(&self) -> String {
        let of_type = &self.job.type_id;
        let asked = match self.of_type.asked_at {
            None => format!("no worker has ever asked for jobs of type {of_type}"),
            Some(asked_at) => {
                let silence = span(self.at.since(asked_at));
                format!("no worker has asked for jobs of type {of_type} for {silence}")
            }
        };
        match self.of_type.in_flight {
            0 => asked,
            1 => format!("{asked} (1 job is running)"),
            busy => format!("{asked} ({} jobs are running)", number(busy)),
        }
    }

    fn type_at_its_rate(&self) -> String {
        let of_type = &self.job.type_id;
        let set = self.of_type.settings.rate;
        match self.of_type.rate_milli {
            Some(milli) if set.is_none_or(|set| milli < set.milli_per_second()) => {
                format!("type {of_type} is slowed to {} after refusals", milli_text(milli))
            }
            _ => format!("type {of_type} is at its limit of {}", rate_or_none(set)),
        }
    }

    fn ahead_text(&self, reason: Reason) -> Vec<String> {
        let mut parts = Vec::new();
        let returned = self.lane().map_or(0, |lane| lane.returned);
        match (self.position, self.ahead()) {
            (Some(_), Some(0)) => parts.push("it is the next of its lane".to_owned()),
            (Some(_), Some(ahead)) => parts.push(format!("{} ahead", counted(ahead, "job"))),
            (None, Some(_)) if returned <= 1 => parts.push("it goes before the rest of its lane".to_owned()),
            (None, Some(_)) => {
                parts.push(format!("it is among the {} of its lane that go first", counted(returned, "job")));
            }
            _ => {}
        }
        let others = self.sharing_lanes() - 1;
        if reason == Reason::Turn && others > 0 {
            let share = if others == 1 { "shares" } else { "share" };
            parts.push(format!("{} {share} type {}", counted(others, "other lane"), self.job.type_id));
        }
        parts
    }

    fn starts_text(&self) -> Option<String> {
        self.starts_in_us().map(|us| format!("starts {}", start(us)))
    }

    /// All facts, as labels and texts.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let job = &self.job;
        let mut facts = vec![
            (
                "state",
                format!("{}, {} level, cost {}", job.state.as_str(), job.level, number(job.cost.get())),
            ),
            ("enqueued", self.moment(job.created_at)),
        ];
        if job.attempts + job.throttles + job.losses > 0 {
            let (throttles, losses) = (job.throttles.into(), job.losses.into());
            let most = self.max_retry_count() + 1;
            let tries = format!("attempt {} of {most}, {}", job.attempts, counted(throttles, "throttle"));
            facts.push(("tries", format!("{tries}, {}", counted(losses, "lost lease"))));
        }
        facts.extend(job.until.map(|until| ("until", self.moment(until))));
        facts.extend(job.settled_at.map(|at| ("last settled", self.moment(at))));
        facts.extend(job.worker.as_ref().map(|worker| ("worker", worker.given_name())));
        facts.extend(Some(self.note_after("")).filter(|note| !note.is_empty()).map(|note| ("note", note)));
        facts.extend(self.bulk.as_ref().map(|bulk| ("bulk action", bulk_text(bulk))));
        facts.extend(self.lane_text().filter(|_| self.is_unstarted()).map(|text| ("lane", text)));
        facts.push(("group", self.group_text()));
        facts.push(("type", self.type_text()));
        facts.push(("workers", self.workers_text()));
        facts.push(("queue", self.queue_text()));
        if self.is_unstarted() {
            facts.push((
                "start",
                self.starts_in_us().map(start).unwrap_or_else(|| "cannot be estimated".to_owned()),
            ));
        }
        facts
    }

    /// Whether it has not been leased yet.
    fn is_unstarted(&self) -> bool {
        matches!(self.job.state, JobState::Pending | JobState::Ready | JobState::Waiting)
    }

    fn lane_text(&self) -> Option<String> {
        let lane = self.lane()?;
        let standing = match lane.standing {
            LaneStanding::Idle => "idle".to_owned(),
            LaneStanding::Active => "in fair order".to_owned(),
            LaneStanding::RateParked(until) if until > self.at => {
                format!("parked by its group's rate for another {}", self.span_to(Some(until)))
            }
            LaneStanding::RateParked(_) => "parked by its group's rate until the next lease".to_owned(),
            LaneStanding::SeatParked => "parked until its group has a seat".to_owned(),
            LaneStanding::Paused => "parked while its group is paused".to_owned(),
            LaneStanding::Clearing(_) => "out of order until its head is cleared".to_owned(),
        };
        let (backlog, returned) = (counted(lane.backlog, "job"), number(lane.returned));
        Some(format!(
            "{} of type {}: {backlog}, {returned} that came back, {standing}",
            lane.level, lane.type_id
        ))
    }

    fn group_text(&self) -> String {
        let (group, settings) = (&self.group, &self.group.settings);
        let paused = if settings.paused { "paused, " } else { "" };
        format!(
            "{}: {paused}weight {}, rate {}, {}, {} not started ({} waiting)",
            self.job.job.group,
            settings.weight.get(),
            rate_or_none(settings.rate),
            seats_text(group.in_flight, settings.concurrency),
            number(group.backlog),
            number(group.waiting),
        )
    }

    fn type_text(&self) -> String {
        let (of_type, settings) = (&self.of_type, &self.of_type.settings);
        let paused = if settings.paused { "paused, " } else { "" };
        let rate = match of_type.rate_milli {
            Some(milli) if settings.rate.is_none_or(|set| milli < set.milli_per_second()) => {
                format!("{} after refusals (set: {})", milli_text(milli), rate_or_none(settings.rate))
            }
            _ => rate_or_none(settings.rate),
        };
        format!(
            "{}: {paused}rate {rate}, {}, {} in order, {} in the last second",
            self.job.type_id,
            seats_text(of_type.in_flight, settings.concurrency),
            counted(of_type.active_lanes.iter().sum(), "lane"),
            counted(of_type.answers, "answer"),
        )
    }

    fn workers_text(&self) -> String {
        match self.of_type.asked_at {
            None => "none has ever asked for this type".to_owned(),
            Some(asked_at) => {
                format!(
                    "one asked for this type {} ago, give or take a second",
                    span(self.at.since(asked_at))
                )
            }
        }
    }

    fn queue_text(&self) -> String {
        let rules = &self.rules;
        let rate = format!("{}, rate {}", rules.discipline.as_str(), rate_or_none(rules.rate));
        if !self.is_classic() {
            return rate;
        }
        format!(
            "{rate}, {} of {} in this second, {} of {} of this group, {} ready of this type",
            number(rules.passed),
            counted(rules.global_rps, "job"),
            number(rules.group_passed),
            number(rules.group_rps),
            number(self.of_type.ready),
        )
    }

    fn bulk_name(&self) -> String {
        self.job.bulk.as_ref().map_or_else(String::new, ToString::to_string)
    }

    /// The note on one line after `joint`; empty without a note.
    fn note_after(&self, joint: &str) -> String {
        let mut note = String::from_utf8_lossy(&self.job.note);
        // The note of a completed job is its result.
        if let Some(problem) = problem_text(&note).filter(|_| self.job.state != JobState::Completed) {
            note = problem.into();
        }
        if note.is_empty() {
            return String::new();
        }
        let mut line: String =
            note.chars().take(NOTE_CHARACTERS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if note.chars().nth(NOTE_CHARACTERS_MAX).is_some() {
            line.push('…');
        }
        format!("{joint}{line}")
    }

    fn span_to(&self, at: Option<Micros>) -> String {
        span(at.map_or(0, |at| at.since(self.at)))
    }

    /// A time, and its distance from now.
    fn moment(&self, at: Micros) -> String {
        let (ago, ahead) = (span(self.at.since(at)), span(at.since(self.at)));
        if at > self.at { format!("{} (in {ahead})", date(at)) } else { format!("{} ({ago} ago)", date(at)) }
    }
}

fn how_it_ended(bulk: &BulkView) -> &'static str {
    match (bulk.state, bulk.cause) {
        (BulkState::Cancelled, _) => "was cancelled",
        (_, Some(BulkCause::Failures)) => "has failed: too many of its jobs did",
        (_, Some(BulkCause::Deadline)) => "has failed: its deadline has passed",
        _ => "has failed",
    }
}

fn bulk_text(bulk: &BulkView) -> String {
    let ended = bulk.succeeded + bulk.failed + bulk.cancelled;
    format!(
        "{}: {}, mode {}, {} of {} ended ({} failed, {} cancelled), {} set aside",
        bulk.bulk.id,
        bulk.state.name(),
        bulk.mode.as_str(),
        number(ended),
        counted(bulk.total, "job"),
        number(bulk.failed),
        number(bulk.cancelled),
        number(bulk.on_hold),
    )
}

fn seats_text(in_flight: u64, most: Option<u32>) -> String {
    match most {
        Some(most) => format!("{} of {} in use", number(in_flight), counted(most.into(), "seat")),
        None => format!("{} in flight", number(in_flight)),
    }
}

/// The seats of a group or type that has none free.
fn all_seats(most: Option<u32>) -> String {
    match most.unwrap_or(0) {
        0 => "no seats, and so none".to_owned(),
        1 => "its only seat".to_owned(),
        most => format!("all its {} seats", number(most.into())),
    }
}

/// The estimated start of a job.
fn start(in_us: u64) -> String {
    match in_us {
        0..1000 => "with one of the next leases (an estimate)".to_owned(),
        _ => format!("in about {} (an estimate)", span(in_us)),
    }
}

/// `boom: it fell over`, from the JSON object with a code and a message that workers write. `None`
/// for any other note.
fn problem_text(note: &str) -> Option<String> {
    let (code, rest) = json_text(note.strip_prefix("{\"code\":\"")?)?;
    let (message, rest) = json_text(rest.strip_prefix(",\"message\":\"")?)?;
    let parts = [code, message].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    (rest == "}").then(|| parts.join(": "))
}

/// A JSON string up to its closing quote, and the rest of the text.
fn json_text(quoted: &str) -> Option<(String, &str)> {
    let (mut text, mut rest) = (String::new(), quoted.chars());
    loop {
        match rest.next()? {
            '"' => return Some((text, rest.as_str())),
            '\\' => text.push(match rest.next()? {
                // Only control characters are written as escapes with a number, and
                // they become spaces.
                'u' => rest.nth(3).map(|_| ' ')?,
                'b' | 'f' | 'n' | 'r' | 't' => ' ',
                other => other,
            }),
            other => text.push(other),
        }
    }
}

/// An integer with separators: `4,210`.
fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun: `1 job`, `4,210 jobs`.
fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{} {what}s", number(count)) }
}

fn rate_or_none(rate: Option<Rate>) -> String {
    rate.map_or("unlimited".to_owned(), rate_text)
}

/// A rate: `100/s`, `10/min`.
fn rate_text(rate: Rate) -> String {
    let count = number(rate.count());
    match rate.period_ms() {
        1000 => format!("{count}/s"),
        60_000 => format!("{count}/min"),
        3_600_000 => format!("{count}/h"),
        86_400_000 => format!("{count}/day"),
        period_ms => format!("{count} per {}", span(period_ms * 1000)),
    }
}

/// A rate in thousandths of a job per second: `28.5/s`, `0.5/min`.
fn milli_text(milli: u64) -> String {
    let (tenths, unit) = if milli < 100 { ((milli * 60 + 50) / 100, "min") } else { (milli / 100, "s") };
    if tenths.is_multiple_of(10) {
        return format!("{}/{unit}", number(tenths / 10));
    }
    format!("{}.{}/{unit}", number(tenths / 10), tenths % 10)
}

/// A duration for people: `350 ms`, `42 s`, `3 min`, `5 h`, `2 days`.
fn span(us: u64) -> String {
    let rounded = |unit_us: u64| (us + unit_us / 2) / unit_us;
    let (seconds, minutes, hours) = (rounded(1_000_000), rounded(60_000_000), rounded(3_600_000_000));
    match (seconds, minutes, hours) {
        _ if us < 1_000_000 => format!("{} ms", us / 1000),
        (..120, _, _) => format!("{seconds} s"),
        (_, ..120, _) => format!("{minutes} min"),
        (_, _, ..48) => format!("{hours} h"),
        _ => format!("{} days", number(rounded(86_400_000_000))),
    }
}

/// `2023-11-14 22:13:20 UTC`. Years start in March, so that a leap day is the last day of its year.
fn date(at: Micros) -> String {
    let seconds = at.0 / 1_000_000;
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_rates_read_as_people_write_them() {
        assert_eq!([0, 999, 4210, 1_000_000].map(number), ["0", "999", "4,210", "1,000,000"]);
        assert_eq!((counted(1, "job"), counted(2, "job")), ("1 job".into(), "2 jobs".into()));
        let rate = |count, period_ms| rate_text(Rate::new(count, period_ms, None).unwrap());
        assert_eq!([rate(100, 1000), rate(10, 60_000), rate(5, 30_000)], ["100/s", "10/min", "5 per 30 s"]);
        assert_eq!([milli_text(28_500), milli_text(100_000), milli_text(100)], ["28.5/s", "100/s", "0.1/s"]);
        assert_eq!([milli_text(16), milli_text(33), milli_text(1)], ["1/min", "2/min", "0.1/min"]);
    }

    #[test]
    fn spans_are_rounded_to_what_matters() {
        let spans = [0, 350_000, 42_100_000, 119_000_000, 200_000_000, 9_000_000_000, 400_000_000_000];
        assert_eq!(spans.map(span), ["0 ms", "350 ms", "42 s", "119 s", "3 min", "3 h", "5 days"]);
        let nearly = [119_600_000, 7_199_600_000, 172_799_000_000];
        assert_eq!(nearly.map(span), ["2 min", "2 h", "2 days"]);
        assert_eq!(start(999), "with one of the next leases (an estimate)");
        assert_eq!(start(1000), "in about 1 ms (an estimate)");
    }

    #[test]
    fn one_seat_is_no_seats() {
        assert_eq!(
            [Some(0), Some(1), Some(2)].map(all_seats),
            ["no seats, and so none", "its only seat", "all its 2 seats"]
        );
        assert_eq!(
            [seats_text(1, Some(1)), seats_text(0, Some(2))],
            ["1 of 1 seat in use", "0 of 2 seats in use"]
        );
    }

    #[test]
    fn a_problem_reads_as_its_code_and_message() {
        assert_eq!(problem_text(r#"{"code":"error","message":""}"#).as_deref(), Some("error"));
        assert_eq!(problem_text(r#"{"code":"","message":""}"#).as_deref(), Some(""));
        let text = problem_text(r#"{"code":"boom","message":"it \"fell\"\nover\u0001\\"}"#);
        assert_eq!(text.as_deref(), Some(r#"boom: it "fell" over \"#));
        for other in [
            "",
            "again",
            r#"{"code":"boom"}"#,
            r#"{"code":"boom","message":"cut o"#,
            r#"{"code":"a","message":"b","more":1}"#,
        ] {
            assert_eq!(problem_text(other), None, "{other}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds: u64| date(Micros(seconds * 1_000_000));
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(at(1_709_164_799), "2024-02-28 23:59:59 UTC");
        assert_eq!(at(1_709_164_800), "2024-02-29 00:00:00 UTC");
        assert_eq!(at(1_735_689_599), "2024-12-31 23:59:59 UTC");
    }
}
