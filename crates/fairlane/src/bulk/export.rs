//! Streams the results of a bulk action out, a line of JSON for each job that has ended.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fairlane_core::Micros;
use fairlane_core::limits::LIST_JOBS_MAX;
use fairlane_core::queue::{JobLine, JobState, ListJobs, Listing};
use fairlane_worker::Problem;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::error::Error;
use crate::patience::{Patience, Waiter};
use crate::time::time_text;

use super::Bulk;

/// Which jobs to export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Filter {
    /// All that have ended.
    #[default]
    All,
    /// Those that succeeded.
    Succeeded,
    /// Those that are dead.
    Failed,
}

/// One line; also the order of its keys.
#[derive(Serialize)]
struct Line {
    id: String,
    r#type: String,
    state: &'static str,
    attempts: u32,
    created_at: String,
    settled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

/// Why a job failed, in the words of the HTTP interface.
#[derive(Serialize)]
struct Failure {
    code: String,
    reason: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    Json(Box<RawValue>),
    Text(String),
}

impl Bulk {
    /// Writes a line of JSON for each job that has ended, in the order they ended, and says how many: `id`, `type`,
    /// `state`, `attempts`, `created_at`, `settled_at`, and `result` or, of a job that failed, `error` with `code`
    /// and `reason`. A result that is JSON is written as it is, other text as a string, and what is no text (UTF-8) in
    /// base64 as `result_base64`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), fairlane::Error> {
    /// # let fairlane = fairlane::Fairlane::open("memory:").await?;
    /// # let bulk = fairlane.bulk("customer-7", "newsletter").open().await?;
    /// let mut lines = Vec::new();
    /// let jobs = bulk.export(&mut lines, fairlane::Filter::Failed).await?;
    /// # assert_eq!(jobs, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn export(&self, mut writer: impl AsyncWrite + Unpin, filter: Filter) -> Result<u64, Error> {
        let mut exported = 0;
        let mut cursor = Some(0);
        let mut waiter = Waiter::new(Patience::default(), None);
        self.view().await?;
        while let Some(from) = cursor {
            let command = ListJobs {
                listing: Listing::OfBulk(self.name.clone()),
                group: None,
                type_id: None,
                cursor: from,
                limit: LIST_JOBS_MAX,
            };
            let Some(page) = waiter.answered(self.engine.list_jobs(command).await).await? else { continue };
            let mut text = Vec::new();
            for job in page.jobs.iter().filter(|job| filter.wants(job.state)) {
                write_line(&mut text, job)?;
                exported += 1;
            }
            writer.write_all(&text).await?;
            cursor = page.next;
        }
        writer.flush().await?;
        Ok(exported)
    }
}

impl Filter {
    fn wants(self, state: JobState) -> bool {
        match self {
            Self::All => true,
            Self::Succeeded => state == JobState::Completed,
            Self::Failed => state == JobState::Failed,
        }
    }
}

fn write_line(text: &mut Vec<u8>, job: &JobLine) -> Result<(), Error> {
    let time = |at: Micros| time_text(at.as_millis());
    let is_done = job.state == JobState::Completed;
    let is_failed = job.state == JobState::Failed || !is_done && !job.note.is_empty();
    let result = is_done && !job.note.is_empty();
    let text_of_note = std::str::from_utf8(&job.note);
    let line = Line {
        id: job.job.id.to_string(),
        r#type: job.type_id.to_string(),
        state: job.state.as_str(),
        attempts: job.attempts,
        created_at: time(job.created_at),
        settled_at: job.settled_at.map(time),
        result: text_of_note.ok().filter(|_| result).map(shown),
        result_base64: (result && text_of_note.is_err()).then(|| BASE64.encode(&job.note)),
        error: is_failed.then(|| {
            let Problem { code, message: reason } = Problem::from_bytes(&job.note);
            Failure { code, reason }
        }),
    };
    let unwritable = |error: serde_json::Error| Error::Unreadable {
        what: format!("the result of job {}", line.id),
        reason: error.to_string(),
    };
    serde_json::to_writer(&mut *text, &line).map_err(unwritable)?;
    text.push(b'\n');
    Ok(())
}

/// JSON as it is, anything else as a string. Line breaks in JSON stand between its parts and mean nothing, but would
/// end the line.
fn shown(text: &str) -> Shown {
    let json = RawValue::from_string(text.replace(['\n', '\r'], " ").trim().to_owned());
    json.map_or_else(|_| Shown::Text(text.to_owned()), Shown::Json)
}
