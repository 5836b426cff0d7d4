//! One frame: a snapshot of the queue, drawn into a buffer of the size of the terminal.

use std::collections::{HashMap, VecDeque};

use fairlane::{GroupId, TypeId, TypeView};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Widget};

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

/// The width of a group's own bars, where there is room for them.
const BARS_WIDTH: std::ops::RangeInclusive<usize> = 12..=40;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const SELECTED: Style = Style::new().add_modifier(Modifier::BOLD.union(Modifier::REVERSED));
const RED: Style = Style::new().fg(Color::Red);
const GREEN: Style = Style::new().fg(Color::Green);
const YELLOW: Style = Style::new().fg(Color::Yellow);

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
    /// Jobs that each group has done between two snapshots, oldest first.
    group_bars: HashMap<GroupId, VecDeque<u64>>,
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
            group_bars: HashMap::new(),
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
        let mut before = std::mem::take(&mut self.group_bars);
        for (group, done) in &self.done {
            let mut bars = before.remove(group).unwrap_or_default();
            bars.push_back(*done);
            if bars.len() > *BARS_WIDTH.end() {
                bars.pop_front();
            }
            self.group_bars.insert(group.clone(), bars);
        }
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

    /// Takes a key.
    pub fn press(&mut self, key: KeyEvent) -> Pressed {
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
    pub fn text(&self, size: Size) -> String {
        let height = size.height.min(self.height());
        let side = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
        let mut buffer = Buffer::empty(Rect::new(0, 0, side(size.width), side(height)));
        self.draw(&mut buffer, false);
        let rows = buffer.content.chunks(usize::from(buffer.area.width).max(1));
        let row = |cells: &[ratatui::buffer::Cell]| {
            let text: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
            text.trim_end().to_owned()
        };
        rows.map(row).collect::<Vec<_>>().join("\n")
    }

    /// The height of a frame that leaves nothing out.
    fn height(&self) -> usize {
        // Three times as much room as types need, since they take at most a third of it.
        8 + self.now.groups.len() + 3 * (self.now.state.types.len() + 2)
    }

    /// Draws the frame over the whole buffer.
    pub fn draw(&self, buffer: &mut Buffer, colours: bool) {
        let area = buffer.area;
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let paint = Paint { colours };
        let (head, warnings) = (self.head(width, paint), self.warnings(width, paint));
        let room = height.saturating_sub(head.len() + warnings.len());
        // Groups matter most, so types take at most a third of the room.
        let types = self.types(width, room / 3, paint);
        let types_height = types.as_ref().map_or(0, |(_, rows)| rows + 2);
        let groups_height =
            room.saturating_sub(types_height).min(self.choice.of(&self.now.groups).len().max(1) + 1);
        let side = |length: usize| Constraint::Length(u16::try_from(length).unwrap_or(u16::MAX));
        let sides = [side(head.len()), side(types_height), side(groups_height), side(warnings.len())];
        let [at_head, at_types, at_groups, at_warnings] = Layout::vertical(sides).areas(area);
        Paragraph::new(head).render(at_head, buffer);
        if let Some((types, _)) = types {
            types.render(at_types, buffer);
        }
        if groups_height > 1 {
            self.groups(width, groups_height, paint).render(at_groups, buffer);
        }
        Paragraph::new(warnings).render(at_warnings, buffer);
    }

    fn head(&self, width: usize, paint: Paint) -> Vec<Line<'static>> {
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
        let bars = sparkline(&self.throughput, width.saturating_sub(rate.chars().count()));
        let title = shortened(&format!("fairlane top  {}", self.title), width);
        let keys = self.answer.clone().unwrap_or_else(|| self.choice.text());
        let keys = self.is_live.then(|| paint.line(DIM, shortened(&keys, width)));
        let figures = [
            Line::from(shortened(&counts, width)),
            Line::from(vec![Span::from(shortened(&rate, width)), Span::styled(bars, paint.style(GREEN))]),
            Line::default(),
        ];
        [paint.line(BOLD, title)].into_iter().chain(keys).chain(figures).collect()
    }

    /// A table of types and the number of its rows, if there is room for it.
    fn types(&self, width: usize, room: usize, paint: Paint) -> Option<(Table<'static>, usize)> {
        if self.now.state.types.is_empty() || room < 3 {
            return None;
        }
        let columns = Columns::new(
            width,
            &[("in flight", 10), ("answered/s", 11), ("rate", 10), ("requested", 11)],
            false,
        );
        let row = |(name, view): &(TypeId, TypeView)| {
            let rate = match (view.settings.paused, view.rate_milli) {
                (true, _) => "paused".to_owned(),
                (_, Some(milli)) => rate_now_text(milli, view.settings.rate),
                (_, None) => "–".to_owned(),
            };
            let asked = view.asked_at.map_or("never".to_owned(), |at| ago(ms_since(at)));
            let cells = [thousands(view.in_flight), thousands(view.answers), rate, asked];
            columns.row(&name.to_string(), &cells, None)
        };
        let rows: Vec<Row<'static>> = self.now.state.types.iter().take(room - 2).map(row).collect();
        let shown = rows.len();
        Some((columns.table("type", rows, paint), shown))
    }

    fn groups(&self, width: usize, room: usize, paint: Paint) -> Table<'static> {
        let names = [("backlog", 12), ("in flight", 10), ("share", 7), ("rate/s", 9), ("congestion", 11)];
        let columns = Columns::new(width, &names, true);
        let shown = self.choice.of(&self.now.groups);
        let selected = shown.iter().position(|one| self.choice.is_selected(&one.line.group));
        // The selected group is always on the screen.
        let skipped = selected.map_or(0, |at| (at + 2).saturating_sub(room));
        let mut rows: Vec<Row<'static>> =
            shown.iter().skip(skipped).take(room - 1).map(|one| self.group(one, &columns, paint)).collect();
        if shown.is_empty() {
            let text = match self.now.groups.is_empty() {
                true => "no group has unfinished jobs",
                false => "no group here matches the filter",
            };
            rows.push(columns.note(&shortened(text, width)));
        }
        columns.table("group", rows, paint)
    }

    fn group(&self, one: &GroupOverview, columns: &Columns, paint: Paint) -> Row<'static> {
        let group = &one.line.group;
        let all: u64 = self.done.values().sum();
        let done = self.done.get(group).copied();
        let share = done.filter(|_| all > 0).map(|done| format!("{:.0} %", done as f64 * 100.0 / all as f64));
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
        let bars: Vec<u64> = self.group_bars.get(group).into_iter().flatten().copied().collect();
        let is_selected = self.choice.is_selected(group);
        let mark = if is_selected { "> " } else { "" };
        let row = columns.row(&format!("{mark}{group}"), &cells, Some(&bars));
        row.style(paint.style(if is_selected { SELECTED } else { colour(one.status()) }))
    }

    fn warnings(&self, width: usize, paint: Paint) -> Vec<Line<'static>> {
        let problem = self.problem.iter().map(|problem| (RED, problem.clone()));
        let warnings = self.now.state.warnings.iter().map(|warning| (YELLOW, format!("warning: {warning}")));
        let lines = problem.chain(warnings).take(3);
        lines.map(|(colour, text)| paint.line(colour, shortened(&text, width))).collect()
    }
}

fn colour(status: &str) -> Style {
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
    fn style(self, style: Style) -> Style {
        if self.colours { style } else { PLAIN }
    }

    fn line(self, style: Style, text: String) -> Line<'static> {
        Line::styled(text, self.style(style))
    }
}

/// The columns of a table: a name at the left, numbers at the right, and bars if there is room. Numbers
/// that do not fit are left out.
struct Columns {
    name_width: usize,
    cells: Vec<(&'static str, usize)>,
    bars_width: usize,
}

impl Columns {
    fn new(width: usize, cells: &[(&'static str, usize)], has_bars: bool) -> Self {
        let mut cells = cells.to_vec();
        let sum = |cells: &[(&str, usize)]| cells.iter().map(|(_, width)| width).sum::<usize>();
        while !cells.is_empty() && sum(&cells) + NAME_WIDTH_MIN > width {
            cells.pop();
        }
        let rest = width.saturating_sub(sum(&cells));
        // A space stands before the bars.
        let has_bars = has_bars && rest >= 2 * NAME_WIDTH_MIN + 1 + BARS_WIDTH.start();
        let bars_least = if has_bars { 1 + BARS_WIDTH.start() } else { 0 };
        let name_width = (rest - bars_least).min(NAME_WIDTH_MAX);
        let bars_width = if has_bars { (rest - name_width - 1).min(*BARS_WIDTH.end()) } else { 0 };
        Self { name_width, cells, bars_width }
    }

    fn row(&self, name: &str, cells: &[String], bars: Option<&[u64]>) -> Row<'static> {
        let name = Cell::from(shortened(name, self.name_width));
        let cells = cells
            .iter()
            .zip(&self.cells)
            .map(|(cell, (_, width))| Cell::from(Text::from(shortened(cell, width - 1)).right_aligned()));
        let bars = bars.filter(|_| self.bars_width > 0);
        let bars = bars.map(|bars| Cell::from(format!(" {}", sparkline(bars, self.bars_width))));
        Row::new([name].into_iter().chain(cells).chain(bars))
    }

    /// A row with a sentence, which may be wider than a name.
    fn note(&self, text: &str) -> Row<'static> {
        let cut = text.char_indices().nth(self.name_width).map_or(text.len(), |(at, _)| at);
        let (name, rest) = text.split_at(cut);
        let mut rest = rest.chars();
        let cells: Vec<Cell<'static>> = self
            .cells
            .iter()
            .map(|(_, width)| Cell::from(rest.by_ref().take(*width).collect::<String>()))
            .collect();
        Row::new([Cell::from(name.to_owned())].into_iter().chain(cells))
    }

    fn table(&self, name: &str, rows: Vec<Row<'static>>, paint: Paint) -> Table<'static> {
        let names: Vec<String> = self.cells.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut heading = self.row(name, &names, None);
        if self.bars_width > 0 {
            let name = Cell::from(shortened(name, self.name_width));
            let cells = self.cells.iter().map(|(name, _)| Cell::from(Text::from(*name).right_aligned()));
            heading = Row::new([name].into_iter().chain(cells).chain([Cell::from(" jobs done")]));
        }
        let side = |length: usize| Constraint::Length(u16::try_from(length).unwrap_or(u16::MAX));
        let bars = (self.bars_width > 0).then(|| side(self.bars_width + 1));
        let widths: Vec<Constraint> = [side(self.name_width)]
            .into_iter()
            .chain(self.cells.iter().map(|(_, width)| side(*width)))
            .chain(bars)
            .collect();
        Table::new(rows, widths).column_spacing(0).header(heading.style(paint.style(DIM)))
    }
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
    use std::time::Duration;

    use fairlane::{Fairlane, Job, Outcome};
    use ratatui::crossterm::event::{KeyCode, KeyModifiers};

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
        let leases = fairlane.leases();
        let jobs = leases.leaser("w", ["mail"]).unwrap().lease(165, Duration::ZERO).await.unwrap();
        leases.settle(jobs.iter().map(|job| Outcome::done(&()).settlement(job))).await.unwrap();
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
            let text = frame.text(Size { width, height });
            assert!(widest(&text) <= width, "{width}: {text}");
            assert!(text.lines().count() <= height, "{height}: {text}");
            assert!(!text.contains('\x1b'));
        }
        let text = frame.text(Size { width: 80, height: 24 });
        let first = text.lines().position(|line| line.starts_with("group ")).unwrap() + 1;
        let largest = &frame.now.groups[0].line;
        let line = text.lines().nth(first).unwrap();
        assert!(line.contains(&thousands(largest.backlog)), "{text}");
        assert!(text.contains("groups") && text.contains("jobs/s") && text.contains('…'), "{text}");
    }

    #[tokio::test]
    async fn shares_are_parts_of_the_jobs_done_since_the_previous_snapshot() {
        let frame = frame().await;
        let text = frame.text(Size { width: 120, height: 60 });
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
        let drawn = |colours: bool| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 100, 40));
            frame.draw(&mut buffer, colours);
            buffer
        };
        let red = |buffer: &Buffer| -> String {
            let cells = buffer.content.iter().filter(|cell| cell.fg == Color::Red);
            cells.map(ratatui::buffer::Cell::symbol).collect()
        };
        assert!(red(&drawn(true)).starts_with("the queue does not respond"));
        let plain = drawn(false);
        assert!(plain.content.iter().all(|cell| cell.style() == ratatui::buffer::Cell::EMPTY.style()));
        assert!(frame.text(Size { width: 100, height: 40 }).contains("the queue does not respond"));
    }

    #[tokio::test]
    async fn keys_sort_filter_and_select() {
        let mut frame = frame().await;
        frame.set_live();
        let size = Size { width: 100, height: 60 };
        let press = |frame: &mut Frame, keys: &str| {
            let key = |key: char| match key {
                '\n' => KeyCode::Enter,
                '\x7f' => KeyCode::Backspace,
                '↑' => KeyCode::Up,
                '↓' => KeyCode::Down,
                key => KeyCode::Char(key),
            };
            keys.chars().map(|one| frame.press(key(one).into())).last().unwrap()
        };
        assert_eq!(press(&mut frame, "p"), Pressed::Nothing, "nothing is selected");
        press(&mut frame, "/name-1q\n");
        let text = frame.text(size);
        assert!(text.contains("no group here matches the filter"), "{text}");
        press(&mut frame, "/\x7f\n");
        press(&mut frame, "ss");
        let text = frame.text(size);
        let names = text.lines().filter(|line| line.contains("name-1")).count();
        assert!(names > 1 && !text.contains("name-29") && text.contains("s sort: name"), "{text}");
        press(&mut frame, "jj↑↓");
        let Pressed::Pause(group, true) = press(&mut frame, "p") else { panic!("a group is selected") };
        assert!(frame.text(size).contains(&format!("> {group}")));
        frame.set_paused(&group, true);
        assert_eq!(press(&mut frame, "p"), Pressed::Pause(group.clone(), false), "a second key resumes it");
        assert_eq!(press(&mut frame, "w"), Pressed::Why(group));
        frame.say("because".to_owned());
        assert!(frame.text(size).lines().nth(1) == Some("because"));
        assert_eq!(press(&mut frame, "q"), Pressed::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut frame, "/");
        assert_eq!(frame.press(interrupt), Pressed::Quit, "also while a filter is typed");
    }

    #[tokio::test]
    async fn each_group_has_bars_and_the_selected_one_stays_on_the_screen() {
        let mut frame = frame().await;
        frame.set_live();
        for _ in 0..GROUPS {
            frame.press(KeyCode::Down.into());
        }
        let text = frame.text(Size { width: 100, height: 14 });
        let selected = text.lines().find(|line| line.starts_with("> ")).unwrap();
        assert!(text.contains("jobs done") && BARS.iter().any(|bar| selected.ends_with(*bar)), "{text}");
        assert_eq!(frame.group_bars.len(), frame.now.groups.len());
    }

    #[test]
    fn bars_are_proportional_to_their_values() {
        assert_eq!(sparkline(&[0, 7, 14], 10), "▁▄█");
        assert_eq!(sparkline(&[9, 0, 0], 2), "▁▁");
        assert_eq!(sparkline(&[1], 0), "");
    }
}
