//! `fairlane bench`: that it measures, not what.

use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::running::{fairlane, has_keys};

const RESULT_KEYS: [&str; 10] = [
    "name",
    "engine",
    "groups",
    "jobs_per_second",
    "floor_per_second",
    "floor_ratio",
    "server_us_per_job",
    "calls_per_job",
    "floor_us_per_job",
    "script_p999_ms",
];

#[test]
fn the_core_is_measured_with_few_and_with_many_groups() {
    let report = fairlane(&["bench", "--quick", "--only", "core", "--json"]).json();
    let results = report["results"].as_array().unwrap();
    let groups: Vec<_> = results.iter().map(|result| result["groups"].as_u64().unwrap()).collect();
    assert_eq!(groups, [100, 100_000]);
    for result in results {
        has_keys(result, &RESULT_KEYS);
        assert_eq!((result["name"].as_str(), result["engine"].as_str()), (Some("core"), Some("core")));
        assert!(result["jobs_per_second"].as_f64().unwrap() > 0.0);
        assert!(result["floor_ratio"].as_f64().unwrap() > 0.0);
        assert!(result["server_us_per_job"].is_null());
    }
}

#[test]
fn on_redis_server_counters_are_reported_and_no_keys_remain() {
    let server = RedisServer::start(ServerOptions::default());
    assert_eq!(server.command(&["SET", "kept", "1"]), "OK");
    for name in ["enqueue", "drain", "idle-latency", "groups-10", "jobs-1000", "memory"] {
        let words = ["bench", "--engine", &server.url(), "--quick", "--only", name, "--json"];
        let report = fairlane(&words).json();
        let result = &report["results"][0];
        has_keys(result, &RESULT_KEYS);
        assert_eq!((result["name"].as_str(), result["engine"].as_str()), (Some(name), Some("redis")));
        assert!(result["floor_ratio"].as_f64().unwrap() > 0.0, "{result}");
        if !matches!(name, "idle-latency" | "memory") {
            for key in ["jobs_per_second", "server_us_per_job", "calls_per_job", "script_p999_ms"] {
                assert!(result[key].as_f64().unwrap() > 0.0, "{key} in {result}");
            }
        }
    }
    assert_eq!(server.command(&["DBSIZE"]), "1");
}

#[test]
fn the_text_output_is_a_table_and_a_plot() {
    let folder = tempfile::TempDir::new().unwrap();
    let picture = folder.path().join("ratios.svg");
    let words = ["bench", "--quick", "--only", "drain", "--plot", picture.to_str().unwrap()];
    let ended = fairlane(&words);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("jobs/s") && ended.stdout.contains("drain"), "{}", ended.stdout);
    assert!(std::fs::read_to_string(picture).unwrap().contains("<svg"));
}

#[test]
fn an_unknown_benchmark_is_rejected_with_a_list_of_the_known_ones() {
    fairlane(&["bench", "--only", "speed"]).failed(2, &["\"speed\"", "enqueue", "idle-latency", "core"]);
    fairlane(&["bench", "--engine", "redis://127.0.0.1:1", "--only", "drain"])
        .failed(1, &["redis cannot be reached"]);
}
