//! A queue in a temporary directory, with the program and workers on it.

use fairlane::{Context, Fairlane, Job, Outcome};
use tempfile::TempDir;

use super::running::{Ended, fairlane};

pub struct Queue {
    folder: TempDir,
}

impl Queue {
    /// A queue that does not exist yet.
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub fn url(&self) -> String {
        format!("dir:{}", self.folder.path().join("queue").display())
    }

    /// Runs the program on the queue.
    pub fn run(&self, words: &[&str]) -> Ended {
        fairlane(&[words, &["--engine", &self.url()]].concat())
    }

    /// Runs the program on the queue with `--json`.
    pub fn json(&self, words: &[&str]) -> serde_json::Value {
        self.run(&[words, &["--json"]].concat()).json()
    }

    /// Writes a file beside the queue.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs jobs until a bulk action has ended; then the directory is free again.
    pub fn work_off(&self, group: &str, bulk: &str) {
        self.work(async |fairlane| {
            fairlane.bulk(group, bulk).opened_before().unwrap().finished().await.unwrap();
        });
    }

    /// Runs jobs until a future completes.
    fn work(&self, until: impl AsyncFnOnce(&Fairlane)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fairlane = Fairlane::attach(&self.url()).await.unwrap();
            let pool = fairlane.worker().process("mail", process).start().unwrap();
            until(&fairlane).await;
            pool.stop().await;
        });
    }

    /// A queue with dead jobs: `rare-…` with the code `rare`, the others with `frequent`.
    pub fn with_dead(ids: &[&str]) -> Self {
        let queue = Self::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fairlane = Fairlane::open(&queue.url()).await.unwrap();
            for id in ids {
                let code = id.split('-').next().unwrap();
                let job = Job::new("customer-7", "mail", &code).id(*id);
                fairlane.enqueue(job).await.unwrap().accepted().unwrap();
            }
        });
        queue.work(async |fairlane| {
            for id in ids {
                fairlane.job("customer-7", id).finished().await.unwrap().unwrap();
            }
        });
        queue
    }
}

/// A job with a number succeeds; one with a word fails with that code.
async fn process(payload: serde_json::Value, _: Context) -> Outcome {
    match payload.as_str() {
        Some(code) => Outcome::failed(code, "it never works"),
        None => Outcome::done(&payload),
    }
}
