//! Everything a contributor runs, as `cargo xtask <command>`.
//!
//! ```text
//! test.rs      every check, step by step          test/    one file per step that needs more than a line
//! tidy.rs      the form of the tree               tidy/    one file per rule, and the readers of the rules
//! proofs.rs    the long proofs: differential test, soak, trials and fuzzing
//! bench.rs     the benchmark                      redis_server.rs  a Redis of its own for benchmarks
//! peers.rs     other queues on the same Redis     peers/   what is measured, the programs, the report
//! dist.rs      what is shipped                    book.rs  the documentation as a site
//! shell.rs     child programs
//! ```
//!
//! Only the standard library is used, so that the first `cargo xtask` of a fresh clone starts in a
//! second.

mod bench;
mod book;
mod dist;
mod peers;
mod proofs;
mod redis_server;
mod shell;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The result of a command: success, or an error message for the terminal.
type Outcome = Result<(), String>;

/// One subcommand of `cargo xtask`.
struct Subcommand {
    name: &'static str,
    summary: &'static str,
    help: &'static str,
    run: fn(&Path, &[String]) -> Outcome,
}

const SUBCOMMANDS: [Subcommand; 10] = [
    Subcommand {
        name: "test",
        summary: "run every check there is, from formatting to the README's commands",
        help: test::HELP,
        run: test::run,
    },
    Subcommand {
        name: "tidy",
        summary: "check sizes, names, links, dead files and the requirements table",
        help: tidy::HELP,
        run: tidy::run,
    },
    Subcommand {
        name: "differential",
        summary: "drive random commands through the core and Redis and compare",
        help: proofs::DIFFERENTIAL_HELP,
        run: proofs::differential,
    },
    Subcommand {
        name: "soak",
        summary: "run the engines under load and faults for minutes or hours",
        help: proofs::SOAK_HELP,
        run: proofs::soak,
    },
    Subcommand {
        name: "trials",
        summary: "run the trials of the system: kills, neighbours, a downstream with an unknown limit",
        help: proofs::TRIALS_HELP,
        run: proofs::trials,
    },
    Subcommand {
        name: "fuzz",
        summary: "mutate inputs of everything that reads bytes from outside",
        help: proofs::FUZZ_HELP,
        run: proofs::fuzz,
    },
    Subcommand {
        name: "bench",
        summary: "measure against a Redis started for the occasion",
        help: bench::HELP,
        run: bench::run,
    },
    Subcommand {
        name: "peers",
        summary: "measure Fairlane beside BullMQ, Sidekiq and Celery on one Redis",
        help: peers::HELP,
        run: peers::run,
    },
    Subcommand {
        name: "book",
        summary: "build the documentation as a site that needs no network",
        help: book::HELP,
        run: book::run,
    },
    Subcommand {
        name: "dist",
        summary: "build the stripped program, an archive and a Debian package",
        help: dist::HELP,
        run: dist::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Outcome {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", overview());
        return Ok(());
    };
    if asks_for_help(name) {
        print!("{}", overview());
        return Ok(());
    }
    let subcommand = SUBCOMMANDS
        .iter()
        .find(|subcommand| subcommand.name == name)
        .ok_or_else(|| format!("there is no command `{name}`; `cargo xtask --help` lists them"))?;
    if rest.iter().any(|argument| asks_for_help(argument)) {
        print!("{}", subcommand.help);
        return Ok(());
    }
    (subcommand.run)(&workspace_root()?, rest)
}

fn asks_for_help(argument: &str) -> bool {
    matches!(argument, "--help" | "-h" | "help")
}

fn overview() -> String {
    let mut text = String::from("Usage: cargo xtask <command> [arguments]\n\nCommands:\n");
    for subcommand in &SUBCOMMANDS {
        text += &format!("  {:<14}{}\n", subcommand.name, subcommand.summary);
    }
    text + "\n`cargo xtask <command> --help` describes a command.\n"
}

/// The parent of this crate's folder. Read at run time, so that a moved clone needs no rebuild.
fn workspace_root() -> Result<PathBuf, String> {
    let manifest_folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .ok_or("CARGO_MANIFEST_DIR is not set: run this program as `cargo xtask`")?;
    let parent = Path::new(&manifest_folder).parent();
    Ok(parent.expect("the xtask crate is one level below the workspace root").to_path_buf())
}

/// Refuses arguments for a command that takes none.
fn expect_no_arguments(command: &str, arguments: &[String]) -> Outcome {
    match arguments.first() {
        None => Ok(()),
        Some(first) => Err(format!("`{command}` takes no arguments, but got `{first}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn an_unknown_command_is_refused_and_points_to_the_list() {
        let message = dispatch(&arguments("polish")).unwrap_err();
        assert!(message.contains("`polish`"));
        assert!(message.contains("--help"));
    }

    #[test]
    fn every_command_has_a_line_in_the_overview_and_a_help_text_of_its_own() {
        for subcommand in &SUBCOMMANDS {
            assert!(overview().contains(subcommand.summary));
            let usage = format!("Usage: cargo xtask {}", subcommand.name);
            assert!(subcommand.help.starts_with(&usage), "{usage}");
        }
    }

    #[test]
    fn asking_a_command_for_help_does_not_run_it() {
        assert_eq!(dispatch(&arguments("soak --help")), Ok(()));
    }

    #[test]
    fn every_command_in_the_documents_exists() {
        let tree = tidy::tree::Tree::read(&workspace_root().unwrap()).unwrap();
        let mut count = 0;
        for (page, text) in tree.ending(".md") {
            for rest in text.split("cargo xtask ").skip(1) {
                let name = rest.split(|letter: char| !letter.is_ascii_lowercase()).next().unwrap_or_default();
                assert!(SUBCOMMANDS.iter().any(|known| known.name == name), "{page}: cargo xtask {name}");
                count += 1;
            }
        }
        assert!(count >= 20, "only {count} commands were found");
    }

    #[test]
    fn a_command_without_arguments_refuses_them() {
        assert!(expect_no_arguments("tidy", &arguments("--fast")).is_err());
        assert_eq!(expect_no_arguments("tidy", &[]), Ok(()));
    }
}
