//! Checks that the programs of a file exist: a job for a missing program would be dead at once.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fairlane_targets::CommandSettings;

use crate::config::{Config, FILE, Target};
use crate::failure::Failure;

/// Searches each program and working directory in the same way as the operating system.
pub fn check(config: &Config) -> Result<(), Failure> {
    for one in &config.types {
        if let Some(Target::Command(settings)) = &one.target {
            let file = config.path.as_deref().unwrap_or(Path::new(FILE)).display();
            let table = format!("{file}, [types.{}]", one.type_id);
            check_program(settings).map_err(|problem| Failure::bad_input(format!("{table}: {problem}")))?;
        }
    }
    Ok(())
}

fn check_program(settings: &CommandSettings) -> Result<(), String> {
    let here = PathBuf::new();
    let directory = settings.directory.as_ref().unwrap_or(&here);
    if settings.directory.is_some() && !directory.is_dir() {
        return Err(format!("there is no directory {}", directory.display()));
    }
    let program = &settings.command[0];
    if program.contains('/') {
        return match kind(&directory.join(program)) {
            Kind::Program => Ok(()),
            Kind::NotExecutable => Err(format!("{program} is not executable; run chmod +x {program}")),
            Kind::Absent => Err(format!(
                "there is no program {program}{}",
                settings.directory.as_ref().map_or(String::new(), |at| format!(" in {}", at.display()))
            )),
        };
    }
    let own = settings.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.into());
    let path = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    // A relative folder in PATH is relative to the directory in which the program will run.
    let exists = std::env::split_paths(&path)
        .any(|folder| kind(&directory.join(folder).join(program)) == Kind::Program);
    if exists {
        return Ok(());
    }
    Err(format!(
        "there is no program {program} in any folder of PATH; write ./{program} for a file in the working directory"
    ))
}

#[derive(PartialEq, Eq)]
enum Kind {
    Program,
    NotExecutable,
    Absent,
}

fn kind(path: &Path) -> Kind {
    match path.metadata() {
        Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => Kind::Program,
        Ok(found) if found.is_file() => Kind::NotExecutable,
        _ => Kind::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_searched_like_the_operating_system_does() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, executable) = (folder.path().join("plain"), folder.path().join("run"));
        std::fs::write(&plain, "").unwrap();
        std::fs::write(&executable, "").unwrap();
        std::fs::set_permissions(&executable, PermissionsExt::from_mode(0o755)).unwrap();
        let command = |program: &str| CommandSettings::new([program]);
        let inside = |program: &str| CommandSettings {
            directory: Some(folder.path().to_owned()),
            ..CommandSettings::new([program])
        };
        for good in [command("sh"), command(&executable.display().to_string()), inside("./run"), inside("sh")]
        {
            check_program(&good).unwrap();
        }
        let path = ("PATH".to_owned(), folder.path().display().to_string());
        check_program(&CommandSettings { environment: vec![path], ..command("run") }).unwrap();
        let elsewhere = CommandSettings { directory: Some(folder.path().join("nowhere")), ..command("sh") };
        for (bad, words) in [
            (command("no-such-program"), "no program no-such-program in any folder of PATH"),
            (inside("./nothing"), "no program ./nothing in "),
            (inside("./plain"), "./plain is not executable"),
            (command(&folder.path().display().to_string()), "no program"),
            (elsewhere, "there is no directory"),
        ] {
            let problem = check_program(&bad).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
