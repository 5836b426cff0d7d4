//! One frame: a snapshot of the queue as lines of text that fit a terminal.

use std::collections::HashMap;

use fairlane::{GroupId, TypeId, TypeView};

use super::choice::{Choice, Pressed};
use crate::limit::rate_now_text;
use crate::overview::{GroupOverview, Overview, ms_since};
use crate::tables::{ago, counted, shortened, thousands};

/// Refreshes that the throughput line covers.
const HISTORY: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The minimum width of a name.
const NAME_WIDTH_MIN: usize = 8;
/// The maximum width of a name, which leaves room for the numbers.
const NAME_WIDTH_MAX: usize = 40;

const PLAIN: &str = "0";
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// The size of the terminal in columns and lines.
#[derive(Clone, Copy)]
pub struct Size {
    pub width: usize,
    pub height: usize,
}

/// The state of the display.
pub struct Frame {
    title: String,
    now: Overview,
    /// Jobs that each group has done since the previous snapshot.
    done: HashMap<GroupId, u64>,
    /// The time between the two snapshots in seconds.
    seconds: f64,
    /// Jobs answered per second, oldest first.
    throughput: Vec<u64>,
    problem: Option<String>,
    /// Whether keys work; otherwise they are not explained.
    is_live: bool,
    /// The answer to the last key.
    answer: Option<String>,
    choice: Choice,
}

impl Frame {
    /// The frame of a first snapshot.
    pub fn new(title: String, first: Overview) -> Self {
        let throughput = vec![first.state.answers_last_second()];
        Self {
            title,
            now: first,
            done: HashMap::new(),
            seconds: 0.0,
            throughput,
            problem: None,
            is_live: false,
            answer: None,
            choice: Choice::default(),
        }
    }

    /// Replaces the snapshot by a newer one.
    pub fn next(&mut self, overview: Overview) {
        self.seconds = overview.taken_at.duration_since(self.now.taken_at).as_secs_f64();
        let before: HashMap<&GroupId, u64> =
            self.now.groups.iter().map(|one| (&one.line.group, one.line.done)).collect();
        let done = |one: &GroupOverview| {
            let line = &one.line;
            // A group that was idle in between counts from 0 again.
            let before = before.get(&line.group).copied().filter(|before| *before <= line.done);
            (line.group.clone(), line.done - before.unwrap_or(line.done))
        };
        self.done = overview.groups.iter().map(done).collect();
        self.throughput.push(overview.state.answers_last_second());
        let surplus = self.throughput.len().saturating_sub(HISTORY);
        self.throughput.drain(..surplus);
        self.problem = None;
        self.now = overview;
    }

    /// Shows that the queue did not respond; the last snapshot stays.
    pub fn failed(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Explains the keys from now on.
    pub fn set_live(&mut self) {
        self.is_live = true;
    }

    /// Takes a byte from the keyboard.
    pub fn press(&mut self, key: u8) -> Pressed {
        self.answer = None;
        self.choice.press(key, &self.now.groups)
    }

    /// Changes a group in the snapshot, so that the next key does not act on the state before.
    pub fn set_paused(&mut self, group: &GroupId, is_paused: bool) {
        for one in self.now.groups.iter_mut().filter(|one| one.line.group == *group) {
            one.line.settings.paused = is_paused;
        }
    }

    /// Shows the answer to a key until the next one.
    pub fn say(&mut self, answer: String) {
        self.answer = Some(answer);
    }

    /// The frame as text, no wider and no higher than the terminal.
    pub fn text(&self, size: Size, colours: bool) -> String {
        let paint = Paint { colours };
        let mut lines = self.head(size, paint);
        let warnings = self.warnings(size, paint);
        let room = size.height.saturating_sub(lines.len() + warnings.len());
        // Groups matter most, so types take at most a third of the room.
        lines.extend(self.types(size, room / 3, paint));
        let room = size.height.saturating_sub(lines.len() + warnings.len());
        lines.extend(self.groups(size, room, paint));
        lines.extend(warnings);
        lines.truncate(size.height);
        lines.join("\n")
    }

    fn head(&self, size: Size, paint: Paint) -> Vec<String> {
        let queue = &self.now.state.queue;
        let counts = format!(
            "backlog {} ({} waiting)  {} in flight  {}  {} dead",
            thousands(queue.backlog),
            thousands(queue.waiting),
            thousands(queue.in_flight),
            counted(queue.active_groups, "group"),
            thousands(queue.failed)
        );
        let rate = format!("{} jobs/s  ", thousands(self.now.state.answers_last_second()));
        let bars = sparkline(&self.throughput, size.width.saturating_sub(rate.chars().count()));
        let title = shortened(&format!("fairlane top  {}", self.title), size.width);
        let keys = self.answer.clone().unwrap_or_else(|| self.choice.text());
        let keys = self.is_live.then(|| paint.with(DIM, shortened(&keys, size.width)));
        let figures = [
            shortened(&counts, size.width),
            shortened(&rate, size.width) + &paint.with(GREEN, bars),
            String::new(),
        ];
        [paint.with(BOLD, title)].into_iter().chain(keys).chain(figures).collect()
    }

    fn types(&self, size: Size, room: usize, paint: Paint) -> Vec<String> {
        if self.now.state.types.is_empty() || room < 3 {
            return Vec::new();
        }
        let columns = ["in flight", "answered/s", "rate", "requested"];
        let widths = [10, 11, 10, 11];
        let row = |(name, view): &(TypeId, TypeView)| {
            let rate = match (view.settings.paused, view.rate_milli) {
                (true, _) => "paused".to_owned(),
                (_, Some(milli)) => rate_now_text(milli, view.settings.rate),
                (_, None) => "–".to_owned(),
            };
            let asked = view.asked_at.map_or("never".to_owned(), |at| ago(ms_since(at)));
            let cells = [thousands(view.in_flight), thousands(view.answers), rate, asked];
            line(&name.to_string(), &cells, &widths, size.width)
        };
        let mut lines = vec![paint.with(DIM, line("type", &columns.map(str::to_owned), &widths, size.width))];
        let shown = room - 2;
        lines.extend(self.now.state.types.iter().take(shown).map(row));
        lines.push(String::new());
        lines
    }

    fn groups(&self, size: Size, room: usize, paint: Paint) -> Vec<String> {
        if room < 2 {
            return Vec::new();
        }
        let columns = ["backlog", "in flight", "share", "rate/s", "congestion"];
        let widths = [12, 10, 7, 9, 11];
        let heading = line("group", &columns.map(str::to_owned), &widths, size.width);
        let mut lines = vec![paint.with(DIM, heading)];
        let all: u64 = self.done.values().sum();
        let shown = self.choice.of(&self.now.groups);
        for one in shown.iter().take(room - 1) {
            let done = self.done.get(&one.line.group).copied();
            let share =
                done.filter(|_| all > 0).map(|done| format!("{:.0} %", done as f64 * 100.0 / all as f64));
            let rate =
                done.filter(|_| self.seconds > 0.0).map(|done| format!("{:.1}", done as f64 / self.seconds));
            let dash = || "–".to_owned();
            let cells = [
                thousands(one.line.backlog),
                thousands(one.line.in_flight),
                share.unwrap_or_else(dash),
                rate.unwrap_or_else(dash),
                one.status().to_owned(),
            ];
            let is_selected = self.choice.is_selected(&one.line.group);
            let mark = if is_selected { "> " } else { "" };
            let text = line(&format!("{mark}{}", one.line.group), &cells, &widths, size.width);
            lines.push(paint.with(if is_selected { BOLD } else { colour(one.status()) }, text));
        }
        if shown.is_empty() {
            let text = match self.now.groups.is_empty() {
                true => "no group has unfinished jobs",
                false => "no group here matches the filter",
            };
            lines.push(shortened(text, size.width));
        }
        lines
    }

    fn warnings(&self, size: Size, paint: Paint) -> Vec<String> {
        let problem = self.problem.iter().map(|problem| (RED, problem.clone()));
        let warnings = self.now.state.warnings.iter().map(|warning| (YELLOW, format!("warning: {warning}")));
        let lines = problem.chain(warnings).take(3);
        lines.map(|(colour, text)| paint.with(colour, shortened(&text, size.width))).collect()
    }
}

fn colour(status: &str) -> &'static str {
    match status {
        "MODERATE" | "paused" => YELLOW,
        "HIGH" | "CRITICAL" => RED,
        _ => PLAIN,
    }
}

#[derive(Clone, Copy)]
struct Paint {
    colours: bool,
}

impl Paint {
    fn with(self, colour: &str, text: String) -> String {
        if self.colours && !text.is_empty() && colour != PLAIN {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text
        }
    }
}

/// A left-aligned name and right-aligned cells; cells that do not fit are left out.
fn line(name: &str, cells: &[String], widths: &[usize], width: usize) -> String {
    let mut shown = cells.len();
    let cells_width = |shown: usize| widths[..shown].iter().sum::<usize>();
    while shown > 0 && cells_width(shown) + NAME_WIDTH_MIN > width {
        shown -= 1;
    }
    let name_width =
        width.saturating_sub(cells_width(shown)).clamp(NAME_WIDTH_MIN, NAME_WIDTH_MAX).min(width);
    let mut text = format!("{:name_width$}", shortened(name, name_width));
    for (cell, width) in cells.iter().zip(widths).take(shown) {
        text += &format!("{:>width$}", shortened(cell, width - 1));
    }
    text
}

/// The newest values as bars, as many as fit.
fn sparkline(values: &[u64], width: usize) -> String {
    let newest = &values[values.len().saturating_sub(width)..];
    let most = newest.iter().copied().max().unwrap_or(0).max(1);
    newest.iter().map(|value| BARS[(value * (BARS.len() as u64 - 1) / most) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlane::{Fairlane, Job};
    use fairlane_core::queue::{Lease, Leased, LeasedJob, Outcome, Settle, Settlement};
    use fairlane_core::{RequestNumber, TypeId, WorkerId};

    const GROUPS: usize = 30;

    async fn frame() -> Frame {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        for number in 0..GROUPS {
            let group = format!("a-customer-with-quite-a-long-name-{number}");
            let jobs = (0..=number).map(|_| Job::new(&group, "mail", &number));
            fairlane.enqueue_all(jobs).await.unwrap();
        }
        let snapshot = || async { Overview::take(&fairlane, 50, false).await.unwrap() };
        let mut frame = Frame::new("memory: (embedded)".to_owned(), snapshot().await);
        let (worker, types) = (WorkerId::new("w").unwrap(), vec![TypeId::new("mail").unwrap()]);
        let lease = Lease { worker, request: RequestNumber(1), types, jobs_max: 165, lease_ms: 30_000 };
        let Leased::Jobs { jobs, .. } = fairlane.engine().call(lease).await.unwrap() else {
            panic!("the request is new");
        };
        let done = |job: LeasedJob| Settlement {
            job: job.job,
            fence: job.fence,
            outcome: Outcome::Succeeded { result: std::sync::Arc::from(&[][..]) },
        };
        let settlements = jobs.into_iter().map(done).collect();
        fairlane.engine().call(Settle { settlements }).await.unwrap();
        frame.next(snapshot().await);
        frame
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[tokio::test]
    async fn a_frame_fits_every_terminal_and_shows_the_largest_groups() {
        let frame = frame().await;
        for (width, height) in [(200, 60), (80, 24), (60, 16), (40, 12), (20, 6), (5, 2), (1, 1)] {
            let text = frame.text(Size { width, height }, false);
            assert!(widest(&text) <= width, "{width}: {text}");
            assert!(text.lines().count() <= height, "{height}: {text}");
            assert!(!text.contains('\x1b'));
        }
        let text = frame.text(Size { width: 80, height: 24 }, false);
        let first = text.lines().position(|line| line.starts_with("group ")).unwrap() + 1;
        let largest = &frame.now.groups[0].line;
        let line = text.lines().nth(first).unwrap();
        assert!(line.contains(&thousands(largest.backlog)), "{text}");
        assert!(text.contains("groups") && text.contains("jobs/s") && text.contains('…'), "{text}");
    }

    #[tokio::test]
    async fn shares_are_parts_of_the_jobs_done_since_the_previous_snapshot() {
        let frame = frame().await;
        let text = frame.text(Size { width: 120, height: 60 }, false);
        let shares: u64 = text
            .lines()
            .filter_map(|line| line.split_once(" %")?.0.rsplit(' ').next()?.parse::<u64>().ok())
            .sum();
        assert!((80..=120).contains(&shares), "rounded shares add up to about a hundred: {shares}\n{text}");
    }

    #[tokio::test]
    async fn a_problem_is_shown_and_colours_can_be_turned_off() {
        let mut frame = frame().await;
        frame.failed("the queue does not respond".to_owned());
        let size = Size { width: 100, height: 40 };
        assert!(frame.text(size, true).contains("\x1b[31mthe queue does not respond\x1b[0m"));
        assert!(!frame.text(size, false).contains('\x1b'));
    }

    #[tokio::test]
    async fn keys_sort_filter_and_select() {
        let mut frame = frame().await;
        frame.set_live();
        let size = Size { width: 100, height: 60 };
        let press = |frame: &mut Frame, keys: &str| keys.bytes().map(|key| frame.press(key)).last().unwrap();
        assert_eq!(press(&mut frame, "p"), Pressed::Nothing, "nothing is selected");
        press(&mut frame, "/name-1q\n");
        let text = frame.text(size, false);
        assert!(text.contains("no group here matches the filter"), "{text}");
        press(&mut frame, "/\x7f\n");
        press(&mut frame, "ss");
        let text = frame.text(size, false);
        let names = text.lines().filter(|line| line.contains("name-1")).count();
        assert!(names > 1 && !text.contains("name-29") && text.contains("s sort: name"), "{text}");
        press(&mut frame, "jj\x1b[A\x1b[B");
        let Pressed::Pause(group, true) = press(&mut frame, "p") else { panic!("a group is selected") };
        assert!(frame.text(size, false).contains(&format!("> {group}")));
        frame.set_paused(&group, true);
        assert_eq!(press(&mut frame, "p"), Pressed::Pause(group.clone(), false), "a second key resumes it");
        assert_eq!(press(&mut frame, "w"), Pressed::Why(group));
        frame.say("because".to_owned());
        assert!(frame.text(size, false).lines().nth(1) == Some("because"));
        assert_eq!(press(&mut frame, "q"), Pressed::Quit);
    }

    #[test]
    fn bars_are_proportional_to_their_values() {
        assert_eq!(sparkline(&[0, 7, 14], 10), "▁▄█");
        assert_eq!(sparkline(&[9, 0, 0], 2), "▁▁");
        assert_eq!(sparkline(&[1], 0), "");
    }
}
