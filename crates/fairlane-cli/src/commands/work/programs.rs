//! Whether the programs of a file are there: a job given to one that is not would be dead at once.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fairlane_targets::CommandSettings;

use crate::config::{Config, FILE, Target};
use crate::failure::Failure;

/// Looks for each program and working directory as the system will.
pub fn check(config: &Config) -> Result<(), Failure> {
    for one in &config.types {
        if let Target::Command(settings) = &one.target {
            let file = config.path.as_deref().unwrap_or(Path::new(FILE)).display();
            let table = format!("{file}, [types.{}]", one.type_id);
            found(settings).map_err(|problem| Failure::bad_input(format!("{table}: {problem}")))?;
        }
    }
    Ok(())
}

fn found(settings: &CommandSettings) -> Result<(), String> {
    let here = PathBuf::new();
    let directory = settings.directory.as_ref().unwrap_or(&here);
    if settings.directory.is_some() && !directory.is_dir() {
        return Err(format!("there is no directory {}", directory.display()));
    }
    let program = &settings.command[0];
    if program.contains('/') {
        return match kind(&directory.join(program)) {
            Kind::Program => Ok(()),
            Kind::NotExecutable => Err(format!("{program} is not executable; chmod +x makes it so")),
            Kind::Absent => Err(format!(
                "there is no program {program}{}",
                settings.directory.as_ref().map_or(String::new(), |at| format!(" in {}", at.display()))
            )),
        };
    }
    let own = settings.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.into());
    let path = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    // A relative folder of the path is looked for where the program will run.
    let is_there = std::env::split_paths(&path)
        .any(|folder| kind(&directory.join(folder).join(program)) == Kind::Program);
    if is_there {
        return Ok(());
    }
    Err(format!("there is no program {program} in any folder of PATH; write ./{program} for one beside it"))
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
    fn a_program_is_looked_for_as_the_system_does() {
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
            found(&good).unwrap();
        }
        let path = ("PATH".to_owned(), folder.path().display().to_string());
        found(&CommandSettings { environment: vec![path], ..command("run") }).unwrap();
        let elsewhere = CommandSettings { directory: Some(folder.path().join("nowhere")), ..command("sh") };
        for (bad, words) in [
            (command("no-such-program"), "no program no-such-program in any folder of PATH"),
            (inside("./nothing"), "no program ./nothing in "),
            (inside("./plain"), "./plain is not executable"),
            (command(&folder.path().display().to_string()), "no program"),
            (elsewhere, "there is no directory"),
        ] {
            let problem = found(&bad).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
