//! The processes of a trial.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane::{Fairlane, JobState};
use fairlane_postgres::sqlx::{self, Row};
use fairlane_postgres::{Error, Outbox};
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::process::Process;
use fairlane_testkit::receiver::{ReceivedRequest, Receiver, response};
use fairlane_testkit::redis::{RedisServer, ServerOptions, free_port};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::demo::new_secret;
use crate::{StartError, store};

/// How long a process has to listen.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The group of all jobs.
const GROUP: &str = "default";

/// A workflow whose last node succeeds or fails.
const SERVICE: &str = r#"{
    "parameters": {"image": {"type": "file", "types": ["image/png"]}},
    "template": {
        "1": {"class_type": "LoadImage", "inputs": {"image": "$image"}},
        "2": {"class_type": "KSampler", "inputs": {"pixels": ["1", 0]}},
        "3": {"class_type": "CLASS", "inputs": {"images": ["2", 0], "filename_prefix": "$job"}}
    }
}"#;

/// Every end that a row of a job got.
const ENDS: &str = "\
CREATE TABLE ends (id bigint, status text);
CREATE FUNCTION record_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO ends VALUES (NEW.id, NEW.status); RETURN NULL; END $$;
CREATE TRIGGER ends AFTER UPDATE ON comfy_jobs FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION record_end();";

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The API.
    Api,
    /// The relay.
    Relay,
    /// One of two workers.
    Worker,
    /// The database.
    Postgres,
    /// The queue.
    Redis,
    /// The stand-in for an engine.
    Engine,
}

impl Victim {
    /// All victims.
    pub const ALL: [Self; 6] =
        [Self::Api, Self::Relay, Self::Worker, Self::Postgres, Self::Redis, Self::Engine];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Relay => "relay",
            Self::Worker => "worker",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Engine => "engine",
        }
    }
}

/// A process of this program, which can be started again.
struct Role {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    process: Process,
}

impl Role {
    fn start(program: &Path, folder: &Path, name: &str, role: &str, options: &[(&str, &str)]) -> Self {
        let options = options.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]);
        let arguments: Vec<String> = std::iter::once(role.to_owned()).chain(options).collect();
        let log = folder.join(format!("{name}.log"));
        let process = spawn(program, &arguments, &log);
        Self { name: name.to_owned(), program: program.to_owned(), arguments, log, process }
    }

    fn restart(&mut self) {
        self.process = spawn(&self.program, &self.arguments, &self.log);
    }
}

fn spawn(program: &Path, arguments: &[String], log: &Path) -> Process {
    let open = |path| OpenOptions::new().create(true).append(true).open(path);
    let log: File = open(log).expect("the folder of a trial can be written");
    Process::start(
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log),
    )
}

/// Everything that runs in a trial.
pub struct Ground {
    roles: Vec<Role>,
    api: SocketAddr,
    postgres: PostgresServer,
    redis: RedisServer,
    receiver: Receiver,
    held: Arc<Mutex<HashSet<String>>>,
    /// The connections of the trial itself.
    pub outbox: Outbox,
    fairlane: Fairlane,
    /// The secret that signs callbacks.
    pub secret: String,
    folder: TempDir,
}

impl Ground {
    /// Starts everything on free ports.
    pub async fn start(program: &Path) -> Result<Self, StartError> {
        let folder = tempfile::Builder::new().prefix("comfy-trial-").tempdir()?;
        let services = folder.path().join("services");
        std::fs::create_dir(&services)?;
        for (name, class) in [("portrait", "SaveImage"), ("broken", "Fail")] {
            std::fs::write(services.join(format!("{name}.json")), SERVICE.replace("CLASS", class))?;
        }
        let durable = ServerOptions { durable: true, ..ServerOptions::default() };
        let (postgres, redis) =
            tokio::task::spawn_blocking(move || (PostgresServer::start(), RedisServer::start(durable)))
                .await?;
        let outbox = Outbox::connect_lazy(&postgres.url())?;
        store::migrate(&outbox).await?;
        sqlx::raw_sql(ENDS).execute(outbox.pool()).await.map_err(Error::from)?;
        let fairlane = Fairlane::open(&redis.url()).await?;
        let held: Arc<Mutex<HashSet<String>>> = Arc::default();
        let receiver = receiver(held.clone());
        let (api, engine) = (local(free_port()), local(free_port()));
        let secret = new_secret()?;
        let (database, queue) = (postgres.url(), redis.url());
        let [files, services, journal] =
            ["files", "services", "journal"].map(|name| folder.path().join(name).display().to_string());
        let (api_text, engine_text, engine_url) =
            (api.to_string(), engine.to_string(), format!("http://{engine}"));
        let shared = [
            ("--database", database.as_str()),
            ("--engine", &queue),
            ("--files", &files),
            ("--callback-host", "127.0.0.1"),
        ];
        let with = |more: &[(&'static str, &str)]| {
            let all = shared.iter().chain(more);
            all.map(|(name, value)| (*name, (*value).to_owned())).collect::<Vec<_>>()
        };
        let worker = |name: &str| {
            with(&[
                ("--name", name),
                ("--comfyui", &engine_url),
                ("--callback-secret", &secret),
                ("--poll-every", "200ms"),
                ("--lease", "5s"),
                ("--callback-retry", "200ms"),
            ])
        };
        let engine_options =
            [("--listen", engine_text.as_str()), ("--node-time", "20ms"), ("--journal", &journal)];
        let engine_options = engine_options.map(|(name, value)| (name, value.to_owned())).to_vec();
        let mut roles = Vec::new();
        for (name, role, options) in [
            ("api", "api", with(&[("--listen", &api_text), ("--services", &services)])),
            ("relay", "relay", with(&[("--reconcile-every", "1s")])),
            ("worker-0", "worker", worker("worker-0")),
            ("worker-1", "worker", worker("worker-1")),
            ("engine", "stand-in", engine_options),
        ] {
            let options: Vec<(&str, &str)> =
                options.iter().map(|(name, value)| (*name, value.as_str())).collect();
            roles.push(Role::start(program, folder.path(), name, role, &options));
        }
        let mut ground =
            Self { roles, api, postgres, redis, receiver, held, outbox, fairlane, secret, folder };
        ground.until_listening(api, "api").await?;
        ground.until_listening(engine, "engine").await?;
        Ok(ground)
    }

    /// The address of the API.
    pub fn api(&self) -> SocketAddr {
        self.api
    }

    fn role(&mut self, victim: Victim, one_of_two: usize) -> &mut Role {
        let name = match victim {
            Victim::Worker => format!("worker-{one_of_two}"),
            other => other.name().to_owned(),
        };
        self.roles.iter_mut().find(|role| role.name == name).expect("servers are no roles")
    }

    /// Kills a victim with SIGKILL.
    pub fn kill(&mut self, victim: Victim, one_of_two: usize) {
        match victim {
            Victim::Postgres => self.postgres.kill(),
            Victim::Redis => self.redis.kill(),
            role => self.role(role, one_of_two).process.kill(),
        }
    }

    /// Starts a victim again.
    pub async fn restart(&mut self, victim: Victim, one_of_two: usize) -> Result<(), StartError> {
        match victim {
            Victim::Postgres => tokio::task::block_in_place(|| self.postgres.restart()),
            Victim::Redis => tokio::task::block_in_place(|| self.redis.restart()),
            role => self.role(role, one_of_two).restart(),
        }
        match victim {
            Victim::Api => self.until_listening(self.api, "api").await,
            _ => Ok(()),
        }
    }

    async fn until_listening(&mut self, address: SocketAddr, name: &str) -> Result<(), StartError> {
        let deadline = Instant::now() + START_LIMIT;
        while tokio::net::TcpStream::connect(address).await.is_err() {
            let role = self.roles.iter_mut().find(|role| role.name == name).expect("it is a role");
            if let Some(status) = role.process.try_wait()? {
                let log = std::fs::read_to_string(&role.log).unwrap_or_default();
                return Err(format!("{name} has ended with {status}: {log}").into());
            }
            if Instant::now() > deadline {
                return Err(format!("{name} does not listen").into());
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn path(round: u64) -> String {
        format!("/hook/{round}")
    }

    /// The URL for the callback of a round.
    pub fn callback_url(&self, round: u64) -> String {
        self.receiver.url(&Self::path(round))
    }

    /// Makes the receiver wait before it answers the callback of a round, or lets it answer.
    pub fn hold_callback(&self, round: u64, holds: bool) {
        let mut held = self.held.lock().expect("no holder of the lock panics");
        if holds {
            held.insert(Self::path(round));
        } else {
            held.remove(&Self::path(round));
        }
    }

    /// Number of callbacks of a round so far.
    pub fn callbacks(&self, round: u64) -> usize {
        self.receiver.requests_to(&Self::path(round)).len()
    }

    /// The callbacks of a round.
    pub fn callback_requests(&self, round: u64) -> Vec<ReceivedRequest> {
        self.receiver.requests_to(&Self::path(round))
    }

    /// The state of a job in the queue.
    pub async fn state_in_queue(&self, id: &str) -> Option<JobState> {
        let view = self.fairlane.job(GROUP, id).view().await;
        view.ok().flatten().map(|view| view.state)
    }

    /// The worker that has leased one of these jobs.
    pub async fn holder(&self, ids: &[&str]) -> Option<usize> {
        for id in ids {
            let view = self.fairlane.job(GROUP, id).view().await.ok().flatten();
            let view = view.filter(|view| view.state == JobState::Processing);
            if let Some(worker) = view.and_then(|view| view.worker) {
                let name = worker.to_string();
                return (0..2).find(|number| name.starts_with(&format!("worker-{number}")));
            }
        }
        None
    }

    /// The id in the queue of a job.
    pub async fn queue_id(&self, id: i64) -> Result<Option<String>, Error> {
        let row = sqlx::query("SELECT queue_id FROM comfy_jobs WHERE id = $1").bind(id);
        Ok(row.fetch_optional(self.outbox.pool()).await?.map(|row| row.get("queue_id")))
    }

    /// The status of a job in the database.
    pub async fn status(&self, id: i64) -> Option<String> {
        let row = sqlx::query("SELECT status FROM comfy_jobs WHERE id = $1").bind(id);
        row.fetch_optional(self.outbox.pool()).await.ok().flatten().map(|row| row.get("status"))
    }

    /// Whether the database has the delivery of a callback.
    pub async fn is_delivered(&self, callback: &str) -> bool {
        let job = self.outbox.job(GROUP, callback).await;
        job.is_ok_and(|job| job.is_some_and(|job| job.status == "SUCCEEDED"))
    }

    /// The lines of the journal of all engines.
    pub fn journal(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.folder.path().join("journal")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Whether the journal has an event of a job.
    pub fn is_in_journal(&self, event: &str, queue_id: &str) -> bool {
        let text = std::fs::read_to_string(self.folder.path().join("journal")).unwrap_or_default();
        let event = format!("\"event\":\"{event}\"");
        text.lines().any(|line| line.contains(queue_id) && line.contains(&event))
    }

    /// Whether all jobs and their callbacks have ended.
    pub async fn is_quiet(&self, jobs: usize) -> bool {
        let open = "SELECT (SELECT count(*) FROM comfy_jobs WHERE ended_at IS NOT NULL) AS ended, \
             (SELECT count(*) FROM fairlane_jobs WHERE ended_at IS NULL) AS open, \
             (SELECT count(*) FROM fairlane_outbox) AS waiting";
        let row = sqlx::query(open).fetch_one(self.outbox.pool()).await;
        row.is_ok_and(|row| {
            let count = |name: &str| row.get::<i64, _>(name);
            (count("ended"), count("open"), count("waiting")) == (jobs as i64, 0, 0)
        })
    }

    /// Keeps the folder with the logs, and prints where it is.
    pub fn keep_logs(mut self, keeps: bool) {
        if keeps {
            self.folder.disable_cleanup(true);
            eprintln!("the logs are in {}", self.folder.path().display());
        }
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A receiver that answers when its path is not held.
fn receiver(held: Arc<Mutex<HashSet<String>>>) -> Receiver {
    Receiver::handling(move |request: &ReceivedRequest| {
        let (held, path) = (held.clone(), request.path().to_owned());
        async move {
            while held.lock().expect("no holder of the lock panics").contains(&path) {
                sleep(LOOK_EVERY).await;
            }
            response("204 No Content", &[], "")
        }
    })
}
