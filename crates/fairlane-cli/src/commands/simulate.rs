//! `fairlane simulate`: what the queue would do, in virtual time.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use fairlane_simulator::{PartReport, Progress, Scenario, plot_svg, run as play};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::{output, tables};

const EXAMPLES: &str = "\
Examples:
  fairlane simulate equals
  fairlane simulate flood --plot flood.svg
  fairlane simulate my-customers.toml --json

Scenarios that come with the program:
  congestion, equals, flood, levels, newcomers, paused, trickle, unknown-limit, weights

Exit codes: 0 done; 1 it failed; 2 the scenario cannot be used.";

/// Plays a scenario in virtual time: days in seconds, the same result every time
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A TOML file, or the name of a scenario that comes with the program
    scenario: String,
    /// Also draw the completions over time into this file
    #[arg(long, value_name = "OUT.SVG")]
    plot: Option<PathBuf>,
    /// Print a JSON list with one object per part
    #[arg(long)]
    json: bool,
}

/// Plays the scenario and prints what came out.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let scenario = load(&arguments.scenario)?;
    let reports = play_with_progress(&scenario)?;
    if let Some(path) = &arguments.plot {
        output::write_file(path, &plot_svg(&reports))?;
    }
    if arguments.json {
        return output::print_json(&reports);
    }
    output::print(&tables::simulate(&reports))
}

/// A name without a dot or a slash is one of ours; everything else is a file.
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
        let looks_like_a_name = !argument.contains(['.', '/', '\\']);
        if looks_like_a_name && !path.exists() {
            let names: Vec<&str> = Scenario::shipped().iter().map(|(name, _)| *name).collect();
            return Failure::bad_input(format!(
                "there is no scenario called {argument:?}; give the path of a TOML file, or one of {}",
                names.join(", ")
            ));
        }
        Failure::bad_input(format!("{argument} cannot be read: {error}"))
    })
}

fn play_with_progress(scenario: &Scenario) -> Result<Vec<PartReport>, Failure> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::no_length() } else { ProgressBar::hidden() };
    let template = "[{bar:40}] {human_pos} of {human_len} jobs  {msg}";
    bar.set_style(
        ProgressStyle::with_template(template).expect("the template is valid").progress_chars("=> "),
    );
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

    #[test]
    fn the_help_names_every_shipped_scenario() {
        for (name, _) in Scenario::shipped() {
            assert!(EXAMPLES.contains(name), "{name} is missing in the help of simulate");
        }
    }
}
