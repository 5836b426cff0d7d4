//! Every command, program and file that a document shows is run by a named test.
//!
//! A page and a language are listed with the number of their blocks and the tests that run them. A
//! test takes the blocks from the page itself, so an edited block is run as edited; a new block
//! changes the number and is found here. Blocks that no test can run are listed with the reason. A
//! line with values of another run (`room verify … --seed …`) or the name of another machine
//! (`redis://redis:6379`) is only compared; a test runs the command with values of its own.
//!
//! Left out: blocks of `text`, which are output and pictures, and code within a line.

use super::source::{self, TestFunction};
use super::{Finding, tree::Tree};

const RULE: &str = "snippets";

/// The language tag of output and diagrams.
const SHOWN: &str = "text";

/// Words at the start of a block of `text` that is a command.
const COMMAND_WORDS: [&str; 9] =
    ["fairlane ", "cargo ", "curl ", "docker ", "dpkg ", "systemctl ", "ACL ", "psql ", "npm "];

/// Documents about the internals of the project, for its authors.
const EXEMPT: [&str; 2] = ["docs/design/", "docs/requirements.md"];

/// Blocks that one crate compiles and runs as examples of its documentation.
const DOCTEST: &str = "doctest of ";
/// Blocks that a step of the check runs outside of a test, in this file.
const STEP: &str = "step ";

/// A page, a language, the number of its blocks, and what runs them.
type Covered = (&'static str, &'static str, usize, &'static [&'static str]);

const COVERED: &[Covered] = &[
    (
        "README.md",
        "sh",
        7,
        &[
            "step xtask/src/test/readme.rs",
            "the_first_steps_of_the_readme_end_with_a_processed_job",
            "the_readme_shows_what_why_prints",
            "commands_of_the_capabilities_in_the_readme_work",
        ],
    ),
    ("README.md", "toml", 1, &["the_file_in_the_readme_is_valid"]),
    ("README.md", "rust", 2, &["the_readme_shows_the_examples_that_are_run"]),
    ("README.md", "sql", 1, &["statements_of_the_documents_add_jobs"]),
    ("docs/backup.md", "sh", 1, &["the_documented_commands_restore_a_queue"]),
    ("docs/bulk-actions.md", "sh", 4, &["commands_of_the_page_on_bulk_actions_work"]),
    ("docs/bulk-actions.md", "rust", 2, &["doctest of crates/fairlane/src/lib.rs"]),
    (
        "docs/comfyui.md",
        "sh",
        5,
        &[
            "the_demonstration_of_the_documents_accepts_their_job_and_sends_their_callback",
            "roles_and_workers_of_the_documents_complete_a_job",
            "the_trial_of_the_documents_runs",
        ],
    ),
    (
        "docs/comfyui.md",
        "json",
        1,
        &["the_demonstration_of_the_documents_accepts_their_job_and_sends_their_callback"],
    ),
    ("docs/configuration.md", "toml", 1, &["every_file_of_the_documents_is_valid"]),
    (
        "docs/configuration.md",
        "sh",
        1,
        &["the_redis_user_of_the_page_on_configuration_can_use_every_capability"],
    ),
    (
        "docs/dashboard.md",
        "sh",
        2,
        &["commands_of_the_documents_with_a_database_work", "commands_that_make_keys_and_completions_work"],
    ),
    ("docs/dashboard.md", "toml", 1, &["every_file_of_the_documents_is_valid"]),
    (
        "docs/deployment.md",
        "sh",
        2,
        &["the_steps_with_systemd_end_with_a_healthy_server", "commands_that_make_keys_and_completions_work"],
    ),
    ("docs/deployment.md", "toml", 1, &["every_file_of_the_documents_is_valid"]),
    ("docs/disciplines.md", "sh", 4, &["simulations_of_the_page_on_disciplines_run"]),
    ("docs/http.md", "sh", 2, &["requests_of_the_page_on_the_http_api_work"]),
    (
        "docs/install.md",
        "sh",
        4,
        &[
            "step xtask/src/test/readme.rs",
            "step xtask/src/dist.rs",
            "commands_that_make_keys_and_completions_work",
        ],
    ),
    (
        "docs/library.md",
        "toml",
        1,
        &["the_dependency_of_the_page_on_the_library_resolves_without_network_clients"],
    ),
    ("docs/library.md", "rust", 9, &["doctest of crates/fairlane/src/lib.rs"]),
    ("docs/locks.md", "sh", 3, &["commands_of_the_page_on_locks_work"]),
    ("docs/locks.md", "rust", 1, &["doctest of crates/fairlane/src/lib.rs"]),
    ("docs/locks.md", "sql", 1, &["the_statement_of_the_page_on_locks_refuses_a_smaller_fence"]),
    ("docs/outbox.md", "sh", 1, &["commands_of_the_documents_with_a_database_work"]),
    ("docs/outbox.md", "sql", 2, &["statements_of_the_documents_add_jobs"]),
    ("docs/outbox.md", "rust", 2, &["doctest of crates/fairlane-postgres/src/lib.rs"]),
    ("docs/quickstart-node.md", "sh", 4, &["quickstart_for_node_ends_with_a_processed_job"]),
    ("docs/quickstart-node.md", "js", 1, &["quickstart_for_node_ends_with_a_processed_job"]),
    ("docs/quickstart-node.md", "toml", 1, &["quickstart_for_node_ends_with_a_processed_job"]),
    ("docs/quickstart-python.md", "sh", 3, &["quickstart_for_python_ends_with_a_processed_job"]),
    ("docs/quickstart-python.md", "python", 2, &["quickstart_for_python_ends_with_a_processed_job"]),
    ("docs/quickstart-python.md", "toml", 1, &["quickstart_for_python_ends_with_a_processed_job"]),
    ("docs/quickstart-rust.md", "sh", 2, &["quickstart_for_rust_ends_with_a_processed_job"]),
    ("docs/quickstart-rust.md", "rust", 1, &["quickstart_for_rust_ends_with_a_processed_job"]),
    (
        "docs/rankings.md",
        "sh",
        3,
        &["commands_of_the_document_work", "the_command_of_the_page_on_rankings_reads_a_board_in_redis"],
    ),
    ("docs/rankings.md", "rust", 3, &["doctest of crates/fairlane/src/lib.rs"]),
    ("docs/redis-layout.md", "sh", 1, &["commands_of_the_page_on_the_redis_layout_show_a_queue"]),
    ("docs/security.md", "sh", 1, &["commands_that_make_keys_and_completions_work"]),
    ("docs/simulator.md", "sh", 2, &["simulations_of_the_page_on_the_simulator_run"]),
    ("docs/simulator.md", "toml", 1, &["simulations_of_the_page_on_the_simulator_run"]),
    ("docs/troubleshooting.md", "sh", 1, &["commands_of_the_page_on_troubleshooting_work"]),
    ("docs/waiting-rooms.md", "sh", 5, &["commands_of_the_page_on_waiting_rooms_work"]),
    ("docs/waiting-rooms.md", "rust", 2, &["doctest of crates/fairlane/src/lib.rs"]),
    ("docs/waiting-rooms.md", "toml", 1, &["every_file_of_the_documents_is_valid"]),
    (
        "docs/workers.md",
        "sh",
        1,
        &[
            "the_receiver_in_python_accepts_a_real_callback_and_refuses_a_forged_one",
            "the_receiver_in_node_accepts_a_real_callback_and_refuses_a_forged_one",
        ],
    ),
    (
        "docs/workers.md",
        "python",
        1,
        &["the_receiver_in_python_accepts_a_real_callback_and_refuses_a_forged_one"],
    ),
    ("docs/workers.md", "js", 1, &["the_receiver_in_node_accepts_a_real_callback_and_refuses_a_forged_one"]),
    (
        "docs/workers.md",
        "json",
        1,
        &["the_receiver_in_python_accepts_a_real_callback_and_refuses_a_forged_one"],
    ),
    ("docs/workers.md", "toml", 3, &["every_file_of_the_documents_is_valid"]),
    (
        "examples/box-office/README.md",
        "sh",
        5,
        &[
            "a_seat_is_bought_by_the_requests_of_the_readme_beside_a_crowd",
            "instances_of_the_readme_share_an_engine_and_a_file",
            "the_trial_and_the_measurement_of_the_readme_run",
        ],
    ),
    (
        "examples/comfy-service/README.md",
        "sh",
        1,
        &["the_demonstration_of_the_documents_accepts_their_job_and_sends_their_callback"],
    ),
    (
        "examples/http/README.md",
        "sh",
        1,
        &["the_example_workers_in_shell_python_and_javascript_complete_their_jobs"],
    ),
];

/// A page, the first line of a block in it, and why no test runs it.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("CONTRIBUTING.md", "cargo build", "it starts the check that the tests are part of"),
    ("docs/dashboard.md", "location /queue/ {", "it needs nginx, which the check does not install"),
    ("docs/performance.md", "cargo xtask peers", "it installs three other queues, and runs for half an hour"),
];

/// A fenced block.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    line: usize,
    language: &'a str,
    first: &'a str,
}

/// Finds blocks that no test runs, and entries of the lists that match no block.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_lists(tree, COVERED, NOT_RUN)
}

fn check_lists(tree: &Tree, covered: &[Covered], not_run: &[(&str, &str, &str)]) -> Vec<Finding> {
    let tests = source::test_functions(tree);
    let mut findings = Vec::new();
    for (page, text) in pages(tree) {
        let blocks = blocks(text);
        findings.extend(blocks.iter().filter_map(|block| untagged(page, block)));
        let is_run = |block: &&Block<'_>| {
            block.language != SHOWN
                && !not_run.iter().any(|(of, first, _)| (*of, *first) == (page, block.first))
        };
        let mut languages: Vec<&str> = blocks.iter().filter(is_run).map(|block| block.language).collect();
        languages.sort_unstable();
        languages.dedup();
        for language in languages.into_iter().filter(|language| !language.is_empty()) {
            let of_language = blocks.iter().filter(is_run).filter(|block| block.language == language);
            let lines: Vec<usize> = of_language.map(|block| block.line).collect();
            findings.extend(uncovered(page, language, &lines, covered));
        }
    }
    findings.extend(covered.iter().flat_map(|entry| unknown(tree, &tests, entry)));
    findings.extend(not_run.iter().filter_map(|entry| stale(tree, entry)));
    findings
}

fn pages(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.ending(".md").filter(|(path, _)| !EXEMPT.iter().any(|exempt| path.starts_with(exempt)))
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(info), None) => {
                let language = info.trim().split([' ', ',']).next().unwrap_or_default();
                open = Some(Block { line: index + 1, language, first: "" });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(block)) if block.first.is_empty() => {
                open = Some(Block { first: line.trim(), ..block })
            }
            (None, block) => open = block,
        }
    }
    blocks
}

/// A block without a language, or a command that is tagged as output.
fn untagged(page: &str, block: &Block<'_>) -> Option<Finding> {
    let is_command = COMMAND_WORDS.iter().any(|word| block.first.starts_with(word));
    let advice = match block.language {
        "" => "name the language of the block; output and pictures are `text`",
        SHOWN if is_command => "tag a block of commands as `sh`, so that a test runs it",
        _ => return None,
    };
    Some(Finding::new(RULE, page, block.line, advice))
}

/// A language of a page with more or fewer blocks than tests run.
fn uncovered(page: &str, language: &str, lines: &[usize], covered: &[Covered]) -> Option<Finding> {
    let listed = covered.iter().find(|(of, tagged, ..)| (*of, *tagged) == (page, language));
    let count = listed.map_or(0, |(_, _, count, _)| *count);
    let found = lines.len();
    let advice = format!(
        "{found} blocks of `{language}`, of which tests run {count}: let a test run each, and list it in \
         xtask/src/tidy/snippets.rs"
    );
    (count != found).then(|| Finding::new(RULE, page, lines[0], advice))
}

/// Tests of an entry that do not exist or do not read the page.
fn unknown(tree: &Tree, tests: &[TestFunction], (page, language, _, by): &Covered) -> Vec<Finding> {
    let name = page.rsplit('/').next().unwrap_or(page);
    let stem = name.trim_end_matches(".md");
    let reads = |path: &str| tree.text(path).is_some_and(|text| text.contains(stem));
    let exists = |runner: &str| match (runner.strip_prefix(DOCTEST), runner.strip_prefix(STEP)) {
        (Some(path), _) => tree.text(path).is_some_and(|text| text.contains(&format!("{page}\")]"))),
        (_, Some(path)) => reads(path),
        (None, None) => tests.iter().any(|test| test.name == runner && reads(&test.path)),
    };
    let mut findings = Vec::new();
    if !tree.text(page).is_some_and(|text| blocks(text).iter().any(|block| block.language == *language)) {
        findings.push(Finding::new(
            RULE,
            page,
            1,
            format!("it has no block of `{language}`; remove the entry"),
        ));
    }
    for runner in by.iter().filter(|runner| !exists(runner)) {
        let advice =
            format!("`{runner}` runs its blocks of `{language}`, but is not a test that names the page");
        findings.push(Finding::new(RULE, page, 1, advice));
    }
    if by.is_empty() {
        findings.push(Finding::new(RULE, page, 1, format!("name the test that runs its `{language}`")));
    }
    findings
}

/// An exception for a block that does not exist, or without a reason.
fn stale(tree: &Tree, (page, first, reason): &(&str, &str, &str)) -> Option<Finding> {
    let exists = tree.text(page).is_some_and(|text| blocks(text).iter().any(|block| block.first == *first));
    let advice = format!("`{first}` is an exception without a block or a reason; remove it");
    (!exists || reason.is_empty()).then(|| Finding::new(RULE, page, 1, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "docs/page.md";
    const TEST: (&str, &str) =
        ("crates/x/tests/x.rs", "const PAGE: &str = \"docs/page.md\";\n#[test]\nfn claim() {}\n");
    const LISTED: &[Covered] = &[(PAGE, "sh", 1, &["claim"])];

    fn advice(text: &str, covered: &[Covered], not_run: &[(&str, &str, &str)]) -> Vec<String> {
        let findings = check_lists(&Tree::of(&[(PAGE, text), TEST]), covered, not_run);
        findings.into_iter().map(|finding| format!("{}: {}", finding.line, finding.advice)).collect()
    }

    #[test]
    fn a_block_that_a_test_runs_is_fine() {
        assert_eq!(advice("```sh\na\n```\n\n```text\nb\n```\n", LISTED, &[]), [""; 0]);
    }

    #[test]
    fn a_new_block_is_found() {
        let found = advice("```sh\na\n```\n\n```sh\nb\n```\n```toml\nc\n```\n", LISTED, &[]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("1: 2 blocks of `sh`, of which tests run 1"), "{found:?}");
        assert!(found[1].starts_with("8: 1 blocks of `toml`, of which tests run 0"), "{found:?}");
    }

    #[test]
    fn an_exception_needs_its_block_and_a_reason() {
        let text = "```sh\na\n```\n```sh\nb c\n```\n";
        assert_eq!(advice(text, LISTED, &[(PAGE, "b c", "it needs a docker engine")]), [""; 0]);
        assert_eq!(advice("```sh\na\n```\n", LISTED, &[(PAGE, "b c", "why")]).len(), 1);
        assert_eq!(advice(text, LISTED, &[(PAGE, "b c", "")]).len(), 1);
    }

    #[test]
    fn a_test_that_is_gone_or_reads_another_page_is_found() {
        let text = "```sh\na\n```\n";
        assert_eq!(advice(text, &[(PAGE, "sh", 1, &["gone"])], &[]).len(), 1);
        let other = ("crates/x/tests/x.rs", "#[test]\nfn claim() {}\n");
        assert_eq!(check_lists(&Tree::of(&[(PAGE, text), other]), LISTED, &[]).len(), 1);
        assert_eq!(advice("prose\n", LISTED, &[]).len(), 1, "an entry without a block");
    }

    #[test]
    fn commands_are_not_tagged_as_output_and_blocks_have_a_language() {
        let found = advice("```text\nfairlane serve\n```\n```\nx\n```\n", &[], &[]);
        assert!(
            found[0].starts_with("1: tag a block of commands")
                && found[1].starts_with("4: name the language")
        );
    }
}
