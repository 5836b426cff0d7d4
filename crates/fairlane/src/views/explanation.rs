//! Why a job is not running.

use fairlane_core::queue::Explanation;
use serde::Serialize;

#[cfg(feature = "openapi")]
use super::schema;

/// Why a job is not running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Why))]
pub struct ExplanationView {
    /// The group of the job.
    pub group: String,
    /// The id of the job.
    pub id: String,
    /// The state of the job.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::job_states))]
    pub state: &'static str,
    /// The main reason, as a stable code for programs.
    #[cfg_attr(feature = "openapi", schema(example = "no-worker"))]
    pub reason: &'static str,
    /// The main reason, as a sentence for people.
    pub sentence: String,
    /// In how many milliseconds it may start, an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_in_ms: Option<u64>,
    /// The number of jobs before it in its lane, an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// The facts behind the reason.
    pub facts: Vec<FactView>,
}

/// One fact that matters for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Fact))]
pub struct FactView {
    /// The subject of the fact.
    pub about: &'static str,
    /// The fact, for people.
    pub text: String,
}

impl From<&Explanation> for ExplanationView {
    fn from(explanation: &Explanation) -> Self {
        let job = &explanation.job;
        let facts = explanation.facts().into_iter();
        Self {
            group: job.job.group.to_string(),
            id: job.job.id.to_string(),
            state: job.state.as_str(),
            reason: explanation.reason().as_str(),
            sentence: explanation.sentence(),
            starts_in_ms: explanation.starts_in_us().map(|us| us / 1000),
            ahead: explanation.position,
            facts: facts.map(|(about, text)| FactView { about, text }).collect(),
        }
    }
}
