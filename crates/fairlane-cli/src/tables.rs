//! Every table the program prints, and how it writes numbers.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use fairlane_simulator::{PartReport, compared_rows, group_rows, summary_rows};

use crate::commands::bench::result::BenchResult;
use crate::commands::demo::report::DemoReport;

/// A line below the heading, and nothing else.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
/// Most groups shown of one part; JSON has them all.
const GROUPS_SHOWN: usize = 20;
/// Groups of a part that are compared, with several rows each.
const GROUPS_COMPARED: usize = 6;

/// A table with its first column to the left and numbers to the right, no wider than the terminal that shows it. What
/// goes into a file or a pipe has a line for each row.
fn table(header: &[&str]) -> Table {
    let width = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0);
    table_within(header, width)
}

fn table_within(header: &[&str], width: Option<u16>) -> Table {
    let mut table = Table::new();
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.load_style(STYLE).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The demo's outcome.
pub fn demo(report: &DemoReport) -> String {
    let mut table =
        table(&["customer", "done", "wait p50", "wait p99", "share¹", "arrived", "last done", "finished"]);
    for group in &report.groups {
        table.add_row(vec![
            group.group.clone(),
            format!("{} of {}", thousands(group.completed), thousands(group.enqueued)),
            or_dash(group.wait_p50_ms, milliseconds),
            or_dash(group.wait_p99_ms, milliseconds),
            or_dash(group.share_while_all_waited, |share| format!("{:.0} %", share * 100.0)),
            or_dash(group.arrived_ms, milliseconds),
            or_dash(group.last_done_ms, milliseconds),
            group.finished_place.map_or_else(dash, |place| format!("{place}.")),
        ]);
    }
    let completed: u64 = report.groups.iter().map(|group| group.completed).sum();
    let mut lines = vec![table.to_string(), "¹ of all starts while every customer had jobs waiting".into()];
    if report.is_sound() {
        lines.push(format!(
            "Nothing lost, nothing twice: {} jobs in {:.1} s ({} a second) on {}, as counted by the handlers, \
             the settlements and the store.",
            thousands(completed),
            report.seconds,
            thousands((completed as f64 / report.seconds.max(0.001)) as u64),
            report.engine
        ));
    }
    lines.join("\n")
}

/// A simulation's outcome: the groups of each part, then the parts side by side.
pub fn simulate(reports: &[PartReport]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for report in reports {
        parts.push(format!("{}: {} ({})", report.scenario, report.part, report.discipline));
        parts.push(rows(group_rows(report, GROUPS_SHOWN)) + "\n");
    }
    parts.push(rows(summary_rows(reports)));
    parts.join("\n")
}

/// Runs of one scenario under several rules side by side, a table for each part.
pub fn compared(runs: &[Vec<PartReport>]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for number in 0..runs.iter().map(Vec::len).min().unwrap_or(0) {
        let reports: Vec<&PartReport> = runs.iter().map(|run| &run[number]).collect();
        parts.push(format!("{}: {}", reports[0].scenario, reports[0].part));
        parts.push(rows(compared_rows(&reports, GROUPS_COMPARED)) + "\n");
    }
    parts.join("\n").trim_end().to_owned()
}

/// A table of rows whose first is the heading.
fn rows(rows: Vec<Vec<String>>) -> String {
    let mut rows = rows.into_iter();
    let heading = rows.next().unwrap_or_default();
    let mut table = table(&heading.iter().map(String::as_str).collect::<Vec<_>>());
    table.add_rows(rows);
    table.to_string()
}

/// A table of texts, all to the left. In a terminal that is too narrow names are shortened and the last column is
/// wrapped; what goes into a file or a pipe is whole.
pub fn texts(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let width = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0);
    texts_within(header, rows.into_iter().collect(), width)
}

fn texts_within(header: &[&str], rows: Vec<Vec<String>>, width: Option<u16>) -> String {
    let mut table = table_within(header, width);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table.add_rows(match width {
        Some(width) => fitted(header, rows, width.into()),
        None => rows,
    });
    table.to_string()
}

/// What a column has beside its text.
const PADDING: usize = 3;
/// No column is made narrower than this for the sake of others.
const SHORTENED_LEAST: usize = 12;

/// Rows whose widest cells are shortened until a line fits; the last column has the rest, and is wrapped.
fn fitted(header: &[&str], mut rows: Vec<Vec<String>>, width: usize) -> Vec<Vec<String>> {
    let length = |text: &str| text.chars().count();
    let widest = |column: usize, rows: &[Vec<String>]| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| length(cell));
        cells.chain([length(header[column])]).max().unwrap_or(0)
    };
    let last = header.len() - 1;
    let mut widths: Vec<usize> = (0..header.len()).map(|column| widest(column, &rows)).collect();
    // A last column of prose can be wrapped; what it needs at least is a few words.
    let needed = |widths: &[usize]| {
        let others: usize = widths[..last].iter().sum();
        others + widths[last].min(SHORTENED_LEAST * 2) + widths.len() * PADDING
    };
    while needed(&widths) > width {
        let Some(column) = (0..last).max_by_key(|column| widths[*column]) else { break };
        if widths[column] <= SHORTENED_LEAST {
            break;
        }
        widths[column] -= 1;
    }
    for row in &mut rows {
        for (cell, width) in row.iter_mut().zip(&widths).take(last) {
            *cell = shortened(cell, *width);
        }
    }
    rows
}

/// The text, or its beginning and a sign that there was more.
pub fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { String::new() } else { format!("{kept}…") }
}

/// How long ago something was, as exact as one cares.
pub fn ago(ms: u64) -> String {
    match ms {
        0..=1_999 => "just now".to_owned(),
        2_000..=119_999 => format!("{} s ago", ms / 1000),
        120_000..=7_199_999 => format!("{} min ago", ms / 60_000),
        7_200_000..=172_799_999 => format!("{} h ago", ms / 3_600_000),
        _ => format!("{} d ago", ms / 86_400_000),
    }
}

/// The benchmark's outcome: throughput, then latency and memory where they were measured.
pub fn bench(results: &[BenchResult]) -> String {
    let parts = [throughput(results), latency(results), cancel(results), memory(results), list(results)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// A column: its heading, and what stands in it, if anything.
type Column = (&'static str, fn(&BenchResult) -> Option<String>);

const THROUGHPUT: [Column; 11] = [
    ("benchmark", |result| Some(result.name.clone())),
    ("engine", |result| Some(result.engine.to_owned())),
    ("groups", |result| Some(thousands(result.groups as u64))),
    ("jobs", |result| Some(thousands(result.jobs as u64))),
    ("jobs/s", |result| result.jobs_per_second.map(|rate| thousands(rate as u64))),
    ("floor/s", |result| result.floor_per_second.map(|rate| thousands(rate as u64))),
    ("µs/job", |result| result.server_us_per_job.map(|us| format!("{us:.2}"))),
    ("floor", |result| result.floor_us_per_job.map(|us| format!("{us:.2}"))),
    ("ratio", |result| result.floor_ratio.map(|ratio| format!("{ratio:.2}"))),
    ("calls/job", |result| result.calls_per_job.map(|calls| format!("{calls:.2}"))),
    ("script p99.9", |result| result.script_p999_ms.map(|ms| format!("≤ {ms:.2} ms"))),
];

/// Columns that are empty everywhere are left out.
fn throughput(results: &[BenchResult]) -> Option<String> {
    let results: Vec<&BenchResult> = results
        .iter()
        .filter(|result| result.jobs_per_second.is_some() && result.cancel_ms.is_none())
        .collect();
    let filled = |(_, write): &&Column| results.iter().any(|result| write(result).is_some());
    let columns: Vec<&Column> = THROUGHPUT.iter().filter(filled).collect();
    let mut table = table(&columns.iter().map(|(heading, _)| *heading).collect::<Vec<_>>());
    for result in &results {
        table
            .add_row(columns.iter().map(|(_, write)| write(result).unwrap_or_else(dash)).collect::<Vec<_>>());
    }
    let legend = "ratio: the floor's cost over ours, so that 1 is as cheap as the floor; on Redis of µs of server time \
                  per job, elsewhere of elapsed time.\nThe floor has no groups, limits, retries, retention or wake-ups.";
    (!results.is_empty()).then(|| format!("{table}\n{legend}"))
}

fn latency(results: &[BenchResult]) -> Option<String> {
    let mut table =
        table(&["benchmark", "engine", "p50 µs", "floor p50 µs", "p99 µs", "floor p99 µs", "ratio of p50"]);
    let is_latency = |result: &&BenchResult| result.latency_p50_us.is_some() && result.cancel_ms.is_none();
    for result in results.iter().filter(is_latency) {
        let columns = [
            result.latency_p50_us,
            result.floor_latency_p50_us,
            result.latency_p99_us,
            result.floor_latency_p99_us,
        ];
        let mut row = vec![result.name.clone(), result.engine.to_owned()];
        row.extend(columns.map(|us| or_dash(us, |us| thousands(us as u64))));
        row.push(or_dash(result.floor_ratio, |ratio| format!("{ratio:.2}")));
        table.add_row(row);
    }
    let legend = "From enqueue to the start of the handler; the floor is one hand-off to a waiting task and one round trip.";
    (!table.is_empty()).then(|| format!("{table}\n{legend}"))
}

fn cancel(results: &[BenchResult]) -> Option<String> {
    let mut table = table(&[
        "benchmark",
        "engine",
        "answered",
        "swept/s",
        "lease p50",
        "before",
        "lease p99",
        "before",
        "script p99.9",
    ]);
    for result in results.iter().filter(|result| result.cancel_ms.is_some()) {
        let ms = |us: Option<f64>| or_dash(us, |us| format!("{:.2} ms", us / 1000.0));
        table.add_row(vec![
            result.name.clone(),
            result.engine.to_owned(),
            or_dash(result.cancel_ms, |ms| format!("{ms:.2} ms")),
            or_dash(result.jobs_per_second, |rate| thousands(rate as u64)),
            ms(result.latency_p50_us),
            ms(result.floor_latency_p50_us),
            ms(result.latency_p99_us),
            ms(result.floor_latency_p99_us),
            or_dash(result.script_p999_ms, |ms| format!("≤ {ms:.2} ms")),
        ]);
    }
    let legend = "Another group's batches of ten are leased and settled between the janitor's steps of 200 jobs, and before.";
    (!table.is_empty()).then(|| format!("{table}\n{legend}"))
}

fn memory(results: &[BenchResult]) -> Option<String> {
    let result = results.iter().find(|result| result.bytes_per_job.is_some())?;
    Some(format!(
        "memory: {} bytes per waiting job beyond its payload (floor {}), over {} jobs.",
        or_dash(result.bytes_per_job, |bytes| format!("{bytes:.0}")),
        or_dash(result.floor_bytes_per_job, |bytes| format!("{bytes:.0}")),
        thousands(result.jobs as u64)
    ))
}

fn list(results: &[BenchResult]) -> Option<String> {
    let of =
        |name: &str| results.iter().find(|result| result.name == name && result.list_per_second.is_some());
    let sentence = |result: &BenchResult, command: &str| {
        let rate = or_dash(result.list_per_second, |rate| thousands(rate as u64));
        let us = or_dash(result.list_us_per_job, |us| format!("{us:.2}"));
        format!("{command} in pipelines, without ids or leases: {rate} a second, {us} µs each on the server.")
    };
    let lines = [("enqueue", "LPUSH"), ("drain", "RPOP")];
    let lines = lines.into_iter().filter_map(|(name, command)| Some(sentence(of(name)?, command)));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// 1234567 as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut written = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

/// `1 lane`, `1,234 lanes`.
pub fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{} {what}s", thousands(number)) }
}

/// A length of time in milliseconds, as exact as it is long.
pub fn milliseconds(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{} ms", thousands(ms.round() as u64)) }
}

fn or_dash<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or_else(dash, write)
}

fn dash() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_wider_than_the_terminal_is_wrapped_and_one_without_a_terminal_is_not() {
        let widest = |width: Option<u16>| {
            let mut table = table_within(&["job", "problem"], width);
            table.add_row(vec!["order-1".to_owned(), "it never works ".repeat(20)]);
            let lines: Vec<usize> = table.to_string().lines().map(|line| line.chars().count()).collect();
            (lines.len() > 3, lines.into_iter().max() > Some(80))
        };
        assert_eq!(widest(Some(80)), (true, false));
        assert_eq!(widest(None), (false, true));
    }

    #[test]
    fn long_names_are_shortened_in_a_terminal_and_whole_in_a_pipe() {
        let rows =
            || vec![vec!["c".repeat(90), "j".repeat(60), "mail".to_owned(), "it never works".repeat(9)]];
        let header = ["customer", "job", "type", "problem"];
        let narrow = texts_within(&header, rows(), Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains("ccc…") && narrow.contains("jjj…") && narrow.contains("mail"), "{narrow}");
        assert!(texts_within(&header, rows(), Some(400)).contains(&"c".repeat(90)));
        let piped = texts_within(&header, rows(), None);
        assert!(!piped.contains('…') && piped.lines().count() == 3, "{piped}");
        assert!(texts_within(&header, rows(), Some(20)).contains('…'));
    }

    #[test]
    fn what_is_shortened_says_so_and_never_grows() {
        assert_eq!(["", "a", "ab", "abc"].map(|text| shortened(text, 2)), ["", "a", "ab", "a…"]);
        assert_eq!((shortened("abc", 1).as_str(), shortened("abc", 0).as_str()), ("…", ""));
    }

    #[test]
    fn thousands_are_set_apart() {
        let written = [0, 999, 1000, 123_456, 1_234_567].map(thousands);
        assert_eq!(written, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }
}
