//! The commands and files that the documents show, run and read as a reader would.
//!
//! Lines of comments after a command are its output. Digits differ from run to run, and `…` stands
//! for any text. In a command, a word that ends in `…`, such as a token or a fence, is replaced by the
//! value that an earlier command of the page printed.

use std::path::{Path, PathBuf};
use std::process::Command;

use fairlane_testkit::document::{blocks, page, root, run_script};
use fairlane_testkit::redis::{RedisServer, ServerOptions, free_port};
use serde_json::Value;
use tempfile::TempDir;

use super::running::{Ended, PROGRAM, fairlane_in};
use super::served::Served;

/// The commands of a block, each with the output that the page shows.
fn commands(block: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut is_open = false;
    for line in block.lines().filter(|line| !line.is_empty()) {
        match commands.last_mut() {
            Some((command, _)) if is_open => *command += &format!("\n{line}"),
            Some((_, shown)) if line.starts_with('#') => *shown += line.trim_start_matches('#'),
            _ => commands.push((line.to_owned(), String::new())),
        }
        let command = &commands.last().unwrap().0;
        is_open = command.ends_with('\\') || command.matches('\'').count() % 2 == 1;
    }
    commands
}

/// The text with every number as 0.
fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    for letter in text.chars() {
        match letter.is_ascii_digit() {
            true if result.ends_with('0') => {}
            true => result.push('0'),
            false => result.push(letter),
        }
    }
    result
}

/// Whether the output has each part of what is shown, in its order.
pub fn has(output: &str, shown: &str) -> bool {
    let output = without_numbers(&output.replace('\n', " "));
    let mut rest = output.as_str();
    shown.split('…').all(|part| {
        let part = without_numbers(part.trim());
        // The beginning of a token is another one in each run.
        let part =
            part.rsplit_once(":\"").filter(|(_, end)| !end.contains('"')).map_or(&*part, |(start, _)| start);
        rest.split_once(part.trim_end_matches('0')).map(|(_, after)| rest = after).is_some()
    })
}

/// A reader in a folder, whose commands use one queue.
struct Reader {
    folder: PathBuf,
    variables: Vec<(&'static str, String)>,
    /// What the page showed so far, with the real output.
    seen: Vec<(String, String)>,
}

impl Reader {
    fn in_folder(folder: &Path) -> Self {
        let programs = Path::new(PROGRAM).parent().unwrap().display();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
        let variables = vec![("PATH", path), ("HOME", folder.display().to_string())];
        Self { folder: folder.to_owned(), variables, seen: Vec::new() }
    }

    fn of(served: &Served) -> Self {
        let mut reader = Self::in_folder(served.folder.path());
        reader.variables.push(("FAIRLANE_ENGINE", served.address.clone()));
        reader
    }

    /// The value that was printed where the page shows this beginning of it.
    fn value(&self, beginning: &str) -> Option<String> {
        self.seen.iter().find_map(|(shown, output)| {
            let before = shown.split(&format!("{beginning}…")).next().filter(|before| *before != shown)?;
            let name = before.trim_end_matches('"').rsplit(['{', ',', '[']).next()?;
            let value = output.split(name).nth(1)?.trim_start_matches('"');
            value.split(['"', ',', '}']).next().map(str::to_owned)
        })
    }

    /// The command with the values of earlier output.
    fn completed(&self, command: &str) -> String {
        let mut parts = command.split('…');
        let mut completed = parts.next().unwrap().to_owned();
        for part in parts {
            let start = completed.rfind(|letter: char| !letter.is_alphanumeric()).map_or(0, |at| at + 1);
            let beginning = completed.split_off(start);
            let value = self.value(&beginning);
            completed +=
                &value.unwrap_or_else(|| panic!("{beginning}… is not in an earlier output: {command}"));
            completed += part;
        }
        completed
    }

    /// Runs the commands of a block, compares their output with what is shown, and returns all of it.
    fn run(&mut self, block: &str) -> String {
        let mut printed = String::new();
        for (command, shown) in commands(block) {
            let mut completed = self.completed(&command);
            let engine = self.variables.iter().find(|(name, _)| *name == "FAIRLANE_ENGINE");
            if let Some((_, address)) = engine {
                completed = completed.replace("localhost:8080", address.trim_start_matches("http://"));
            }
            let mut bash = Command::new("bash");
            bash.args(["-ec", &completed]).current_dir(&self.folder).env_clear();
            let ended = Ended::of(bash.envs(self.variables.iter().map(|(name, value)| (name, value))));
            assert_eq!(ended.code, 0, "{completed}: {}{}", ended.stdout, ended.stderr);
            assert!(has(&ended.stdout, &shown), "{completed}\nshown: {shown}\nprinted: {}", ended.stdout);
            printed += &ended.stdout;
            self.seen.push((shown, ended.stdout));
        }
        printed
    }
}

/// Adds a job of customer-7 and the type mail.
fn enqueue(served: &Served, id: &str) {
    let job = format!(r#"{{"group": "customer-7", "type": "mail", "id": "{id}", "payload": 1}}"#);
    assert_eq!(served.ask("POST", "/api/jobs", &job).unwrap().0, 201);
}

fn script(folder: &Path, name: &str) {
    std::fs::write(folder.join(name), "#!/bin/sh\ntrue\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(folder.join(name)).status().unwrap().success());
}

#[test]
fn commands_of_the_page_on_locks_work() {
    let served = Served::start();
    for name in ["report.sh", "train.sh"] {
        script(served.folder.path(), name);
    }
    let blocks = blocks(&page("docs/locks.md"), "sh");
    let [first, shell, http] = &blocks[..] else { panic!("{blocks:?}") };
    let mut reader = Reader::of(&served);
    reader.run(first);
    let hold = r#"{"token": "another", "ttl_ms": 30000}"#;
    let (_, held) = served.ask("POST", "/api/locks/nightly-report/acquire", hold).unwrap();
    let fence = serde_json::from_str::<Value>(&held).unwrap()["fence"].to_string();
    reader.run(&shell.replace("1763377200000000", &fence));
    reader.run(http);
}

#[test]
fn commands_of_the_page_on_waiting_rooms_work() {
    let (served, prequeued) = (Served::start(), Served::start());
    let blocks = blocks(&page("docs/waiting-rooms.md"), "sh");
    let [limits, places, operate, keys, draw] = &blocks[..] else { panic!("{blocks:?}") };
    let mut reader = Reader::of(&served);
    for block in [limits, places, operate, keys] {
        reader.run(block);
    }
    let (draw, verify) = draw.trim_end().rsplit_once('\n').unwrap();
    let printed = Reader::of(&prequeued).run(draw);
    assert!(verify.starts_with("fairlane room verify tickets.tsv --seed … "), "{verify}");
    assert!(printed.contains("commitment") && prequeued.read("tickets.tsv").is_empty(), "{printed}");
}

/// The commands of the page with a hundred jobs instead of a million.
#[test]
fn commands_of_the_page_on_bulk_actions_work() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("fairlane.toml"), "[types.mail]\ncommand = [\"cat\"]\n").unwrap();
    let (worked, idle) = (Served::in_folder(folder, &["--engine", "memory:"]), Served::start());
    let text = page("docs/bulk-actions.md").replace("1000000", "100").replace("1,000,000", "100");
    let blocks = blocks(&text, "sh");
    let [load, control, results, http] = &blocks[..] else { panic!("{blocks:?}") };
    let mut reader = Reader::of(&worked);
    for block in [load, results] {
        reader.run(block);
    }
    let printed = reader.run(http);
    assert_eq!(printed.matches("\"state\":\"completed\",\"attempts\"").count(), 100, "{printed}");
    let (load, _) = load.split_once("\nfairlane bulk watch").unwrap();
    let printed = Reader::of(&idle).run(&format!("{load}\n{control}"));
    for part in ["created, held, 0 of 100 jobs done", "100 jobs still to be dropped"] {
        assert!(printed.contains(part), "{part} is not in {printed}");
    }
}

#[test]
fn requests_of_the_page_on_the_http_api_work() {
    let served = Served::start();
    let blocks = blocks(&page("docs/http.md"), "sh");
    let [serve, requests] = &blocks[..] else { panic!("{blocks:?}") };
    Reader::of(&served).run(requests);
    let redis = RedisServer::start(ServerOptions::default());
    for line in serve.lines() {
        let (folder, port) = (TempDir::new().unwrap(), free_port());
        let line = line.replace("redis://10.0.0.5:6379", &redis.url()).replace(" #", " & #");
        let script = format!("{line}\nfairlane health http://127.0.0.1:{port} --wait 30s\n");
        let listen = format!("127.0.0.1:{port}");
        let programs = Path::new(PROGRAM).parent().unwrap();
        let ended = run_script(folder.path(), programs, &script, &[("FAIRLANE_SERVER_LISTEN", &listen)]);
        assert_eq!(ended.code, 0, "{script}: {}", ended.stderr);
    }
}

/// Runs the simulations of a page, which end with a table, with JSON or with a picture.
///
/// `flood` has a hundredth of its jobs here; the commands of the README run it as it is.
fn simulate(name: &str) {
    let folder = TempDir::new().unwrap();
    let flood = page("scenarios/flood.toml");
    let small = flood.replace("1_000_000", "10_000");
    assert_ne!(flood, small);
    std::fs::write(folder.path().join("flood.toml"), small).unwrap();
    for scenario in blocks(&page(name), "toml") {
        std::fs::write(folder.path().join("my-customers.toml"), scenario).unwrap();
    }
    let blocks = blocks(&page(name), "sh");
    assert!(blocks.iter().flat_map(|block| block.lines()).all(|line| line.starts_with("fairlane simulate ")));
    let commands = blocks.concat().replace("simulate flood", "simulate ./flood.toml");
    let printed = Reader::in_folder(folder.path()).run(&commands);
    assert!(printed.contains("share") && printed.contains("classic"), "{printed}");
    for picture in blocks.concat().split(" --plot ").skip(1) {
        let picture = picture.split_whitespace().next().unwrap();
        let drawn = std::fs::read_to_string(folder.path().join(picture)).unwrap();
        assert!(drawn.contains("<svg"), "{picture}");
    }
}

#[test]
fn simulations_of_the_page_on_the_simulator_run() {
    simulate("docs/simulator.md");
}

#[test]
fn simulations_of_the_page_on_disciplines_run() {
    simulate("docs/disciplines.md");
}

/// The Redis user of the page may do what a queue, locks, waiting rooms and rankings need.
#[test]
fn the_redis_user_of_the_page_on_configuration_can_use_every_capability() {
    let redis = RedisServer::start(ServerOptions::default());
    let blocks = blocks(&page("docs/configuration.md"), "sh");
    let [acl] = &blocks[..] else { panic!("{blocks:?}") };
    let folder = TempDir::new().unwrap();
    let acl = acl.replace("redis-cli ", &format!("redis-cli -p {} ", redis.port()));
    let engine = format!("redis://fairlane:password@127.0.0.1:{}", redis.port());
    // The second command under the lock waits for the first one.
    let commands = "\
        fairlane enqueue customer-7 mail '1'\n\
        fairlane lock run nightly -- sh -c 'touch held; until [ -e free ]; do sleep 0.05; done' &\n\
        until [ -e held ]; do sleep 0.05; done\n\
        fairlane lock run nightly --wait 5m -- echo followed &\n\
        until fairlane lock show nightly --json | grep -q '\"waiters\": *1'; do sleep 0.05; done\n\
        touch free\n\
        wait\n\
        fairlane room set checkout --max-active 10\n\
        fairlane room show checkout\n\
        fairlane ranking set popular --windows day\n\
        fairlane ranking record popular reservation-1 concert-7\n\
        fairlane ranking top popular\n\
        fairlane status\n";
    let programs = Path::new(PROGRAM).parent().unwrap();
    let script = format!("{acl}\n{commands}");
    let ended = run_script(folder.path(), programs, &script, &[("FAIRLANE_ENGINE", &engine)]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    for word in ["customer-7", "followed", "checkout", "concert-7"] {
        assert!(ended.stdout.contains(word), "{word}: {}{}", ended.stdout, ended.stderr);
    }
    assert!(!ended.stderr.contains("ACL SETUSER"), "{}", ended.stderr);
}

/// Runs commands of the program and then a block of `redis-cli`, all with one Redis, and returns what
/// the block printed.
fn read_redis(commands: &[&str], block: &str) -> String {
    let (redis, folder) = (RedisServer::start(ServerOptions::default()), TempDir::new().unwrap());
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let ended = fairlane_in(folder.path(), &[("FAIRLANE_ENGINE", &redis.url())], &words);
        assert_eq!(ended.code, 0, "{command}: {}", ended.stderr);
    }
    let block = block.replace("redis-cli ", &format!("redis-cli -p {} ", redis.port()));
    Reader::in_folder(folder.path()).run(&block)
}

#[test]
fn commands_of_the_page_on_the_redis_layout_show_a_queue() {
    let blocks = blocks(&page("docs/redis-layout.md"), "sh");
    let [debugging] = &blocks[..] else { panic!("{blocks:?}") };
    let printed = read_redis(&["enqueue customer-7 mail 1", "enqueue customer-7 mail 2"], debugging);
    assert!(printed.contains("backlog\n2\n") && printed.ends_with("\nA:0:0:0:0:0\n"), "{printed}");
}

#[test]
fn the_command_of_the_page_on_rankings_reads_a_board_in_redis() {
    let text = page("docs/rankings.md");
    let (_, section) = text.split_once("\n## In Redis\n").unwrap();
    let blocks = blocks(section, "sh");
    let [read] = &blocks[..] else { panic!("{blocks:?}") };
    let events = [
        "ranking set reservation-count",
        "ranking record reservation-count reservation-1 schedule-001",
        "ranking record reservation-count reservation-2 schedule-001",
    ];
    let printed = read_redis(&events, read);
    assert!(printed.starts_with("schedule-001\n2."), "{printed}");
}

/// An application that only embeds a queue compiles no client of Redis or HTTP.
#[test]
fn the_dependency_of_the_page_on_the_library_resolves_without_network_clients() {
    let blocks = blocks(&page("docs/library.md"), "toml");
    let [dependency] = &blocks[..] else { panic!("{blocks:?}") };
    let folder = TempDir::new().unwrap();
    let dependency = dependency.replace("../fairlane/crates", &root().join("crates").display().to_string());
    let package = "[package]\nname = \"app\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n";
    let manifest = format!("{package}\n[dependencies]\n{dependency}");
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.path().join("lib.rs"), "").unwrap();
    std::fs::copy(root().join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    let mut tree = Command::new("cargo");
    let tree = Ended::of(tree.args(["tree", "--offline", "--edges", "normal"]).current_dir(folder.path()));
    assert_eq!(tree.code, 0, "{}", tree.stderr);
    assert!(tree.stdout.contains("rusqlite v"), "{}", tree.stdout);
    assert!(!tree.stdout.contains("reqwest v") && !tree.stdout.contains(" redis v"), "{}", tree.stdout);
}

#[test]
fn commands_of_the_page_on_troubleshooting_work() {
    let served = Served::start();
    enqueue(&served, "welcome-42");
    let blocks = blocks(&page("docs/troubleshooting.md"), "sh");
    let printed = Reader::of(&served).run(&blocks.concat());
    assert!(printed.contains("no worker has ever asked for jobs of type mail"), "{printed}");
}

#[test]
fn commands_that_make_keys_and_completions_work() {
    let folder = TempDir::new().unwrap();
    let mut reader = Reader::in_folder(folder.path());
    let blocks_of = |name: &str| blocks(&page(name), "sh");
    let security = &blocks_of("docs/security.md")[0];
    let (create, others) = security.split_once("\nfairlane key list").unwrap();
    reader.run(create);
    let listed = fairlane_in(folder.path(), &[], &["key", "list", "--json"]).json();
    let id = listed["keys"][0]["id"].as_str().unwrap().to_owned();
    reader.run(&format!("fairlane key list{others}").replace("0a1b2c3d", &id));
    for name in ["docs/deployment.md", "docs/dashboard.md"] {
        let blocks = blocks_of(name);
        reader.run(blocks.iter().find(|block| block.starts_with("fairlane key create ")).unwrap());
    }
    let install = blocks_of("docs/install.md");
    let written = install.iter().find(|block| block.contains("fairlane completions")).unwrap();
    reader.run(written);
    assert!(folder.path().join(".local/share/man/man1/fairlane.1").is_file());
}

/// The shell blocks of a section of the README.
fn readme(section: &str) -> Vec<String> {
    let text = page("README.md");
    let (_, rest) = text.split_once(&format!("\n## {section}\n")).expect("the section exists");
    blocks(rest.split("\n## ").next().unwrap(), "sh")
}

#[test]
fn the_readme_shows_what_why_prints() {
    let served = Served::start();
    assert_eq!(served.ask("PATCH", "/api/groups/customer-7", r#"{"rate": "1/min"}"#).unwrap().0, 200);
    enqueue(&served, "welcome-42");
    let lease = r#"{"worker": "w1", "types": ["mail"], "count": 1}"#;
    assert_eq!(served.ask("POST", "/api/leases", lease).unwrap().0, 200);
    enqueue(&served, "welcome-43");
    enqueue(&served, "welcome-44");
    Reader::of(&served).run(&readme("Why does my job not run?").concat());
}

#[test]
fn commands_of_the_capabilities_in_the_readme_work() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("fairlane.toml"), "[types.mail]\ncommand = [\"cat\"]\n").unwrap();
    std::fs::write(folder.path().join("mails.ndjson"), "{\"payload\": 1}\n{\"payload\": 2}\n").unwrap();
    let served = Served::in_folder(folder, &["--engine", "memory:"]);
    let blocks = readme("One engine, several capabilities");
    assert_eq!(blocks.len(), 3, "{blocks:?}");
    let printed = Reader::of(&served).run(&blocks.concat());
    assert!(printed.contains("2 of 2"), "{printed}");
}

#[test]
fn every_file_of_the_documents_is_valid() {
    let variables = [
        ("MAILER_TOKEN", "token"),
        ("WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("FAIRLANE_SESSION_SECRET", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr"),
    ];
    let names = ["configuration", "deployment", "workers", "waiting-rooms", "dashboard", "quickstart-node"];
    let mut count = 0;
    for name in names {
        for file in blocks(&page(&format!("docs/{name}.md")), "toml") {
            let folder = TempDir::new().unwrap();
            std::fs::write(folder.path().join("fairlane.toml"), &file).unwrap();
            // A variable of Fairlane's own prefix may be set only for a file that uses it.
            let used: Vec<_> = variables.into_iter().filter(|(name, _)| file.contains(name)).collect();
            let ended = fairlane_in(folder.path(), &used, &["config"]);
            assert_eq!(ended.code, 0, "{name}: {}\n{file}", ended.stderr);
            count += 1;
        }
    }
    assert_eq!(count, 8);
}

#[test]
fn output_is_compared_without_numbers_and_with_gaps() {
    assert!(has(r#"{"token":"ab12","fence":17,"left":3}"#, r#" {"token":"7e52…","fence":99…,"left":30000}"#));
    assert!(!has(r#"{"held":false}"#, r#" {"held":true}"#));
    let block = "a \\\n  b\n# 1\n# 2\nc 'd\ne' # f\n";
    let expected = [("a \\\n  b", " 1 2"), ("c 'd\ne' # f", "")];
    assert_eq!(commands(block), expected.map(|(command, shown)| (command.to_owned(), shown.to_owned())));
}
