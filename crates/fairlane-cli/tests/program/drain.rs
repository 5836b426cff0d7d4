//! `fairlane work --drain` with many jobs of other types.

use fairlane_testkit::wait::until_blocking;

use super::running::fairlane;
use super::served::Served;
use super::work::WorkFolder;

const GROUPS: usize = 300;

/// Checks of the worker that are seen while its job runs.
const CHECKS: usize = 3;

/// How often the engine has carried out an operation.
fn calls(served: &Served, operation: &str) -> usize {
    let (_, metrics) = served.ask("GET", "/metrics", "").unwrap();
    let label = format!("operation=\"{operation}\"");
    let is_call = |line: &&str| line.starts_with("fairlane_operations_total{") && line.contains(&label);
    metrics
        .lines()
        .filter(is_call)
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap())
        .sum()
}

#[test]
fn other_groups_are_not_inspected_while_a_job_runs() {
    let served = Served::start();
    let job = |group: usize| format!("{{\"group\":\"other-{group}\",\"type\":\"other\",\"payload\":1}}");
    let jobs: Vec<String> = (0..GROUPS).map(job).collect();
    let (status, body) =
        served.ask("POST", "/api/jobs/batch", &format!("{{\"jobs\":[{}]}}", jobs.join(","))).unwrap();
    assert!(status < 300, "{body}");
    fairlane(&["enqueue", "customer-7", "mail", "1", "--engine", &served.address]);
    let folder = WorkFolder::new();
    let end = folder.path("end");
    let command = format!("until [ -e '{}' ]; do sleep 0.05; done", end.display());
    let config = format!("[types.mail]\ncommand = [\"sh\", \"-c\", \"{command}\"]\n");
    let ended = std::thread::scope(|scope| {
        let draining = scope.spawn(|| folder.drain(&served.address, &config));
        until_blocking("the job runs", || calls(&served, "lease") > 0);
        let (checks, groups) = (calls(&served, "inspect_type"), calls(&served, "inspect_group"));
        until_blocking("the worker checks", || calls(&served, "inspect_type") >= checks + CHECKS);
        assert_eq!(calls(&served, "inspect_group"), groups, "a check inspects no group while a job runs");
        std::fs::write(&end, "").unwrap();
        draining.join().unwrap()
    });
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let drained = ended.stdout.lines().find(|line| line.contains("drained")).unwrap();
    assert!(drained.contains("\"type\":\"other\",\"jobs\":300"), "{drained}");
    assert!(calls(&served, "inspect_group") >= GROUPS, "each group once, to count the remaining jobs");
}
