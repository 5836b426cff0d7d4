//! Every table that the program prints, and the formatting of numbers.
//!
//! - `tables/layout.rs`: fits tables and prose to the terminal.

mod layout;

use fairlane_simulator::{PartReport, compared_rows, group_rows, summary_rows};

use crate::commands::bench::result::BenchResult;
use crate::commands::demo::report::DemoReport;
use crate::escape;
use layout::Grid;
pub use layout::{facts, prose};

/// Groups of a part in the table at most; JSON contains all of them.
const GROUPS_SHOWN: usize = 20;
/// Groups of a part in a comparison at most; each takes several rows.
const GROUPS_COMPARED: usize = 6;

/// The result of the demo.
pub fn demo(report: &DemoReport) -> String {
    let headings = ["group", "jobs", "wait p50", "wait p99", "in a plain queue", "finished"];
    let mut table = Grid::of_numbers(&headings);
    for group in &report.groups {
        let jobs = match group.completed == group.enqueued {
            true => thousands(group.enqueued),
            false => format!("{} of {}", thousands(group.completed), thousands(group.enqueued)),
        };
        table.add_row(vec![
            group.group.clone(),
            jobs,
            or_dash(group.wait_p50_ms, milliseconds),
            or_dash(group.wait_p99_ms, milliseconds),
            or_dash(group.plain_wait_p50_ms, milliseconds),
            or_dash(group.finished_place, ordinal),
        ]);
    }
    let completed: u64 = report.groups.iter().map(|group| group.completed).sum();
    let mut lines = vec![table.to_string()];
    if report.is_sound() {
        lines.push(format!(
            "Nothing lost or run twice: {} in {:.1} s ({} per second), {}.",
            counted(completed, "job"),
            report.seconds,
            thousands((completed as f64 / report.seconds.max(0.001)) as u64),
            report.engine
        ));
    }
    lines.join("\n")
}

/// The result of a simulation: the groups of each part, then the parts side by side.
pub fn simulate(reports: &[PartReport]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for report in reports {
        parts.push(format!("{}: {} ({})", report.scenario, report.part, report.discipline));
        parts.push(rows(group_rows(report, GROUPS_SHOWN)) + "\n");
    }
    parts.push(rows(summary_rows(reports)));
    parts.join("\n")
}

/// Runs of one scenario under several disciplines side by side, one table per part.
pub fn compared(runs: &[Vec<PartReport>]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for number in 0..runs.iter().map(Vec::len).min().unwrap_or(0) {
        let reports: Vec<&PartReport> = runs.iter().map(|run| &run[number]).collect();
        parts.push(format!("{}: {}", reports[0].scenario, reports[0].part));
        parts.push(rows(compared_rows(&reports, GROUPS_COMPARED)) + "\n");
    }
    parts.join("\n").trim_end().to_owned()
}

/// A table whose first row is the heading.
fn rows(rows: Vec<Vec<String>>) -> String {
    let mut rows = rows.into_iter();
    let heading = rows.next().unwrap_or_default();
    let mut table = Grid::of_numbers(&heading.iter().map(String::as_str).collect::<Vec<_>>());
    rows.for_each(|row| table.add_row(row));
    table.to_string()
}

/// A table of left-aligned texts; the last column may be prose.
pub fn texts(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    texts_within(header, &[], rows)
}

/// A table of texts that drops the optional columns where it is too wide, the first one first.
pub fn texts_within(
    header: &[&str],
    optional: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    Grid::of_texts(header, rows.into_iter().collect()).optional(optional).to_string()
}

/// The text on one line; if it is longer than `width` characters, its beginning and an ellipsis.
pub fn shortened(text: &str, width: usize) -> String {
    let text = escape::line(text);
    if text.chars().count() <= width {
        return text.into_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { String::new() } else { format!("{kept}…") }
}

/// How long ago something was, in the largest useful unit.
pub fn ago(ms: u64) -> String {
    match ms {
        0..=1_999 => "just now".to_owned(),
        2_000..=119_999 => format!("{} s ago", ms / 1000),
        120_000..=7_199_999 => format!("{} min ago", ms / 60_000),
        7_200_000..=172_799_999 => format!("{} h ago", ms / 3_600_000),
        _ => format!("{} d ago", ms / 86_400_000),
    }
}

/// The results of the benchmarks: throughput, then latency and memory where they were measured.
pub fn bench(results: &[BenchResult]) -> String {
    let parts = [throughput(results), latency(results), cancel(results), memory(results), list(results)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// A column: its heading, and a function for its cell, which may be empty.
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

/// Leaves out columns that are empty in every row.
fn throughput(results: &[BenchResult]) -> Option<String> {
    let results: Vec<&BenchResult> = results
        .iter()
        .filter(|result| result.jobs_per_second.is_some() && result.cancel_ms.is_none())
        .collect();
    let filled = |(_, write): &&Column| results.iter().any(|result| write(result).is_some());
    let columns: Vec<&Column> = THROUGHPUT.iter().filter(filled).collect();
    let mut table = Grid::of_numbers(&columns.iter().map(|(heading, _)| *heading).collect::<Vec<_>>());
    for result in &results {
        table
            .add_row(columns.iter().map(|(_, write)| write(result).unwrap_or_else(dash)).collect::<Vec<_>>());
    }
    let legend = "ratio: the floor's cost divided by the queue's, so that 1 is as cheap as the floor. On Redis the cost is \
                  server time per job, elsewhere elapsed time.\nThe floor has no groups, limits, retries, retention or wake-ups.";
    (!results.is_empty()).then(|| format!("{table}\n{legend}"))
}

fn latency(results: &[BenchResult]) -> Option<String> {
    let mut table = Grid::of_numbers(&[
        "benchmark",
        "engine",
        "p50 µs",
        "floor p50 µs",
        "p99 µs",
        "floor p99 µs",
        "ratio of p50",
    ]);
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
    let legend = "From enqueue to the start of the handler. The floor is one hand-off to a waiting task and one round trip.";
    (!table.is_empty()).then(|| format!("{table}\n{legend}"))
}

fn cancel(results: &[BenchResult]) -> Option<String> {
    let mut table = Grid::of_numbers(&[
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
    let legend = "Batches of ten jobs of another group are leased and settled before the cancellation, and between the \
                  janitor's steps of 200 jobs.";
    (!table.is_empty()).then(|| format!("{table}\n{legend}"))
}

fn memory(results: &[BenchResult]) -> Option<String> {
    let result = results.iter().find(|result| result.bytes_per_job.is_some())?;
    Some(format!(
        "memory: {} bytes per waiting job in addition to its payload (floor {}), over {}.",
        or_dash(result.bytes_per_job, |bytes| format!("{bytes:.0}")),
        or_dash(result.floor_bytes_per_job, |bytes| format!("{bytes:.0}")),
        counted(result.jobs as u64, "job")
    ))
}

fn list(results: &[BenchResult]) -> Option<String> {
    let of =
        |name: &str| results.iter().find(|result| result.name == name && result.list_per_second.is_some());
    let sentence = |result: &BenchResult, command: &str| {
        let rate = or_dash(result.list_per_second, |rate| thousands(rate as u64));
        let us = or_dash(result.list_us_per_job, |us| format!("{us:.2}"));
        format!(
            "{command} in pipelines, without ids or leases: {rate} per second, {us} µs each on the server."
        )
    };
    let lines = [("enqueue", "LPUSH"), ("drain", "RPOP")];
    let lines = lines.into_iter().filter_map(|(name, command)| Some(sentence(of(name)?, command)));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Formats 1234567 as `1,234,567`.
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

/// Formats a number of bytes: `999 bytes`, `1.5 KiB`, `4.0 GiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, size)| number >= *size);
    unit.map_or(counted(number, "byte"), |(name, size)| format!("{:.1} {name}", number as f64 / *size as f64))
}

/// Formats a number with its noun: `1 lane`, `1,234 lanes`.
pub fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{} {what}s", thousands(number)) }
}

/// Formats 1 as `1st`, 2 as `2nd`, 11 as `11th`.
fn ordinal(number: usize) -> String {
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// Formats a duration in milliseconds, with a decimal below 10 ms.
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
    fn shortened_text_ends_with_an_ellipsis_and_fits() {
        assert_eq!(["", "a", "ab", "abc"].map(|text| shortened(text, 2)), ["", "a", "ab", "a…"]);
        assert_eq!((shortened("abc", 1).as_str(), shortened("abc", 0).as_str()), ("…", ""));
    }

    #[test]
    fn bytes_are_formatted_in_the_largest_unit_that_fits() {
        let written = [0, 1, 999, 1536, 5 << 20, 4 << 30].map(bytes);
        assert_eq!(written, ["0 bytes", "1 byte", "999 bytes", "1.5 KiB", "5.0 MiB", "4.0 GiB"]);
    }

    #[test]
    fn thousands_are_separated() {
        let written = [0, 999, 1000, 123_456, 1_234_567].map(thousands);
        assert_eq!(written, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn ordinals_have_the_english_suffix() {
        let written = [1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 26].map(ordinal);
        let expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "26th"];
        assert_eq!(written, expected);
    }
}
