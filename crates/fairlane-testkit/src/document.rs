//! Pages of the documentation, their blocks of code, and scripts made of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::Ended;

/// The timeout of a script, in seconds.
const SECONDS_MAX: &str = "300";

/// The root of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository exists")
}

/// The text of a page, by its path in the repository.
pub fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The blocks of a page with this info string.
pub fn blocks(page: &str, info: &str) -> Vec<String> {
    let begin = format!("\n```{info}\n");
    let rest = page.split(&begin).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Runs a script in bash, in this folder and with the folder of these programs first on the PATH.
///
/// The script ends at its first error. Background processes that it started end with it.
pub fn run_script(folder: &Path, programs: &Path, script: &str, variables: &[(&str, &str)]) -> Ended {
    let script =
        format!("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n{script}");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", SECONDS_MAX, "bash", "-c", &script]).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if ["FAIRLANE_", "CARGO_", "COMFY_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.env("PATH", format!("{}:{path}", programs.display())).env("HOME", folder);
    Ended::of(command.envs(variables.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_the_language() {
        assert_eq!(blocks("a\n```sh\nb\nc\n```\n```js\nd\n```\n```sh\ne\n```\n", "sh"), ["b\nc\n", "e\n"]);
    }

    #[test]
    fn a_script_ends_at_its_first_error_and_ends_what_it_has_started() {
        let here = Path::new(".");
        let ended = run_script(here, here, "sleep 1000 &\necho $NAME\nfalse\necho more\n", &[("NAME", "a")]);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, "a\n"));
    }
}
