//! `fairlane simulate`: simulates the queue in virtual time.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fairlane_core::queue::Discipline;
use fairlane_simulator::{ClassicLayer, Overlay, PartReport, Progress, Scenario, plot_svg, run as play};

use crate::failure::Failure;
use crate::{output, tables};

const EXAMPLES: &str = "\
Examples:
  fairlane simulate equals
  fairlane simulate flood --plot flood.svg
  fairlane simulate late --discipline classic --alpha -10000
  fairlane simulate late --compare
  fairlane simulate late --compare=fifo --plot late.svg
  fairlane simulate my-customers.toml --json

Built-in scenarios:
  backoff, congestion, equals, flood, late, leftovers, levels, neighbours, newcomers, paused, \
premium, trickle, unknown-limit, weights

Exit codes: 0 success; 1 failure; 2 invalid scenario or bad input.";

/// The values of alpha that `--compare` shows beside a plain queue and `share`.
const COMPARED_ALPHAS: [i64; 3] = [10_000, 0, -10_000];

/// Simulates a scenario in virtual time: days in seconds, with reproducible results
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Path of a TOML file, or name of a built-in scenario
    scenario: String,
    /// Draw the completions over time into this SVG file
    #[arg(long, value_name = "OUT.SVG")]
    plot: Option<PathBuf>,
    /// Print a JSON array with one object per part
    #[arg(long)]
    json: bool,
    /// Discipline that replaces the one of the scenario
    #[arg(long, value_enum, conflicts_with = "compare")]
    discipline: Option<Rules>,
    /// Compare `share` with a plain queue (fifo), or also with `classic` at alpha 10000, 0 and -10000
    #[arg(long, value_enum, value_name = "WITH", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    compare: Option<Compared>,
    #[command(flatten)]
    classic: ClassicArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rules {
    Share,
    Classic,
    Fifo,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compared {
    All,
    Fifo,
}

/// The options that `[classic]` of a scenario can set too.
#[derive(Args)]
#[command(next_help_heading = "Options of the classic discipline")]
struct ClassicArguments {
    /// Weight of the progress in a score [default: the scenario's, or 10000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "compare")]
    alpha: Option<i64>,
    /// Jobs per second over all groups [default: the scenario's, its rate, or 10000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    global_rps: Option<u64>,
    /// Interval between fetches of jobs from their lanes [default: 200]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    fetch_interval_ms: Option<u64>,
    /// Number of jobs per fetch [default: 50]
    #[arg(long, value_name = "N", alias = "fetch-batch-size", allow_negative_numbers = true)]
    fetch_batch: Option<u64>,
    /// Interval between dispatches of jobs whose backoff is over [default: 100]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    dispatch_interval_ms: Option<u64>,
    /// Number of jobs per dispatch [default: 100]
    #[arg(long, value_name = "N", alias = "dispatch-batch-size", allow_negative_numbers = true)]
    dispatch_batch: Option<u64>,
}

impl ClassicArguments {
    fn layer(&self) -> ClassicLayer {
        ClassicLayer {
            alpha: self.alpha,
            global_rps: self.global_rps,
            fetch_interval_ms: self.fetch_interval_ms,
            fetch_batch_size: self.fetch_batch,
            dispatch_interval_ms: self.dispatch_interval_ms,
            dispatch_batch_size: self.dispatch_batch,
            ..ClassicLayer::default()
        }
    }
}

/// Runs the simulation and prints its result.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut runs: Vec<Vec<PartReport>> = Vec::new();
    for scenario in scenarios(&arguments)? {
        runs.push(play_with_progress(&scenario)?);
    }
    if let Some(path) = &arguments.plot {
        output::write_file(path, &plot_svg(&runs))?;
    }
    if arguments.json {
        return output::print_json(&runs.concat());
    }
    output::print(&if arguments.compare.is_some() {
        tables::compared(&runs)
    } else {
        tables::simulate(&runs.concat())
    })
}

/// The scenario with the options applied; several variants with `--compare`.
fn scenarios(arguments: &Arguments) -> Result<Vec<Scenario>, Failure> {
    let scenario = load(&arguments.scenario)?;
    let classic = arguments.classic.layer();
    let with_overlay = |rules: Option<Rules>, alpha: Option<i64>| {
        let discipline = match rules {
            Some(Rules::Share) => Some(Discipline::Share),
            Some(Rules::Classic) => Some(Discipline::Classic),
            Some(Rules::Fifo) | None => None,
        };
        let is_fifo = matches!(rules, Some(Rules::Fifo));
        let overlay = Overlay { discipline, is_fifo, classic: ClassicLayer { alpha, ..classic } };
        scenario.with(&overlay).map_err(|error| Failure::bad_input(error.to_string()))
    };
    if let Some(compared) = arguments.compare {
        let alphas = if compared == Compared::All { &COMPARED_ALPHAS[..] } else { &[] };
        let classic = alphas.iter().map(|alpha| with_overlay(Some(Rules::Classic), Some(*alpha)));
        let first = [Rules::Fifo, Rules::Share].map(|rules| with_overlay(Some(rules), None));
        return first.into_iter().chain(classic).collect();
    }
    let scenario = with_overlay(arguments.discipline, classic.alpha)?;
    if classic != ClassicLayer::default() && !scenario.uses(Discipline::Classic) {
        return Err(Failure::bad_input(format!(
            "scenario {} uses the discipline share, and the options are for classic; add --discipline classic",
            scenario.name()
        )));
    }
    Ok(vec![scenario])
}

/// Loads a built-in scenario by its name, or else a file.
fn load(argument: &str) -> Result<Scenario, Failure> {
    let shipped = Scenario::shipped().iter().find(|(name, _)| *name == argument);
    let parsed = match shipped {
        Some((name, toml)) => Scenario::parse(name, toml),
        None => {
            let path = Path::new(argument);
            let name = path.file_stem().map_or(argument.into(), |stem| stem.to_string_lossy());
            Scenario::parse(&name, &read(path, argument)?)
        }
    };
    parsed.map_err(|error| Failure::bad_input(error.to_string()))
}

fn read(path: &Path, argument: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let is_name = !argument.contains(['.', '/', '\\']);
        if is_name && !path.exists() {
            let names: Vec<&str> = Scenario::shipped().iter().map(|(name, _)| *name).collect();
            return Failure::bad_input(format!(
                "there is no scenario {argument:?}; use the path of a TOML file, or one of {}",
                names.join(", ")
            ));
        }
        Failure::unreadable(path)(error)
    })
}

fn play_with_progress(scenario: &Scenario) -> Result<Vec<PartReport>, Failure> {
    let bar = output::progress_bar(false, "[{bar:40}] {human_pos} of {human_len} jobs  {msg}", None);
    let mut show = |progress: Progress<'_>| {
        if bar.message() != progress.part {
            bar.set_message(progress.part.to_owned());
        }
        bar.set_length(progress.total);
        bar.set_position(progress.completed);
    };
    let reports = play(scenario, &mut show);
    bar.finish_and_clear();
    reports.map_err(|error| Failure::broken(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    const SIMULATOR: &str = include_str!("../../../../docs/simulator.md");

    #[test]
    fn the_help_lists_every_built_in_scenario() {
        for (name, _) in Scenario::shipped() {
            assert!(EXAMPLES.contains(name), "{name} is missing in the help of simulate");
        }
    }

    #[test]
    fn the_picture_in_the_readme_is_the_one_that_its_command_draws() {
        let readme = include_str!("../../../../README.md");
        assert!(readme.contains("(docs/images/late-compared.svg)"), "the README shows the picture");
        assert!(readme.contains("\nfairlane simulate late --compare=fifo --plot "), "and its command");
        let command = Arguments::augment_args(clap::Command::new("simulate"));
        let matches = command.try_get_matches_from(["simulate", "late", "--compare=fifo"]).unwrap();
        let scenarios = scenarios(&Arguments::from_arg_matches(&matches).unwrap()).unwrap();
        let runs: Vec<_> = scenarios.iter().map(|scenario| play_with_progress(scenario).unwrap()).collect();
        let shown = include_str!("../../../../docs/images/late-compared.svg");
        assert_eq!(plot_svg(&runs), shown, "draw docs/images/late-compared.svg again");
    }

    #[test]
    fn every_built_in_scenario_is_documented() {
        for (name, _) in Scenario::shipped() {
            assert!(
                SIMULATOR.contains(&format!("(../scenarios/{name}.toml)")),
                "{name} is not in docs/simulator.md"
            );
        }
    }
}
