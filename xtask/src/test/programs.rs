//! The programs the tests start, and how a bare machine gets them.
//!
//! On Debian, as root, what is missing is installed; elsewhere one sentence says what to install. A service
//! that the package may have started is neither used nor stopped: tests start servers of their own.

use crate::{Outcome, shell};
use std::path::Path;
use std::process::Command;

/// A program that some test starts, and the Debian package that brings it.
struct Program {
    name: &'static str,
    debian_package: &'static str,
}

const PROGRAMS: [Program; 5] = [
    Program { name: "redis-server", debian_package: "redis-server" },
    Program { name: "curl", debian_package: "curl" },
    Program { name: "python3", debian_package: "python3-venv" },
    Program { name: "node", debian_package: "nodejs" },
    Program { name: "promtool", debian_package: "prometheus" },
];

/// Installs what is missing, or says what to install.
pub fn ensure(root: &Path) -> Outcome {
    let missing = missing_of(&PROGRAMS, |program| shell::find(program).is_some());
    if missing.is_empty() {
        println!("all there: {}", names(&PROGRAMS.iter().collect::<Vec<_>>()));
    } else if shell::find("apt-get").is_some() && is_root() {
        install(root, &missing)?;
    } else {
        return Err(request(&missing));
    }
    if !has_nextest(root) {
        println!(
            "cargo-nextest is missing, so `cargo test` is used; `cargo install cargo-nextest` brings it"
        );
    }
    Ok(())
}

/// Whether cargo knows `nextest`.
pub fn has_nextest(root: &Path) -> bool {
    shell::succeeds_quietly(&mut shell::cargo(root, &["nextest", "--version"]))
}

fn missing_of(programs: &[Program], is_there: impl Fn(&str) -> bool) -> Vec<&Program> {
    programs.iter().filter(|program| !is_there(program.name)).collect()
}

fn install(root: &Path, missing: &[&Program]) -> Outcome {
    shell::run(apt_get(root).arg("update"))?;
    let mut command = apt_get(root);
    command.args(["install", "-y", "--no-install-recommends"]);
    command.args(missing.iter().map(|program| program.debian_package));
    shell::run(&mut command)?;
    let still_missing = missing.iter().find(|program| shell::find(program.name).is_none());
    match still_missing {
        None => Ok(()),
        Some(program) => Err(format!(
            "package {} was installed, but {} is still not found",
            program.debian_package, program.name
        )),
    }
}

fn apt_get(root: &Path) -> Command {
    let mut command = shell::program_at(root, "apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    let answer = Command::new("id").arg("-u").output();
    answer.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn request(missing: &[&Program]) -> String {
    let packages: Vec<&str> = missing.iter().map(|program| program.debian_package).collect();
    format!(
        "please install {} (on Debian: `apt-get install {}`) and run again",
        names(missing),
        packages.join(" ")
    )
}

fn names(programs: &[&Program]) -> String {
    let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Program; 2] = [
        Program { name: "psql", debian_package: "postgresql-client" },
        Program { name: "bash", debian_package: "bash" },
    ];

    #[test]
    fn only_what_is_not_there_is_missing() {
        let missing = missing_of(&TWO, |name| name == "bash");
        assert_eq!(names(&missing), "psql");
    }

    #[test]
    fn the_request_names_the_program_and_the_package_that_brings_it() {
        let sentence = request(&missing_of(&TWO, |name| name == "bash"));
        assert!(sentence.contains("psql"));
        assert!(sentence.contains("`apt-get install postgresql-client`"));
    }
}
