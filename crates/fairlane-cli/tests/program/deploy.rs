//! Checks that the files in `deploy` are usable.

use std::path::{Path, PathBuf};

use super::running::fairlane;

fn file(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// The rest of each line after these words.
fn after<'a>(text: &'a str, words: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.split_once(words)).map(|(_, rest)| rest)
}

#[test]
fn every_documented_command_that_creates_a_key_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut found = 0;
    for name in ["systemd/fairlane.service", "compose.yaml", "Dockerfile", "README.md"] {
        for line in after(&file(name).1, " key create ") {
            let line = line.split('`').next().unwrap();
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let here = |word: &String| match word.rsplit_once('/') {
                // A directory that does not exist yet.
                Some((_, last)) => folder.path().join(name).join(last).display().to_string(),
                None => word.clone(),
            };
            let words: Vec<String> = words.iter().map(here).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let ended = fairlane(&[&["key", "create"], &words[..]].concat());
            assert_eq!(ended.code, 0, "{name}: {line}: {}", ended.stderr);
            found += 1;
        }
    }
    assert_eq!(found, 4);
}

#[test]
fn a_service_with_bad_input_is_not_restarted() {
    let (path, _) = file("systemd/fairlane.toml");
    let ended = fairlane(&["config", "--config", &path.display().to_string()]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(file("systemd/fairlane.service").1.contains("\nRestartPreventExitStatus=2\n"));
    // This is the exit code of a server whose configured keys are missing.
    let folder = tempfile::tempdir().unwrap();
    let (keys, queue) = (folder.path().join("keys.json"), folder.path().join("queue"));
    let (keys, queue) = (keys.display().to_string(), format!("dir:{}", queue.display()));
    fairlane(&["serve", "--listen", "127.0.0.1:0", "--engine", &queue, "--keys", &keys])
        .failed(2, &["fairlane key create"]);
}

#[test]
fn containers_have_health_checks_and_expose_no_password() {
    let compose = file("compose.yaml").1;
    for text in [&compose, &file("Dockerfile").1] {
        assert!(
            text.contains(r#"["CMD", "fairlane", "health", "#) || text.contains(r#"["fairlane", "health", "#)
        );
    }
    assert!(!compose.contains("--requirepass") && !compose.contains("redis-cli -a"));
    let proxy = file("proxy/Caddyfile").1;
    let directives: Vec<&str> = proxy.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    assert!(directives.iter().all(|line| !line.starts_with("flush_interval")), "a client may disconnect");
    assert!(directives.iter().any(|line| line.starts_with("dynamic a ")), "each server counts separately");
}

#[test]
fn redis_in_the_compose_file_has_a_memory_limit_below_that_of_its_container() {
    let compose = file("compose.yaml").1;
    let gigabytes = |words: &str, unit: &str| {
        let value = after(&compose, words).next().unwrap_or_else(|| panic!("{words} is not set"));
        let number = value.split_whitespace().next().and_then(|value| value.strip_suffix(unit));
        number.and_then(|number| number.parse::<u64>().ok()).unwrap_or_else(|| panic!("{words}{value}"))
    };
    assert!(gigabytes("--maxmemory ", "gb") < gigabytes("mem_limit: ", "g"));
}
