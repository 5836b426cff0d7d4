//! `fairlane work --drain` with many jobs of other types.

use super::running::fairlane;
use super::served::Served;
use super::work::WorkFolder;

const GROUPS: usize = 300;

/// The number of `inspect_…` operations of the engine.
fn inspections(served: &Served) -> usize {
    let (_, metrics) = served.ask("GET", "/metrics", "").unwrap();
    let is_inspection =
        |line: &&str| line.starts_with("fairlane_operations_total{") && line.contains("operation=\"inspect_");
    metrics
        .lines()
        .filter(is_inspection)
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
    let before = inspections(&served);
    let ended = folder.drain(&served.address, "[types.mail]\ncommand = [\"sleep\", \"1\"]\n");
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let drained = ended.stdout.lines().find(|line| line.contains("drained")).unwrap();
    assert!(drained.contains("\"type\":\"other\",\"jobs\":300"), "{drained}");
    let inspected = inspections(&served) - before;
    // Each group once, to count the remaining jobs.
    assert!((GROUPS..GROUPS * 2).contains(&inspected), "{inspected} inspections of {GROUPS} groups");
}
