//! What an audit of a queue in Redis costs as the number of groups grows.

use fairlane_conformance::subject::job;
use fairlane_engine::Engine;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

/// Counts the values that scripts read, in all and most in one step.
const COUNTING_CALL: &str = "(function()
  local step = 0
  local function size(value)
    local count = 1
    for _, item in ipairs(type(value) == 'table' and value or {}) do count = count + size(item) end
    return count
  end
  return function(...)
    local reply = redis.call(...)
    step = step + size(reply)
    redis.call('INCRBY', 'test:read', size(reply))
    if step > tonumber(redis.call('GET', 'test:step') or 0) then redis.call('SET', 'test:step', step) end
    return reply
  end
end)()";

fn counting(stem: &str, source: &str) -> String {
    if stem != "audit" {
        return source.to_owned();
    }
    let entry = "function queue.ops.audit(cx)\n";
    assert!(source.contains(entry), "the file has the function of its operation");
    let plain = source.replacen(entry, "local function audit(cx)\n", 1);
    format!(
        "{plain}\n{entry}  local plain = call\n  call = {COUNTING_CALL}\n  local reply = audit(cx)\n  \
         call = plain\n  return reply\nend\n"
    )
}

struct Cost {
    read_per_group: u64,
    read_in_a_step: u64,
    scripts_per_group: u64,
}

/// Audits a healthy queue in which each group has three jobs, some of them leased.
async fn audit_cost(groups: u64) -> Cost {
    let server = RedisServer::start(ServerOptions::default());
    let options = RedisOptions { edit_script: Some(counting), ..RedisOptions::default() };
    let connected = RedisEngine::connect(&server.url(), options).await.expect("Redis is there");
    let engine: &dyn Engine = &connected;
    let new = (0..groups * 3).map(|number| job(&format!("g{}", number % groups), &number.to_string()));
    engine.enqueue_all(new).await.expect("it is answered");
    let number = |key: &str| server.command(&["GET", key]).parse::<u64>().expect("a count");
    let scripts = || {
        let stats = server.command(&["INFO", "commandstats"]);
        let calls = |name: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
            line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().expect("a count"))
        };
        calls("fcall") + calls("eval") + calls("evalsha")
    };
    let before: u64 = scripts();
    let report = engine.audit_all(false, |_| {}).await.expect("it is answered");
    assert_eq!((report.findings, report.too_large, report.groups), (vec![], vec![], groups));
    Cost {
        read_per_group: number("test:read") / groups,
        read_in_a_step: number("test:step"),
        scripts_per_group: (scripts() - before) / groups,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_reads_as_much_per_group_however_many_groups() {
    let (few, many) = (audit_cost(150).await, audit_cost(1200).await);
    assert!(
        many.read_per_group <= few.read_per_group + few.read_per_group / 10,
        "{} then {}",
        few.read_per_group,
        many.read_per_group
    );
    assert!(
        many.scripts_per_group <= few.scripts_per_group,
        "{} then {}",
        few.scripts_per_group,
        many.scripts_per_group
    );
    assert!(many.read_in_a_step <= 4000, "{}", many.read_in_a_step);
}
