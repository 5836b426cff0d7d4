//! The results of all rounds, as a table and as JSON.

use super::Workload;
use super::case::Case;
use super::system::System;
use std::process::Command;

/// All results, with the workload and the systems that were skipped.
pub struct Report {
    pub workload: Workload,
    pub rounds: u32,
    pub rows: Vec<Row>,
    pub skipped: Vec<String>,
}

/// The results of one case, one for each round.
pub struct Row {
    pub case: Case,
    pub rounds: Vec<Figures>,
}

/// The output of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    pub enqueue_s: f64,
    pub drain_s: f64,
    /// The version of the system.
    pub version: String,
}

/// Selects the time to enqueue or the time to drain.
type Phase = fn(&Figures) -> f64;
const ENQUEUE: Phase = |figures| figures.enqueue_s;
const DRAIN: Phase = |figures| figures.drain_s;

impl Figures {
    /// Reads the line that begins with `enqueue_s=`; programs may print others.
    pub fn parse(output: &str) -> Result<Self, String> {
        let line = output.lines().find(|line| line.starts_with("enqueue_s="));
        let line = line.ok_or("its program printed no figures")?;
        let value = |name: &str| {
            let mut pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
            pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        let seconds = |name: &str| value(name)?.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
        let figures = || {
            let version =
                value("version")?.chars().filter(|letter| letter.is_alphanumeric() || *letter == '.');
            Some(Self {
                enqueue_s: seconds("enqueue_s")?,
                drain_s: seconds("drain_s")?,
                version: version.collect(),
            })
        };
        figures().ok_or_else(|| format!("its program printed `{line}`, which has a figure that is no time"))
    }
}

impl Row {
    /// A case without figures.
    pub fn new(case: Case) -> Self {
        Self { case, rounds: Vec::new() }
    }

    fn version(&self) -> &str {
        self.rounds.first().map_or("", |figures| &figures.version)
    }
}

impl Report {
    /// The table, at most 80 columns wide.
    pub fn table(&self) -> String {
        let Workload { jobs, payload_bytes } = self.workload;
        let (jobs, rounds, redis, cores) = (grouped(f64::from(jobs)), self.rounds, redis_version(), cores());
        let mut text = format!("\n{jobs} jobs of {payload_bytes} bytes, ");
        text += &format!("median of {rounds} rounds, Redis {redis}, {cores} cores\n\n");
        text += &line(["system", "enqueue", "customers", "slots", "enqueue/s", "ratio", "drain/s", "ratio"]);
        for row in &self.rows {
            let customers = match row.case.system {
                System::Fairlane => grouped(f64::from(row.case.customers)),
                _ => "–".into(),
            };
            let ratio = |phase| {
                self.range(row, phase).map_or("–".into(), |(low, high)| format!("{low:.2}–{high:.2}"))
            };
            text += &line([
                &format!("{} {}", row.case.system.title(), row.version()),
                row.case.mode.name(),
                &customers,
                &row.case.slots_text(),
                &grouped(self.rate(row, ENQUEUE)),
                &ratio(ENQUEUE),
                &grouped(self.rate(row, DRAIN)),
                &ratio(DRAIN),
            ]);
        }
        text += "\nratio: lowest and highest of a round to Fairlane with 100 customers, the same\nslots and the same kind of enqueue; a range that includes 1 shows no difference\n";
        self.skipped.iter().fold(text, |text, sentence| text + sentence + "\n")
    }

    /// The report as JSON, with the results of each round.
    pub fn json(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(|row| self.json_row(row)).collect();
        let skipped: Vec<String> = self.skipped.iter().map(|sentence| quoted(sentence)).collect();
        format!(
            "{{\"jobs\": {}, \"payload_bytes\": {}, \"rounds\": {}, \"redis\": {}, \"cores\": {},\n \
             \"results\": [\n  {}\n ],\n \"skipped\": [{}]}}\n",
            self.workload.jobs,
            self.workload.payload_bytes,
            self.rounds,
            quoted(&redis_version()),
            cores(),
            rows.join(",\n  "),
            skipped.join(", "),
        )
    }

    fn json_row(&self, row: &Row) -> String {
        let Case { system, mode, customers, .. } = row.case;
        let slots = row.case.slots.map_or("null".into(), |slots| slots.to_string());
        let ratio = |phase| self.ratio(row, phase).map_or("null".into(), |ratio| format!("{ratio:.4}"));
        let seconds = |phase: Phase| {
            let rounds: Vec<String> = row.rounds.iter().map(|round| format!("{:.6}", phase(round))).collect();
            rounds.join(", ")
        };
        format!(
            "{{\"system\": {}, \"version\": {}, \"enqueue\": {}, \"customers\": {customers}, \"slots\": {slots}, \
             \"enqueue_per_s\": {:.0}, \"enqueue_ratio\": {}, \"drain_per_s\": {:.0}, \"drain_ratio\": {}, \
             \"enqueue_s\": [{}], \"drain_s\": [{}]}}",
            quoted(system.title()),
            quoted(row.version()),
            quoted(mode.name()),
            self.rate(row, ENQUEUE),
            ratio(ENQUEUE),
            self.rate(row, DRAIN),
            ratio(DRAIN),
            seconds(ENQUEUE),
            seconds(DRAIN),
        )
    }

    /// Jobs per second.
    fn rate(&self, row: &Row, phase: Phase) -> f64 {
        f64::from(self.workload.jobs) / median(row.rounds.iter().map(phase).collect())
    }

    /// The ratios of each round to Fairlane in the same round, in order; above 1 is faster.
    fn ratios(&self, row: &Row, phase: Phase) -> Option<Vec<f64>> {
        let reference = self.rows.iter().find(|other| other.case == row.case.reference())?;
        let pairs = reference.rounds.iter().zip(&row.rounds);
        let mut ratios: Vec<f64> = pairs.map(|(reference, own)| phase(reference) / phase(own)).collect();
        ratios.sort_by(f64::total_cmp);
        Some(ratios)
    }

    fn ratio(&self, row: &Row, phase: Phase) -> Option<f64> {
        self.ratios(row, phase).map(median)
    }

    /// The lowest and the highest ratio: a range that includes 1 shows no difference.
    fn range(&self, row: &Row, phase: Phase) -> Option<(f64, f64)> {
        let ratios = self.ratios(row, phase)?;
        Some((*ratios.first()?, *ratios.last()?))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => f64::NAN,
        (count, middle) if count % 2 == 1 => values[middle],
        (_, middle) => f64::midpoint(values[middle - 1], values[middle]),
    }
}

fn line(cells: [&str; 8]) -> String {
    let [system, enqueue, customers, slots, enqueue_rate, enqueue_ratio, drain_rate, drain_ratio] = cells;
    format!(
        "{system:<15}{enqueue:>7}{customers:>10}{slots:>8}{enqueue_rate:>10}{enqueue_ratio:>10}{drain_rate:>10}{drain_ratio:>10}\n"
    )
}

/// A number without fraction, with a comma between thousands.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

/// A string of JSON. Control characters become spaces.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace(char::is_control, " "))
}

fn redis_version() -> String {
    let output = Command::new("redis-server").arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("of unknown version").into()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::super::case::CASES;
    use super::*;

    fn figures(enqueue_s: f64, drain_s: f64) -> Figures {
        Figures { enqueue_s, drain_s, version: "5.7.0".into() }
    }

    /// Fairlane takes 1 s to enqueue and 2 s to drain, the others twice as long.
    fn report() -> Report {
        let seconds = |case: Case| if case.system == System::Fairlane { 1.0 } else { 2.0 };
        let row = |case| Row { case, rounds: vec![figures(seconds(case), 2.0 * seconds(case)); 3] };
        let rows = CASES.into_iter().map(row).collect();
        let workload = Workload { jobs: 1_000_000, payload_bytes: 200 };
        Report { workload, rounds: 3, rows, skipped: vec!["Sidekiq is skipped: no \"ruby\"".into()] }
    }

    #[test]
    fn figures_are_found_between_other_lines() {
        let output = "booting\nenqueue_s=0.5 drain_s=1.25 version=5.7.0\"\nbye";
        assert_eq!(Figures::parse(output), Ok(figures(0.5, 1.25)));
    }

    #[test]
    fn output_without_figures_is_refused() {
        assert!(Figures::parse("booting\n").unwrap_err().contains("no figures"));
        for line in
            ["enqueue_s=1 version=1", "enqueue_s=x drain_s=1 version=1", "enqueue_s=0 drain_s=1 version=1"]
        {
            assert!(Figures::parse(line).unwrap_err().contains("no time"), "{line}");
        }
    }

    #[test]
    fn the_table_fits_80_columns_and_ends_with_what_was_skipped() {
        let table = report().table();
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert!(
            table
                .contains("Celery 5.7.0    single         – default   500,000 0.50–0.50   250,000 0.50–0.50"),
            "{table}"
        );
        assert!(table.ends_with("Sidekiq is skipped: no \"ruby\"\n"));
    }

    #[test]
    fn json_has_rates_ratios_and_rounds() {
        let json = report().json();
        let celery = json.lines().find(|line| line.contains("Celery")).unwrap();
        assert!(
            celery.contains("\"slots\": null, \"enqueue_per_s\": 500000, \"enqueue_ratio\": 0.5000"),
            "{celery}"
        );
        assert!(celery.contains("\"drain_s\": [4.000000, 4.000000, 4.000000]"), "{celery}");
        assert!(json.contains(r#""skipped": ["Sidekiq is skipped: no \"ruby\""]"#), "{json}");
    }

    #[test]
    fn a_ratio_compares_the_same_round_and_needs_the_reference() {
        let mut report = report();
        let bullmq = report.rows.iter().position(|row| row.case.system == System::BullMq).unwrap();
        report.rows[bullmq].rounds = vec![figures(1.0, 1.0), figures(4.0, 1.0), figures(10.0, 1.0)];
        assert_eq!(report.ratio(&report.rows[bullmq], ENQUEUE), Some(0.25));
        assert_eq!(report.range(&report.rows[bullmq], ENQUEUE), Some((0.1, 1.0)));
        let row = report.rows.remove(bullmq);
        report.rows.clear();
        assert_eq!(report.ratio(&row, ENQUEUE), None);
    }

    #[test]
    fn medians_and_grouped_numbers() {
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0])), (2.0, 2.5));
        assert_eq!(
            (grouped(7.4), grouped(123_456.0), grouped(1_000.0)),
            ("7".into(), "123,456".into(), "1,000".into())
        );
    }
}
