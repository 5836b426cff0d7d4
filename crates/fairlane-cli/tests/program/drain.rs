//! `fairlane work --drain` beside many others' jobs.

use super::running::fairlane;
use super::served::Served;
use super::work::Place;

const GROUPS: usize = 300;

/// How often the engine was asked how something stands.
fn looks(served: &Served) -> usize {
    let (_, metrics) = served.ask("GET", "/metrics", "").unwrap();
    let is_looks = |line: &&str| {
        line.starts_with("fairlane_operations_total{") && line.contains("operation=\"inspect\"")
    };
    metrics
        .lines()
        .filter(is_looks)
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap())
        .sum()
}

#[test]
fn while_a_job_runs_the_groups_of_others_are_not_looked_through() {
    let served = Served::start();
    let job = |group: usize| format!("{{\"group\":\"other-{group}\",\"type\":\"other\",\"payload\":1}}");
    let jobs: Vec<String> = (0..GROUPS).map(job).collect();
    let (status, body) =
        served.ask("POST", "/api/jobs/batch", &format!("{{\"jobs\":[{}]}}", jobs.join(","))).unwrap();
    assert!(status < 300, "{body}");
    fairlane(&["enqueue", "customer-7", "mail", "1", "--engine", &served.address]);
    let place = Place::new();
    let before = looks(&served);
    let ended = place.drain(&served.address, "[types.mail]\ncommand = [\"sleep\", \"1\"]\n");
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let drained = ended.stdout.lines().find(|line| line.contains("drained")).unwrap();
    assert!(drained.contains("\"type\":\"other\",\"jobs\":300"), "{drained}");
    let asked = looks(&served) - before;
    // Once, to say what is left.
    assert!((GROUPS..GROUPS * 2).contains(&asked), "{asked} looks for {GROUPS} groups");
}
