//! Reads and checks uploads.
//!
//! Invariant: no more of a form is held in memory than its texts, which are short; files go to the disk
//! as they arrive.

use std::collections::BTreeMap;

use axum::extract::Multipart;
use axum::extract::multipart::{Field, MultipartError};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::App;
use super::error::ApiError;
use crate::files::StoredFile;
use crate::services::is_name;
use crate::store::NewJob;

/// Most files of a job.
pub const FILES_MAX: usize = 4;
/// The largest file, in bytes.
pub const FILE_BYTES_MAX: usize = 20 * 1024 * 1024;
/// The largest parameters, in bytes of JSON.
const PARAMETERS_BYTES_MAX: usize = 64 * 1024;
/// The longest of the other texts, in bytes.
const TEXT_BYTES_MAX: usize = 2048;
/// The largest form: its files, its texts, and what separates them.
pub const BODY_BYTES_MAX: usize = FILES_MAX * FILE_BYTES_MAX + PARAMETERS_BYTES_MAX + 64 * 1024;
/// The longest idempotency key.
const KEY_BYTES_MAX: usize = 255;
/// The longest name of a group, in bytes.
const GROUP_BYTES_MAX: usize = 128;
/// The group of jobs without one.
const DEFAULT_GROUP: &str = "default";

/// The parts of a form.
#[derive(Default)]
struct Form {
    texts: BTreeMap<&'static str, String>,
    files: BTreeMap<String, StoredFile>,
}

/// The texts of a form with their lengths.
const TEXTS: [(&str, usize); 4] = [
    ("service_type", TEXT_BYTES_MAX),
    ("parameters", PARAMETERS_BYTES_MAX),
    ("callback_url", TEXT_BYTES_MAX),
    ("group", GROUP_BYTES_MAX),
];

/// Reads a form, and makes the job that it asks for.
pub async fn read(app: &App, headers: &HeaderMap, form: Multipart) -> Result<NewJob, ApiError> {
    let idempotency_key = idempotency_key(headers)?;
    let mut form = receive(app, form).await?;
    let service_type = form.texts.remove("service_type").ok_or_else(|| {
        ApiError::invalid("The field service_type is missing.", "Send it: -F service_type=multi-style.")
    })?;
    let service = app.catalogue.find(&service_type)?;
    let parameters = service.check(&parameters(form.texts.remove("parameters"))?, &form.files)?;
    let callback_url = form.texts.remove("callback_url").filter(|url| !url.is_empty());
    if let Some(url) = &callback_url {
        app.addresses.check_url(url).map_err(|error| {
            let cure = "Send an http or https URL that is reachable from the Internet, or leave it out.";
            ApiError::invalid(format!("The callback_url cannot be used: {error}."), cure)
        })?;
    }
    let group = form.texts.remove("group").unwrap_or_else(|| DEFAULT_GROUP.to_owned());
    fairlane::GroupId::new(&group).map_err(|error| {
        let cure = format!("Use 1 to {GROUP_BYTES_MAX} bytes, without control characters.");
        ApiError::invalid(format!("The group cannot be used: {error}."), cure)
    })?;
    let asked = json!([service_type, parameters, callback_url]).to_string();
    let fingerprint = Sha256::digest(asked).iter().map(|byte| format!("{byte:02x}")).collect();
    let queue_id = Uuid::now_v7().to_string();
    let execution_bundle = service.bundle(&service_type, &parameters, &form.files, &queue_id);
    Ok(NewJob {
        queue_id,
        group,
        service_type,
        parameters,
        execution_bundle,
        callback_url,
        idempotency_key,
        fingerprint,
    })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    let key = key.ok_or_else(|| {
        let cure = format!("Use 1 to {KEY_BYTES_MAX} printable ASCII characters, such as a UUID.");
        ApiError::invalid("The Idempotency-Key cannot be used.", cure)
    })?;
    Ok(Some(key.to_owned()))
}

fn parameters(text: Option<String>) -> Result<Map<String, Value>, ApiError> {
    let Some(text) = text else { return Ok(Map::new()) };
    serde_json::from_str(&text).map_err(|error| {
        let cure = r#"Send a JSON object: -F 'parameters={"gender": "male"}'."#;
        ApiError::invalid(format!("The parameters cannot be read: {error}."), cure)
    })
}

async fn receive(app: &App, mut parts: Multipart) -> Result<Form, ApiError> {
    let mut form = Form::default();
    while let Some(part) = parts.next_field().await.map_err(|error| unreadable(&error))? {
        let name = part.name().unwrap_or_default().to_owned();
        let is_repeated = form.texts.contains_key(name.as_str()) || form.files.contains_key(&name);
        if is_repeated {
            return Err(ApiError::invalid(format!("The field {name} is there twice."), "Send it once."));
        }
        match TEXTS.iter().find(|(text, _)| *text == name) {
            Some((text, bytes_max)) => {
                form.texts.insert(text, receive_text(part, text, *bytes_max).await?);
            }
            None if part.file_name().is_some() && is_name(&name) => {
                if form.files.len() == FILES_MAX {
                    let message = format!("The form has more than {FILES_MAX} files.");
                    return Err(ApiError::invalid(message, "Send the files that the service takes."));
                }
                let file = receive_file(app, part, &name).await?;
                form.files.insert(name, file);
            }
            None => {
                let texts = TEXTS.map(|(text, _)| text).join(", ");
                let shown: String = name.chars().take(64).collect();
                let cure = format!("The fields are: {texts}, and the files of the service.");
                return Err(ApiError::invalid(format!("There is no field {shown:?}."), cure));
            }
        }
    }
    Ok(form)
}

async fn receive_text(mut part: Field<'_>, name: &str, bytes_max: usize) -> Result<String, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = part.chunk().await.map_err(|error| unreadable(&error))? {
        if bytes.len() + chunk.len() > bytes_max {
            return Err(ApiError::too_large(&format!("The field {name}"), bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| ApiError::invalid(format!("The field {name} is not text."), "Send it as UTF-8."))
}

async fn receive_file(app: &App, mut part: Field<'_>, name: &str) -> Result<StoredFile, ApiError> {
    let mut incoming = app.files.receive().map_err(|error| ApiError::files(&error))?;
    while let Some(chunk) = part.chunk().await.map_err(|error| unreadable(&error))? {
        let bytes = incoming.write(&chunk).map_err(|error| ApiError::files(&error))?;
        if bytes > FILE_BYTES_MAX as u64 {
            return Err(ApiError::too_large(&format!("The file {name}"), FILE_BYTES_MAX));
        }
    }
    let files = app.files.clone();
    let stored = tokio::task::spawn_blocking(move || files.store(incoming)).await;
    stored.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(|error| ApiError::files(&error))
}

fn unreadable(error: &MultipartError) -> ApiError {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large("The form", BODY_BYTES_MAX),
        _ => ApiError::bad_form(&error.body_text()),
    }
}
