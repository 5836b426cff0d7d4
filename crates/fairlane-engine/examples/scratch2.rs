use std::sync::Arc;
use fairlane_core::queue::*;
use fairlane_core::*;
use fairlane_engine::*;
use fairlane_engine::redis::*;
use ::redis::Value;

fn instructions() -> f64 { 0.0 }
async fn usec(c: &mut ::redis::aio::MultiplexedConnection) -> (f64, f64) {
    let info: String = ::redis::cmd("INFO").arg("commandstats").query_async(c).await.unwrap();
    let (mut us, mut calls) = (0.0, 0.0);
    for line in info.lines() {
        if let Some(rest) = line.strip_prefix("cmdstat_") {
            let (name, f) = rest.split_once(':').unwrap();
            let get = |k: &str| -> f64 { f.split(',').find_map(|x| x.strip_prefix(k)).unwrap().parse().unwrap() };
            if name == "evalsha" || name == "eval" { us += get("usec="); } else { calls += get("calls="); }
        }
    }
    let info: String = ::redis::cmd("INFO").arg("cpu").query_async(c).await.unwrap();
    let cpu: f64 = info.lines().filter_map(|l| l.strip_prefix("used_cpu_user_main_thread:").or(l.strip_prefix("used_cpu_sys_main_thread:"))).map(|v| v.parse::<f64>().unwrap()).sum();
    let _ = us; let _ = instructions();
    (cpu * 1e6, calls)
}

#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    let groups: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let per: usize = std::env::args().nth(3).unwrap().parse().unwrap();
    let mut raw = ::redis::Client::open(url.as_str()).unwrap().get_multiplexed_async_connection_with_config(&::redis::AsyncConnectionConfig::new().set_response_timeout(None)).await.unwrap();
    for round in 0..3 {
        let _: () = ::redis::cmd("FLUSHALL").query_async(&mut raw).await.unwrap();
        let total = (groups * per) as f64;
        // floor
        let enq = ::redis::Script::new("local ids, n = {KEYS[1]}, 1\nfor i = 1, #ARGV, 2 do if redis.call('SETNX', 'floor:job:' .. ARGV[i], ARGV[i+1]) == 1 then n = n + 1 ids[n] = ARGV[i] end end\nif n > 1 then redis.call('RPUSH', unpack(ids)) redis.call('INCRBY', 'floor:count', n - 1) end return n - 1");
        let pop = ::redis::Script::new("local ids = redis.call('LPOP', KEYS[1], ARGV[1]) if not ids then return {} end local keys, z = {}, {} for i, id in ipairs(ids) do keys[i] = 'floor:job:' .. id z[2*i-1] = ARGV[2] z[2*i] = id end local rows = redis.call('MGET', unpack(keys)) redis.call('ZADD', 'floor:leases', unpack(z)) return {ids, rows}");
        let ack = ::redis::Script::new("local keys = {} for i, id in ipairs(ARGV) do keys[i] = 'floor:job:' .. id end redis.call('ZREM', 'floor:leases', unpack(ARGV)) redis.call('DEL', unpack(keys)) return #ARGV");
        let payload = "x".repeat(200);
        let (u0, c0) = usec(&mut raw).await;
        for g in 0..groups { for b in 0..per.div_ceil(100) {
            let mut inv = enq.prepare_invoke(); inv.key("floor:list");
            for j in b*100..((b+1)*100).min(per) { inv.arg(format!("g{g:05}j{j:09}")).arg(&payload); }
            let _: i64 = inv.invoke_async(&mut raw).await.unwrap();
        } }
        let (u1, c1) = usec(&mut raw).await;
        let fe = (u1-u0)/total;
        let fec = (c1-c0)/total;
        loop {
            let mut inv = pop.prepare_invoke(); inv.key("floor:list").arg(100).arg(1_700_000_000_000_000u64);
            let v: Value = inv.invoke_async(&mut raw).await.unwrap();
            let Value::Array(a) = v else { panic!() };
            if a.is_empty() { break; }
            let ids: Vec<String> = ::redis::from_redis_value(a[0].clone()).unwrap();
            let mut inv = ack.prepare_invoke();
            for id in &ids { inv.arg(id); }
            let _: i64 = inv.invoke_async(&mut raw).await.unwrap();
        }
        let (u2, c2) = usec(&mut raw).await;
        let fd = (u2-u1)/total;
        println!("floor enqueue {fe:.3} us ({fec:.2} calls) drain {fd:.3} us ({:.2} calls)", (c2-c1)/total);
        // ours
        let engine: Arc<dyn Engine> = Arc::new(RedisEngine::connect(&url, RedisOptions::default()).await.unwrap());
        let payload: Arc<[u8]> = Arc::from(payload.as_bytes());
        let t = TypeId::new("bench").unwrap();
        engine.set_whole(SetWhole { settings: Settings::default() }).await.unwrap();
        let (u0, c0) = usec(&mut raw).await;
        for b in 0..per.div_ceil(100) { for g in 0..groups {
            let group = GroupId::new(format!("group-{g:05}")).unwrap();
            let jobs = (b*100..((b+1)*100).min(per)).map(|j| NewJob { job: JobRef { group: group.clone(), id: JobId::new(format!("g{g:05}j{j:09}")).unwrap() }, type_id: t.clone(), level: Level::Normal, cost: Cost::default(), payload: payload.clone(), delay_ms: 0 }).collect();
            engine.enqueue(Enqueue { jobs }).await.unwrap();
        } }
        let (u1, c1) = usec(&mut raw).await;
        let start = std::time::Instant::now();
        let mut leaser = Leaser::new(engine.clone(), WorkerId::new("bench-worker").unwrap());
        let mut n = 0;
        let mut ul = 0.0;
        let mut k = 0;
        while n < groups * per {
            let (a, _) = if k % 16 == 0 { usec(&mut raw).await } else { (0.0,0.0) };
            let batch = leaser.lease(std::slice::from_ref(&t), 100, 60_000).await.unwrap();
            if k % 16 == 0 { ul += usec(&mut raw).await.0 - a; }
            k += 1;
            n += batch.jobs.len();
            let note: Arc<[u8]> = Arc::from(&[][..]);
            let settlements = batch.jobs.into_iter().map(|j| Settlement { job: j.job, fence: j.fence, outcome: Outcome::Succeeded { result: note.clone() } }).collect();
            engine.settle(Settle { settlements }).await.unwrap();
        }
        let (u2, c2) = usec(&mut raw).await;
        println!("ours  enqueue {:.3} us ({:.2} calls) drain {:.3} us ({:.2} calls), lease part {:.3}; ratio {:.3} {:.3}; {:.0}/s", (u1-u0)/total, (c1-c0)/total, (u2-u1)/total, (c2-c1)/total, ul * 16.0 / total, fe/((u1-u0)/total), fd/((u2-u1)/total), total/start.elapsed().as_secs_f64());
    }
}
