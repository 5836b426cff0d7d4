//! The outputs of a prompt as the result of its job.

use std::io;
use std::path::{Path, PathBuf};

use fairlane_core::limits::NOTE_BYTES_MAX;
use fairlane_worker::Outcome;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tokio::fs;
use tokio::io::AsyncWriteExt;

use super::api::Api;
use crate::client::no_response;

/// Most files of one prompt.
const FILES_MAX: usize = 256;
/// Largest file that is downloaded.
const FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// A file that a node wrote.
#[derive(Debug, Serialize)]
struct OutputFile {
    node: String,
    filename: String,
    subfolder: String,
    #[serde(rename = "type")]
    kind: String,
    /// The URL at which the engine serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// The path that it was saved at.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

/// The result of a job.
#[derive(Serialize)]
struct PromptResult {
    prompt_id: String,
    files: Vec<OutputFile>,
    /// The outputs as the engine returned them; omitted if they are too long to be stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Value>,
}

/// A result with the URLs of all files.
pub(super) fn references(api: &Api, id: &str, outputs: Value) -> Outcome {
    let mut files = files_of(&outputs);
    for file in &mut files {
        file.url = Some(api.file_url(&file.filename, &file.subfolder, &file.kind).into());
    }
    result(id, files, outputs)
}

/// Saves all files in a directory of this attempt, and returns a result with their paths. A file is
/// complete once it has its name, and another attempt overwrites none.
pub(super) async fn download(api: &Api, id: &str, attempt: u32, outputs: Value, directory: &Path) -> Outcome {
    let mut files = files_of(&outputs);
    let directory = directory.join(format!("{id}-{attempt}"));
    if let Err(error) = fs::create_dir_all(&directory).await {
        return cannot_save(&directory, &error);
    }
    for (index, file) in files.iter_mut().enumerate() {
        let path = directory.join(format!("{index:03}-{}", safe_name(&file.filename)));
        if let Err(outcome) = save(api, file, &path).await {
            return outcome;
        }
        file.path = Some(path);
    }
    result(id, files, outputs)
}

async fn save(api: &Api, file: &OutputFile, path: &Path) -> Result<(), Outcome> {
    let url = api.file_url(&file.filename, &file.subfolder, &file.kind);
    let mut response = api.send(Method::GET, url, HeaderMap::new(), None).await.map_err(no_response)?;
    if response.status() != StatusCode::OK {
        let message = format!("the engine responded {} for {:?}", response.status(), file.filename);
        return Err(Outcome::retry("output", message));
    }
    let unfinished = path.with_extension("part");
    let failed = |error: io::Error| cannot_save(path, &error);
    let mut saved = fs::File::create(&unfinished).await.map_err(failed)?;
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await.map_err(no_response)? {
        bytes += chunk.len() as u64;
        if bytes > FILE_BYTES_MAX {
            let message = format!("{:?} has more than {FILE_BYTES_MAX} bytes", file.filename);
            return Err(Outcome::failed("output_too_large", message));
        }
        saved.write_all(&chunk).await.map_err(failed)?;
    }
    saved.sync_all().await.map_err(failed)?;
    fs::rename(&unfinished, path).await.map_err(failed)
}

fn cannot_save(path: &Path, error: &io::Error) -> Outcome {
    Outcome::retry(
        "output",
        format!("{} cannot be written: {error}; check its folder and the free space", path.display()),
    )
}

/// The last part of a name, with characters that are safe in a file name.
fn safe_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let safe = |letter: char| if letter.is_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    last.chars().map(safe).take(128).collect()
}

/// Every object with a `filename` in the lists of a node is a file.
fn files_of(outputs: &Value) -> Vec<OutputFile> {
    let nodes = outputs.as_object().into_iter().flatten();
    let lists = nodes.flat_map(|(node, lists)| {
        lists.as_object().into_iter().flat_map(|lists| lists.values()).map(move |list| (node, list))
    });
    let entries =
        lists.flat_map(|(node, list)| list.as_array().into_iter().flatten().map(move |one| (node, one)));
    let file = |(node, entry): (&String, &Value)| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let filename = entry["filename"].as_str()?.to_owned();
        let kind = entry["type"].as_str().unwrap_or("output").to_owned();
        Some(OutputFile {
            node: node.clone(),
            filename,
            subfolder: text("subfolder"),
            kind,
            url: None,
            path: None,
        })
    };
    entries.filter_map(file).take(FILES_MAX).collect()
}

fn result(id: &str, files: Vec<OutputFile>, outputs: Value) -> Outcome {
    let mut result = PromptResult { prompt_id: id.to_owned(), files, outputs: Some(outputs) };
    let is_too_long =
        |result: &PromptResult| serde_json::to_vec(result).map_or(0, |bytes| bytes.len()) > NOTE_BYTES_MAX;
    if is_too_long(&result) {
        result.outputs = None;
    }
    Outcome::done(&result)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_found_in_every_list_of_every_node() {
        let outputs = json!({
            "9": {"images": [{"filename": "a.png", "subfolder": "", "type": "output"}], "animated": [true]},
            "12": {"gifs": [{"filename": "b.mp4", "subfolder": "video", "type": "temp"}], "text": ["done"]},
        });
        let mut found: Vec<String> = files_of(&outputs)
            .into_iter()
            .map(|file| format!("{} {} {} {}", file.node, file.subfolder, file.filename, file.kind))
            .collect();
        found.sort();
        assert_eq!(found, ["12 video b.mp4 temp", "9  a.png output"]);
        assert!(files_of(&json!(null)).is_empty());
    }

    #[test]
    fn a_name_of_a_file_cannot_leave_its_directory() {
        assert_eq!(safe_name("../../etc/passwd"), "passwd");
        assert_eq!(safe_name("..\\x y\0.png"), "x_y_.png");
    }

    #[test]
    fn outputs_that_are_too_long_are_left_out_of_the_result() {
        let Outcome::Done { result: long } =
            result("p", Vec::new(), json!({"text": "x".repeat(NOTE_BYTES_MAX)}))
        else {
            panic!("a long output is no failure");
        };
        assert_eq!(serde_json::from_slice::<Value>(&long).unwrap(), json!({"prompt_id": "p", "files": []}));
    }
}
