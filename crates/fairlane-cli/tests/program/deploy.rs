//! Checks that the files in `deploy` are usable.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairlane_testkit::document::{blocks, page, run_script};
use fairlane_testkit::program::Background;
use saphyr::{LoadableYamlNode, Yaml};

use super::running::{PROGRAM, fairlane};

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
    let names = ["systemd/fairlane.service", "compose.yaml", "Dockerfile", "README.md"];
    for name in names.into_iter().chain(MANIFESTS) {
        for line in after(&file(name).1, " key create ") {
            let line = line.split('`').next().unwrap();
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            // The key file, in a directory that does not exist yet.
            let here = |word: &String| match word.rsplit('/').next() {
                Some(file) if file.ends_with(".json") => {
                    folder.path().join(name).join(file).display().to_string()
                }
                _ => word.clone(),
            };
            let words: Vec<String> = words.iter().map(here).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let ended = fairlane(&[&["key", "create"], &words[..]].concat());
            assert_eq!(ended.code, 0, "{name}: {line}: {}", ended.stderr);
            found += 1;
        }
    }
    assert_eq!(found, 6);
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

/// A stand-in for systemd: starts what the unit starts, in the directory of its state.
const SYSTEMCTL: &str = "#!/bin/bash -e
[ \"$1 $2\" = 'enable --now' ]
command=$(sed -n 's/^ExecStart=//p' \"ROOT/etc/systemd/system/$3.service\")
mkdir -p ROOT/var/lib/fairlane && cd ROOT/var/lib/fairlane
$command > ROOT/log 2>&1 &
echo $! > ROOT/pid
";

/// The steps are those of the page, below a folder instead of the root, and with a stand-in for
/// systemctl.
#[test]
fn the_steps_with_systemd_end_with_a_healthy_server() {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let root = folder.path().join("root").display().to_string();
    let here = |text: &str| {
        let text = text.replace("/usr/local", &format!("{root}/usr/local"));
        let text = text.replace("/etc/", &format!("{root}/etc/")).replace("/var/", &format!("{root}/var/"));
        text.replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"))
    };
    for name in ["systemd/fairlane.service", "systemd/fairlane.toml"] {
        let copy = folder.path().join("deploy").join(name);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::write(copy, here(&file(name).1)).unwrap();
    }
    for name in ["root/usr/local/bin", "root/etc/systemd/system", "programs"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink(PROGRAM, folder.path().join("fairlane")).unwrap();
    std::os::unix::fs::symlink(PROGRAM, folder.path().join("programs/fairlane")).unwrap();
    let systemctl = folder.path().join("programs/systemctl");
    std::fs::write(&systemctl, SYSTEMCTL.replace("ROOT", &root)).unwrap();
    std::fs::set_permissions(&systemctl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();

    let blocks = blocks(&page("docs/deployment.md"), "sh");
    let steps = blocks.iter().find(|block| block.contains("systemctl enable")).unwrap();
    let health = format!("fairlane health http://127.0.0.1:{port}");
    let steps = here(steps).replace("fairlane health", &health);
    let ended = run_script(folder.path(), &folder.path().join("programs"), &steps, &[]);
    if let Ok(process) = std::fs::read_to_string(folder.path().join("root/pid")) {
        Command::new("kill").arg(process.trim()).status().unwrap();
    }
    let log = std::fs::read_to_string(folder.path().join("root/log")).unwrap_or_default();
    assert_eq!(ended.code, 0, "{}{}{log}", ended.stdout, ended.stderr);

    // systemd itself reads the unit where its tool is installed.
    let unit = folder.path().join("root/etc/systemd/system/fairlane.service");
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit).output() {
        Ok(verified) => {
            let found = String::from_utf8_lossy(&verified.stderr).into_owned();
            assert!(!found.contains("fairlane.service"), "{found}");
        }
        Err(error) => println!("the unit is not verified: systemd-analyze: {error}"),
    }
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

/// The words of a JSON array in a Dockerfile or manifest, with paths and the port of this test.
fn words_here(array: &[String], folder: &Path, port: u16) -> Vec<String> {
    let here = |word: &String| {
        let word = word.replace("0.0.0.0:8080", &format!("127.0.0.1:{port}"));
        let word = word.replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
        word.replace("/data", &folder.display().to_string())
            .replace("/keys/", &format!("{}/", folder.display()))
    };
    array.iter().map(here).collect()
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Starts a server with these arguments after its key was created, and checks that it becomes ready.
fn serves(arguments: &[String], health: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let health = words_here(health, folder.path(), port);
    fairlane(&words(&health)).failed(1, &["is not ready"]);
    let keys = folder.path().join("keys.json").display().to_string();
    assert_eq!(fairlane(&["key", "create", "--keys", &keys, "--name", "me", "--role", "admin"]).code, 0);
    let arguments = words_here(arguments, folder.path(), port);
    let server = Background::start(Path::new(PROGRAM), folder.path(), &arguments);
    let health = [&words(&health)[..], &["--wait", "30s"]].concat();
    assert_eq!(fairlane(&health).code, 0, "{arguments:?}");
    drop(server);
}

/// What the image runs is run here without a container: its command and its health check.
#[test]
fn the_image_serves_without_root_and_becomes_healthy() {
    let dockerfile = file("Dockerfile").1;
    let lines: Vec<&str> = dockerfile.lines().map(str::trim).collect();
    let array = |instruction: &str| -> Vec<String> {
        let line = lines.iter().rfind(|line| line.starts_with(instruction)).unwrap();
        serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
    };
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("FROM ")).count(),
        2,
        "one stage builds, one runs"
    );
    let user = lines.iter().find_map(|line| line.strip_prefix("USER ")).unwrap();
    assert!(user.parse::<u32>().is_ok_and(|user| user > 0), "a number, so that runAsNonRoot can check it");
    assert_eq!(array("ENTRYPOINT "), ["fairlane"]);
    let mut health = array("HEALTHCHECK ");
    assert_eq!(health.remove(0), "fairlane");
    serves(&array("CMD "), &health);
    for copied in lines.iter().filter_map(|line| line.strip_prefix("COPY --from=build /source/target/")) {
        let profile = copied.split('/').next().unwrap();
        let manifest = include_str!("../../../../Cargo.toml");
        assert!(manifest.contains(&format!("[profile.{profile}]")), "no such profile: {copied}");
        assert!(dockerfile.contains(&format!("--profile {profile} ")), "it is not built: {copied}");
    }
}

#[test]
fn the_server_of_the_compose_file_becomes_healthy() {
    let text = file("compose.yaml").1;
    let compose = Yaml::load_from_str(&text).unwrap();
    let server = &compose[0]["services"]["fairlane"];
    let health = texts(&server["healthcheck"]["test"]);
    assert_eq!(health[..2], ["CMD", "fairlane"]);
    serves(&texts(&server["command"]), &health[2..]);
}

const MANIFESTS: [&str; 2] = ["kubernetes/directory.yaml", "kubernetes/redis.yaml"];

fn texts(list: &Yaml<'_>) -> Vec<String> {
    list.as_sequence().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The template of a workload is complete and safe.
fn check_workload(name: &str, workload: &Yaml<'_>) {
    let spec = &workload["spec"];
    let template = &spec["template"];
    assert_eq!(spec["selector"]["matchLabels"]["app"], template["metadata"]["labels"]["app"], "{name}");
    let pod = &template["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true), "{name}");
    assert_eq!(
        pod["securityContext"]["runAsUser"].as_integer(),
        Some(10001),
        "{name}: the user of the image"
    );
    assert_eq!(pod["enableServiceLinks"].as_bool(), Some(false), "{name}");
    assert!(pod["terminationGracePeriodSeconds"].as_integer() >= Some(90), "{name}");
    let [container] = &pod["containers"].as_sequence().unwrap()[..] else { panic!("{name}: one container") };
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"].as_bool(), Some(true), "{name}");
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"].as_bool(), Some(false), "{name}");
    assert!(container["resources"]["limits"]["memory"].as_str().is_some(), "{name}");
    let declared = |lists: &[&Yaml<'_>]| -> Vec<String> {
        let volumes = lists.iter().filter_map(|list| list.as_sequence()).flatten();
        let name = |volume: &Yaml<'_>| {
            volume
                .as_mapping_get("name")
                .unwrap_or_else(|| &volume["metadata"]["name"])
                .as_str()
                .unwrap()
                .to_owned()
        };
        let mut names: Vec<String> = volumes.map(name).collect();
        names.sort();
        names
    };
    let missing = Yaml::BadValue;
    let claims = spec.as_mapping_get("volumeClaimTemplates").unwrap_or(&missing);
    let volumes = declared(&[&pod["volumes"], claims]);
    assert_eq!(declared(&[&container["volumeMounts"]]), volumes, "{name}: every volume is declared and used");

    let arguments = texts(&container["args"]);
    match arguments[0].as_str() {
        "serve" => {
            assert_eq!(container["readinessProbe"]["httpGet"]["path"].as_str(), Some("/readyz"), "{name}");
            assert_eq!(container["livenessProbe"]["httpGet"]["path"].as_str(), Some("/healthz"), "{name}");
            assert_eq!(container["ports"][0]["containerPort"].as_integer(), Some(8080), "{name}");
            let health = ["health", "http://127.0.0.1:8080"].map(String::from);
            serves(&arguments, &health);
        }
        "work" => {
            let help = fairlane(&["work", "--help"]).stdout;
            for option in arguments.iter().filter(|argument| argument.starts_with("--")) {
                assert!(help.contains(option.as_str()), "{name}: fairlane work has no {option}");
            }
        }
        other => panic!("{name}: fairlane {other}"),
    }
}

#[test]
fn the_manifests_for_kubernetes_are_complete_and_their_servers_become_ready() {
    for file_name in MANIFESTS {
        let text = file(file_name).1;
        let mut workloads = 0;
        let mut selected = Vec::new();
        let mut labels = Vec::new();
        for document in Yaml::load_from_str(&text).unwrap_or_else(|error| panic!("{file_name}: {error}")) {
            let kind = document["kind"].as_str().unwrap();
            let api = document["apiVersion"].as_str().unwrap();
            let name = format!("{file_name}: {kind} {}", document["metadata"]["name"].as_str().unwrap());
            match (api, kind) {
                ("v1", "Service") => {
                    assert_eq!(document["spec"]["ports"][0]["targetPort"].as_str(), Some("http"), "{name}");
                    selected.push(document["spec"]["selector"]["app"].as_str().unwrap().to_owned());
                }
                ("policy/v1", "PodDisruptionBudget") => {
                    let labels = &document["spec"]["selector"]["matchLabels"];
                    selected.push(labels["app"].as_str().unwrap().to_owned());
                }
                ("apps/v1", "StatefulSet") => {
                    assert_eq!(
                        document["spec"]["replicas"].as_integer(),
                        Some(1),
                        "{name}: one owns a directory"
                    );
                }
                ("apps/v1", "Deployment") => {
                    assert!(!text.contains("dir:"), "{name}: several pods cannot own a directory");
                }
                other => panic!("{name}: {other:?} is not checked"),
            }
            if api == "apps/v1" {
                check_workload(&name, &document);
                labels.push(
                    document["spec"]["template"]["metadata"]["labels"]["app"].as_str().unwrap().to_owned(),
                );
                workloads += 1;
            }
        }
        assert!(workloads > 0 && selected.iter().all(|app| labels.contains(app)), "{selected:?} {labels:?}");
    }
}
