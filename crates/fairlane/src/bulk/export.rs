//! Streams out the results of a bulk action, a line of JSON for each ended job.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fairlane_core::limits::LIST_JOBS_MAX;
use fairlane_core::queue::{JobLine, JobState, ListJobs, Listing};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::error::Error;
use crate::retry_budget::{RetryLoop, Waiting};
use crate::views::{ErrorView, Time};

use super::Bulk;

/// The jobs to export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Filter {
    /// All jobs that have ended.
    #[default]
    All,
    /// Jobs that succeeded.
    Succeeded,
    /// Dead jobs.
    Failed,
}

/// One exported line. The order of its fields is the order of the keys in JSON.
#[derive(Serialize)]
struct ExportLine {
    id: String,
    r#type: String,
    state: &'static str,
    attempts: u32,
    created_at: Time,
    settled_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ResultValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultValue {
    Json(Box<RawValue>),
    Text(String),
}

impl Bulk {
    /// Writes a line of JSON for each ended job, in the order the jobs ended, and returns their
    /// number. A line has `id`, `type`, `state`, `attempts`, `created_at`, `settled_at`, and
    /// `result` or, for a failed job, `error` with `code` and `reason`. A result that is JSON is
    /// written as it is, other UTF-8 text as a string, and other bytes in base64 as
    /// `result_base64`.
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
        let mut retries = RetryLoop::new(Waiting::default());
        self.view().await?;
        while let Some(from) = cursor {
            let command = ListJobs {
                listing: Listing::OfBulk(self.name.clone()),
                group: None,
                type_id: None,
                cursor: from,
                limit: LIST_JOBS_MAX,
            };
            let Some(page) = retries.reply_or_wait(self.engine.call(command).await).await? else { continue };
            let mut text = Vec::new();
            for job in page.jobs.iter().filter(|job| filter.includes(job.state)) {
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
    fn includes(self, state: JobState) -> bool {
        match self {
            Self::All => true,
            Self::Succeeded => state == JobState::Completed,
            Self::Failed => state == JobState::Failed,
        }
    }
}

fn write_line(text: &mut Vec<u8>, job: &JobLine) -> Result<(), Error> {
    let result = job.state == JobState::Completed && !job.note.is_empty();
    let text_of_note = std::str::from_utf8(&job.note);
    let line = ExportLine {
        id: job.job.id.to_string(),
        r#type: job.type_id.to_string(),
        state: job.state.as_str(),
        attempts: job.attempts,
        created_at: Time(job.created_at),
        settled_at: job.settled_at.map(Time),
        result: text_of_note.ok().filter(|_| result).map(result_value),
        result_base64: (result && text_of_note.is_err()).then(|| BASE64.encode(&job.note)),
        error: ErrorView::of(job.state, &job.note),
    };
    let unwritable = |error: serde_json::Error| Error::Unreadable {
        what: format!("the result of job {}", line.id),
        reason: error.to_string(),
    };
    serde_json::to_writer(&mut *text, &line).map_err(unwritable)?;
    text.push(b'\n');
    Ok(())
}

/// Valid JSON unchanged, and any other text as a string. Line breaks between JSON tokens become
/// spaces, because they would end the exported line.
fn result_value(text: &str) -> ResultValue {
    let json = RawValue::from_string(text.replace(['\n', '\r'], " ").trim().to_owned());
    json.map_or_else(|_| ResultValue::Text(text.to_owned()), ResultValue::Json)
}
