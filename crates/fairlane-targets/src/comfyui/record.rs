//! The record of an ended prompt, and its verdict.
//!
//! The verdict is the last message about the end. The status alone is not reliable: the engine
//! leaves that of the previous prompt when it fails before the first node.

use serde_json::Value;

/// The record of the engine about a prompt that has ended.
pub(super) struct Record {
    outputs: Value,
    /// Pairs of a name and its data, in the order of time.
    messages: Vec<(String, Value)>,
}

/// How a prompt ended.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// With these outputs, by node.
    Succeeded(Value),
    /// The GPU has too little memory; another attempt may succeed after memory is freed.
    OutOfMemory(String),
    NodeFailed(String),
    Interrupted,
    /// No message says how the prompt ended.
    None,
}

impl Record {
    /// Reads an entry of `/history`.
    pub fn from_history(mut entry: Value) -> Self {
        Self { outputs: entry["outputs"].take(), messages: messages(&entry["status"]) }
    }

    /// Reads `/api/jobs/{id}`.
    pub fn from_job(mut job: Value) -> Self {
        let mut messages = messages(&job["execution_status"]);
        if messages.is_empty() {
            let (status, error) = (job["status"].as_str().map(str::to_owned), job["execution_error"].take());
            let name = match status.as_deref() {
                Some("completed") => "execution_success",
                Some("cancelled") => "execution_interrupted",
                _ => "execution_error",
            };
            messages.push((name.to_owned(), error));
        }
        Self { outputs: job["outputs"].take(), messages }
    }

    pub fn verdict(self) -> Verdict {
        for (name, data) in self.messages.into_iter().rev() {
            match name.as_str() {
                "execution_success" => return Verdict::Succeeded(self.outputs),
                "execution_interrupted" => return Verdict::Interrupted,
                "execution_error" => return failure(&data),
                _ => {}
            }
        }
        Verdict::None
    }
}

fn messages(status: &Value) -> Vec<(String, Value)> {
    let listed = status["messages"].as_array().into_iter().flatten();
    listed.filter_map(|message| Some((message[0].as_str()?.to_owned(), message[1].clone()))).collect()
}

fn failure(data: &Value) -> Verdict {
    let text = |name: &str| data[name].as_str().unwrap_or_default().trim();
    let message = match (text("node_id"), text("node_type")) {
        ("", _) => text("exception_message").to_owned(),
        (id, class) => {
            format!("node {id} ({class}): {}: {}", text("exception_type"), text("exception_message"))
        }
    };
    match text("exception_type").contains("OutOfMemory") {
        true => Verdict::OutOfMemory(message),
        false => Verdict::NodeFailed(message),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_messages(messages: Value) -> Verdict {
        let status = json!({"status_str": "success", "completed": true, "messages": messages});
        Record::from_history(json!({"outputs": {"9": {}}, "status": status})).verdict()
    }

    #[test]
    fn the_last_message_about_the_end_decides() {
        let start = json!(["execution_start", {"prompt_id": "p"}]);
        let success = json!(["execution_success", {}]);
        let error = json!(["execution_error", {
            "node_id": "3", "node_type": "KSampler", "exception_type": "ValueError", "exception_message": "no seed\n",
        }]);
        let memory = json!(["execution_error", {"exception_type": "torch.OutOfMemoryError", "exception_message": "m"}]);
        let interrupted = json!(["execution_interrupted", {}]);
        assert_eq!(of_messages(json!([start, success])), Verdict::Succeeded(json!({"9": {}})));
        let failed = Verdict::NodeFailed("node 3 (KSampler): ValueError: no seed".to_owned());
        assert_eq!(of_messages(json!([start, error])), failed);
        assert_eq!(of_messages(json!([start, memory])), Verdict::OutOfMemory("m".to_owned()));
        assert_eq!(of_messages(json!([start, interrupted])), Verdict::Interrupted);
        assert_eq!(of_messages(json!([start])), Verdict::None, "the status is that of the last prompt");
    }

    #[test]
    fn a_job_without_messages_is_judged_by_its_status() {
        let verdict = |status: &str| {
            let error = json!({"exception_message": "broken"});
            Record::from_job(json!({"status": status, "execution_error": error, "outputs": {}})).verdict()
        };
        assert_eq!(verdict("completed"), Verdict::Succeeded(json!({})));
        assert_eq!(verdict("cancelled"), Verdict::Interrupted);
        assert_eq!(verdict("failed"), Verdict::NodeFailed("broken".to_owned()));
    }
}
