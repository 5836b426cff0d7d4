//! The programs that the check starts, and their installation on a bare machine.
//!
//! Components of the Rust toolchain are checked first. On Debian, as root, missing packages are
//! printed and installed; elsewhere an error message lists them. No service is started: tests start
//! servers of their own.

use crate::{Outcome, shell};
use std::path::Path;
use std::process::Command;

/// A program that a test needs, how it is found, and the packages that contain it.
struct Program {
    name: &'static str,
    is_installed: fn() -> bool,
    debian_package: &'static str,
    /// `None` if macOS has the program.
    brew_package: Option<&'static str>,
}

const PROGRAMS: [Program; 16] = [
    Program {
        name: "redis-server",
        is_installed: || shell::find("redis-server").is_some(),
        debian_package: "redis-server",
        brew_package: Some("redis"),
    },
    Program {
        name: "postgres",
        is_installed: has_postgres,
        debian_package: "postgresql",
        brew_package: Some("postgresql"),
    },
    Program {
        name: "pgbouncer",
        is_installed: || shell::find("pgbouncer").is_some() || Path::new("/usr/sbin/pgbouncer").exists(),
        debian_package: "pgbouncer",
        brew_package: Some("pgbouncer"),
    },
    Program {
        name: "curl",
        is_installed: || shell::find("curl").is_some(),
        debian_package: "curl",
        brew_package: None,
    },
    Program {
        name: "jq",
        is_installed: || shell::find("jq").is_some(),
        debian_package: "jq",
        brew_package: Some("jq"),
    },
    Program {
        name: "tmux",
        is_installed: || shell::find("tmux").is_some(),
        debian_package: "tmux",
        brew_package: Some("tmux"),
    },
    Program {
        name: "python3 with venv",
        is_installed: has_venv,
        debian_package: "python3-venv",
        brew_package: Some("python"),
    },
    Program {
        name: "node",
        is_installed: || shell::find("node").is_some(),
        debian_package: "nodejs",
        brew_package: Some("node"),
    },
    Program {
        name: "npm",
        is_installed: || shell::find("npm").is_some(),
        debian_package: "npm",
        brew_package: Some("node"),
    },
    Program {
        name: "promtool",
        is_installed: || shell::find("promtool").is_some(),
        debian_package: "prometheus",
        brew_package: Some("prometheus"),
    },
    Program {
        name: "chromium",
        is_installed: || shell::find("chromium").is_some(),
        debian_package: "chromium",
        brew_package: Some("chromium"),
    },
    Program {
        name: "chromedriver",
        is_installed: || shell::find("chromedriver").is_some(),
        debian_package: "chromium-driver",
        brew_package: Some("chromedriver"),
    },
    Program {
        name: "nginx",
        is_installed: || shell::find("nginx").is_some() || Path::new("/usr/sbin/nginx").exists(),
        debian_package: "nginx",
        brew_package: Some("nginx"),
    },
    Program {
        name: "caddy",
        is_installed: || shell::find("caddy").is_some(),
        debian_package: "caddy",
        brew_package: Some("caddy"),
    },
    Program {
        name: "faketime",
        is_installed: || shell::find("faketime").is_some(),
        debian_package: "faketime",
        brew_package: Some("libfaketime"),
    },
    Program {
        name: "kill",
        is_installed: || shell::find("kill").is_some(),
        debian_package: "procps",
        brew_package: None,
    },
];

/// A component of the Rust toolchain, and the cargo command that it brings.
const COMPONENTS: [(&str, &str); 2] = [("rustfmt", "fmt"), ("clippy", "clippy")];

/// The oldest Redis that Fairlane works with.
const REDIS_LEAST: (u32, u32) = (7, 0);

/// The program that Debian runs before it starts a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// Runs a command (the arguments after the first) while the policy at the first argument forbids
/// services to start. An existing policy of the machine is kept and applies instead. This is a
/// shell script, because a shell removes the file on Ctrl-C.
const WITHOUT_SERVICES: &str = "\
policy=$1; shift
if (set -C; printf '#!/bin/sh\\nexit 101\\n' > \"$policy\") 2> /dev/null; then
    trap 'rm -f \"$policy\"' EXIT
    trap 'exit 130' INT TERM HUP
    chmod 755 \"$policy\"
else
    echo \"$policy of this machine decides whether services start\"
fi
\"$@\"
";

/// Installs missing programs, or fails with the list of them.
pub fn ensure(root: &Path) -> Outcome {
    check_components(|command| shell::succeeds_quietly(&mut shell::cargo(root, &[command, "--version"])))?;
    let missing = missing_of(&PROGRAMS);
    if missing.is_empty() {
        println!("all installed: {}", names(&PROGRAMS.iter().collect::<Vec<_>>()));
    } else if shell::find("apt-get").is_some() && is_root() {
        install(root, &missing)?;
    } else {
        return Err(request(&missing));
    }
    check_redis(&redis_version())?;
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

/// Checks the components of the toolchain. Otherwise a missing one would fail only when a step
/// needs it, minutes later.
fn check_components(has_command: impl Fn(&str) -> bool) -> Outcome {
    let missing = COMPONENTS.iter().filter(|(_, command)| !has_command(command));
    let missing: Vec<&str> = missing.map(|(component, _)| *component).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the Rust toolchain lacks {}; `rustup component add {}` adds it, then run again",
        missing.join(" and "),
        missing.join(" ")
    ))
}

/// Whether the programs of a PostgreSQL server exist, on the PATH or where Debian keeps them, in a
/// folder per version.
fn has_postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    shell::find("initdb").is_some()
        || versions.map(|one| one.path().join("bin/initdb")).any(|one| one.exists())
}

/// Whether Python can create a virtual environment; on Debian that is a separate package.
fn has_venv() -> bool {
    shell::succeeds_quietly(Command::new("python3").args(["-c", "import ensurepip, venv"]))
}

/// The version line, such as `Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64`.
fn redis_version() -> String {
    let output = Command::new("redis-server").arg("--version").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn check_redis(version_line: &str) -> Outcome {
    let version = version_line.split_whitespace().find_map(|word| word.strip_prefix("v="));
    let mut numbers = version.unwrap_or_default().split('.').map(str::parse::<u32>);
    let (least_major, least_minor) = REDIS_LEAST;
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= REDIS_LEAST => Ok(()),
        (Some(Ok(_)), Some(Ok(_))) => Err(format!(
            "redis-server is {}, and the tests need {least_major}.{least_minor} or newer (Debian 12, \
             Ubuntu 24.04, Homebrew); put a newer one first on the PATH and run again",
            version.unwrap_or_default()
        )),
        _ => Err(format!(
            "redis-server does not print its version as `v={least_major}.{least_minor}.0`, but {version_line:?}"
        )),
    }
}

fn missing_of(programs: &[Program]) -> Vec<&Program> {
    programs.iter().filter(|program| !(program.is_installed)()).collect()
}

fn install(root: &Path, missing: &[&Program]) -> Outcome {
    println!("missing: {}", names(missing));
    println!("installing the Debian packages {}; no service is started", packages(missing).join(" "));
    shell::run(apt_get(root).arg("update"))?;
    let mut command = apt_get(root);
    command.args(["install", "-y", "--no-install-recommends"]).args(packages(missing));
    shell::run(&mut without_services(root, POLICY, &command))?;
    let still_missing = missing.iter().find(|program| !(program.is_installed)());
    match still_missing {
        None => Ok(()),
        Some(program) => Err(format!(
            "package {} was installed, but {} is still not found",
            program.debian_package, program.name
        )),
    }
}

fn without_services(root: &Path, policy: &str, command: &Command) -> Command {
    let mut shell = shell::program_at(root, "sh");
    shell.args(["-c", WITHOUT_SERVICES, "install", policy]).arg(command.get_program());
    shell.args(command.get_args()).env("DEBIAN_FRONTEND", "noninteractive");
    shell
}

fn apt_get(root: &Path) -> Command {
    let mut command = shell::program_at(root, "apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn request(missing: &[&Program]) -> String {
    let brew: Vec<&str> = missing.iter().filter_map(|program| program.brew_package).collect();
    let brew = match brew.is_empty() {
        true => String::new(),
        false => format!("; on macOS: `brew install {}`", brew.join(" ")),
    };
    format!(
        "please install {} (on Debian: `apt-get install {}`{brew}) and run again",
        names(missing),
        packages(missing).join(" "),
    )
}

fn packages(programs: &[&Program]) -> Vec<&'static str> {
    programs.iter().map(|program| program.debian_package).collect()
}

fn names(programs: &[&Program]) -> String {
    let names: Vec<&str> = programs.iter().map(|program| program.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Program; 2] = [
        Program {
            name: "psql",
            is_installed: || false,
            debian_package: "postgresql-client",
            brew_package: Some("libpq"),
        },
        Program { name: "bash", is_installed: || true, debian_package: "bash", brew_package: None },
    ];

    #[test]
    fn only_programs_that_are_not_installed_are_missing() {
        assert_eq!(names(&missing_of(&TWO)), "psql");
    }

    #[test]
    fn the_request_names_the_packages_of_debian_and_macos() {
        let sentence = request(&missing_of(&TWO));
        for text in ["psql", "`apt-get install postgresql-client`", "`brew install libpq`"] {
            assert!(sentence.contains(text), "{sentence}");
        }
        let with_macos = Program { brew_package: None, ..TWO[0] };
        assert!(!request(&[&with_macos]).contains("brew"));
    }

    #[test]
    fn a_missing_component_is_named_with_the_command_that_adds_it() {
        let message = check_components(|_| false).unwrap_err();
        assert!(message.contains("`rustup component add rustfmt clippy`"), "{message}");
        let message = check_components(|command| command == "fmt").unwrap_err();
        assert!(message.contains("`rustup component add clippy`"), "{message}");
        assert_eq!(check_components(|_| true), Ok(()));
    }

    #[test]
    fn a_redis_that_is_too_old_is_refused() {
        for new in ["Redis server v=7.0.15 sha=0", "Redis server v=8.2.0", "Valkey server v=7.2.5 sha=0"] {
            assert_eq!(check_redis(new), Ok(()), "{new}");
        }
        assert!(check_redis("Redis server v=6.0.16 sha=0").unwrap_err().contains("is 6.0.16"));
        assert!(check_redis("").is_err());
    }

    #[test]
    fn services_are_forbidden_only_while_packages_are_installed() {
        let path = std::env::temp_dir().join(format!("policy-rc.d-{}", std::process::id()));
        let policy = path.to_str().unwrap();
        let install = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line, "sh", policy]);
            without_services(Path::new("."), policy, &command).status().unwrap().code()
        };
        assert_eq!(install("\"$1\"; test $? = 101"), Some(0), "the policy forbids services meanwhile");
        assert!(!path.exists(), "and is removed");
        assert_eq!(install("exit 3"), Some(3), "also after a failure, which is passed on");
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(install("true"), Some(0));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_file(&path).unwrap();
    }
}
