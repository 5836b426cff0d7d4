//! The floor on Redis: three scripts, and a plain list as an even simpler comparison.

use std::sync::Arc;

use fairlane_core::queue::NewJob;
use fairlane_engine::Clock;
use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::failure::Failure;

const LEASE_MS: u64 = 60_000;

/// The scripts and their keys.
#[derive(Clone)]
pub struct ScriptFloor {
    connection: MultiplexedConnection,
    scripts: Arc<Scripts>,
    keys: Arc<Keys>,
}

struct Scripts {
    enqueue: Script,
    pop: Script,
    acknowledge: Script,
}

struct Keys {
    queue: String,
    count: String,
    leased: String,
    rows: String,
    list: String,
}

impl ScriptFloor {
    /// A floor whose keys begin with `prefix`.
    pub fn new(connection: MultiplexedConnection, prefix: &str) -> Self {
        let scripts = Scripts {
            enqueue: Script::new(include_str!("enqueue.lua")),
            pop: Script::new(include_str!("pop.lua")),
            acknowledge: Script::new(include_str!("acknowledge.lua")),
        };
        let key = |name: &str| format!("{prefix}floor:{name}");
        let keys = Keys {
            queue: key("queue"),
            count: key("count"),
            leased: key("leased"),
            rows: key("row:"),
            list: key("list"),
        };
        Self { connection, scripts: Arc::new(scripts), keys: Arc::new(keys) }
    }

    /// Adds jobs in one call.
    pub async fn enqueue(&self, jobs: &[NewJob]) -> Result<(), Failure> {
        let mut call = self.scripts.enqueue.prepare_invoke();
        call.key(&self.keys.queue).key(&self.keys.count).arg(&self.keys.rows);
        for job in jobs {
            call.arg(job.job.id.escaped()).arg(&*job.payload);
        }
        let created: usize = call.invoke_async(&mut self.connection.clone()).await?;
        if created == jobs.len() {
            Ok(())
        } else {
            Err(Failure::broken("the floor already contained a new job"))
        }
    }

    /// Leases and acknowledges jobs in two calls. Reads the rows, as a worker would need them.
    pub async fn pop_and_acknowledge(&self, jobs_max: usize) -> Result<usize, Failure> {
        let mut connection = self.connection.clone();
        let deadline_ms = Clock::System.now().plus_ms(LEASE_MS).as_millis();
        let mut pop = self.scripts.pop.prepare_invoke();
        pop.key(&self.keys.queue).key(&self.keys.leased);
        pop.arg(&self.keys.rows).arg(jobs_max).arg(deadline_ms);
        let (ids, rows): (Vec<String>, Vec<Vec<u8>>) = pop.invoke_async(&mut connection).await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let mut acknowledge = self.scripts.acknowledge.prepare_invoke();
        acknowledge.key(&self.keys.leased).arg(&self.keys.rows).arg(&ids);
        let acknowledged: usize = acknowledge.invoke_async(&mut connection).await?;
        if acknowledged != rows.len() {
            return Err(Failure::broken("the floor lost a lease"));
        }
        Ok(acknowledged)
    }

    /// Sends an LPUSH for each payload in one pipeline.
    pub async fn push_to_list(&self, jobs: &[NewJob]) -> Result<(), Failure> {
        let mut pipeline = redis::pipe();
        for job in jobs {
            pipeline.cmd("LPUSH").arg(&self.keys.list).arg(&*job.payload).ignore();
        }
        Ok(pipeline.query_async(&mut self.connection.clone()).await?)
    }

    /// Sends `jobs` RPOPs in one pipeline.
    pub async fn pop_from_list(&self, jobs: usize) -> Result<(), Failure> {
        let mut pipeline = redis::pipe();
        for _ in 0..jobs {
            pipeline.cmd("RPOP").arg(&self.keys.list);
        }
        let payloads: Vec<Option<Vec<u8>>> = pipeline.query_async(&mut self.connection.clone()).await?;
        if payloads.iter().all(Option::is_some) { Ok(()) } else { Err(Failure::broken("the list ran empty")) }
    }
}
