//! The services on offer, and the bundle of a job: all that a worker needs to run it.
//!
//! A service is a workflow in ComfyUI's API format with placeholders, and the parameters that fill
//! them. The string `"$seed"` stands for the value of the parameter `seed`, and `${style}` within a
//! longer string for its text. A parameter that is a file stands for its name on the engine, and `job`
//! for the id of the job in the queue. Bundles are complete: a worker reads neither the catalogue nor
//! the database.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::files::StoredFile;

/// The placeholder of the id of a job.
const JOB: &str = "job";
/// The longest value of a parameter of type text, in characters, unless its service says less.
const TEXT_CHARS_MAX: usize = 10_000;
/// The largest template, in bytes of JSON.
const TEMPLATE_BYTES_MAX: usize = 128 * 1024;

/// A parameter of a service.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Parameter {
    /// An uploaded file of one of these media types; always required.
    File {
        /// The permitted media types.
        types: Vec<String>,
    },
    /// One of these values.
    Choice {
        /// The permitted values.
        values: Vec<String>,
        /// The value if none is given; without it the parameter is required.
        default: Option<String>,
    },
    /// Text of at most this many characters.
    Text {
        /// The longest value.
        #[serde(default = "text_chars_max")]
        chars_max: usize,
        /// The value if none is given; without it the parameter is required.
        default: Option<String>,
    },
    /// A number without a fraction.
    Integer {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
        /// The value if none is given; without it the parameter is required.
        default: Option<i64>,
    },
}

fn text_chars_max() -> usize {
    TEXT_CHARS_MAX
}

/// A workflow with its parameters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The parameters by name.
    pub parameters: BTreeMap<String, Parameter>,
    /// The workflow in ComfyUI's API format.
    pub template: Map<String, Value>,
}

/// The services by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue(BTreeMap<String, Service>);

/// All that a worker needs to run a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionBundle {
    /// The service that it was made for.
    pub service: Value,
    /// The workflow without placeholders.
    pub template: Map<String, Value>,
    /// The files that the workflow loads.
    #[serde(default)]
    pub files: Vec<BundleFile>,
}

/// A file of a bundle, stored under its hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BundleFile {
    /// Its name on the engine.
    pub name: String,
    /// Its media type.
    pub content_type: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
}

/// Why a job is refused, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub cure: String,
}

fn invalid(message: impl Into<String>, cure: impl Into<String>) -> Invalid {
    Invalid { message: message.into(), cure: cure.into() }
}

impl Catalogue {
    /// The catalogue that comes with the program: one service, `multi-style`.
    pub fn built_in() -> Self {
        let service = parse("multi-style", include_str!("../services/multi-style.json"));
        Self([("multi-style".to_owned(), service.expect("a test reads the built-in service"))].into())
    }

    /// Reads a directory with a file `<service>.json` for each service.
    pub fn read(directory: &Path) -> Result<Self, String> {
        let shown = directory.display();
        let entries = std::fs::read_dir(directory);
        let entries = entries.map_err(|error| {
            format!("{shown} cannot be read: {error}; check the folder and its permissions")
        })?;
        let mut services = BTreeMap::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|error| {
                format!("{} cannot be read: {error}; check its permissions", path.display())
            })?;
            let service = parse(&name, &text).map_err(|error| format!("{}: {error}", path.display()))?;
            services.insert(name, service);
        }
        if services.is_empty() {
            return Err(format!("{shown} has no service; add a file such as multi-style.json"));
        }
        Ok(Self(services))
    }

    /// The service of this name.
    pub fn find(&self, name: &str) -> Result<&Service, Invalid> {
        self.0.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            invalid(
                format!("There is no service {name:?}."),
                format!("Send service_type as one of: {}.", names.join(", ")),
            )
        })
    }
}

fn parse(name: &str, text: &str) -> Result<Service, String> {
    if !is_name(name) {
        return Err("use 1 to 64 letters, digits and dashes as the name of a service".to_owned());
    }
    if text.len() > TEMPLATE_BYTES_MAX {
        return Err(format!("a service has at most {TEMPLATE_BYTES_MAX} bytes"));
    }
    let service: Service = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if service.template.is_empty() {
        return Err("its template has no nodes; export the workflow in API format".to_owned());
    }
    let mut unknown = Vec::new();
    let mut template = Value::Object(service.template.clone());
    fill(&mut template, &mut |placeholder| {
        if placeholder != JOB && !service.parameters.contains_key(placeholder) {
            unknown.push(placeholder.to_owned());
        }
        None
    });
    match unknown.first() {
        Some(placeholder) => Err(format!("its template has ${placeholder}, which is no parameter; add it")),
        None => Ok(service),
    }
}

/// Whether this can be the name of a service or a parameter.
pub fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

impl Service {
    /// The given parameters with defaults; an error names the first one that is wrong.
    pub fn check(
        &self,
        given: &Map<String, Value>,
        files: &BTreeMap<String, StoredFile>,
    ) -> Result<Map<String, Value>, Invalid> {
        let names: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
        let is_file = |name: &str| matches!(self.parameters.get(name), Some(Parameter::File { .. }));
        if let Some(name) = given.keys().find(|name| !self.parameters.contains_key(*name)) {
            return Err(invalid(
                format!("The service has no parameter {name:?}."),
                format!("Its parameters are: {}.", names.join(", ")),
            ));
        }
        if let Some(name) = given.keys().find(|name| is_file(name)) {
            let cure = format!("Send it as a file: -F {name}=@picture.png.");
            return Err(invalid(format!("{name} is a file, and stands in the parameters."), cure));
        }
        if let Some(name) = files.keys().find(|name| !is_file(name)) {
            let files: Vec<&str> = names.iter().copied().filter(|name| is_file(name)).collect();
            let cure = format!("Its files are: {}.", files.join(", "));
            return Err(invalid(format!("The service takes no file {name:?}."), cure));
        }
        let mut checked = Map::new();
        for (name, parameter) in &self.parameters {
            checked.insert(name.clone(), parameter.check(name, given.get(name), files.get(name))?);
        }
        Ok(checked)
    }

    /// The bundle of a job with checked parameters.
    pub fn bundle(
        &self,
        name: &str,
        parameters: &Map<String, Value>,
        files: &BTreeMap<String, StoredFile>,
        queue_id: &str,
    ) -> ExecutionBundle {
        let mut template = Value::Object(self.template.clone());
        fill(&mut template, &mut |placeholder| match placeholder {
            JOB => Some(queue_id.into()),
            _ => match files.get(placeholder) {
                Some(file) => Some(file.engine_name().into()),
                None => parameters.get(placeholder).cloned(),
            },
        });
        let Value::Object(template) = template else { unreachable!("filling keeps an object one") };
        let files = files.values().map(|file| BundleFile {
            name: file.engine_name(),
            content_type: file.content_type.to_owned(),
            sha256: file.sha256.clone(),
            bytes: file.bytes,
        });
        ExecutionBundle { service: json!({ "name": name }), template, files: files.collect() }
    }
}

impl Parameter {
    fn check(&self, name: &str, given: Option<&Value>, file: Option<&StoredFile>) -> Result<Value, Invalid> {
        let missing = |form: &str| invalid(format!("The parameter {name} is missing."), form.to_owned());
        match self {
            Self::File { types } => {
                let file =
                    file.ok_or_else(|| missing(&format!("Send it as a file: -F {name}=@picture.png.")))?;
                if !types.iter().any(|permitted| permitted == file.content_type) {
                    let found = format!("The file {name} is {}.", file.content_type);
                    return Err(invalid(found, format!("Send one of these types: {}.", types.join(", "))));
                }
                Ok(json!({ "sha256": file.sha256, "bytes": file.bytes, "type": file.content_type }))
            }
            Self::Choice { values, default } => {
                let form = format!("Send {name} as one of: {}.", values.join(", "));
                let value = given.and_then(Value::as_str).or(default.as_deref().filter(|_| given.is_none()));
                match value.filter(|value| values.iter().any(|permitted| permitted == value)) {
                    Some(value) => Ok(value.into()),
                    None if given.is_none() => Err(missing(&form)),
                    None => Err(invalid(format!("The parameter {name} has another value."), form)),
                }
            }
            Self::Text { chars_max, default } => {
                let form = format!("Send {name} as text of at most {chars_max} characters.");
                let value = given.and_then(Value::as_str).or(default.as_deref().filter(|_| given.is_none()));
                match value.filter(|value| value.chars().count() <= *chars_max && !value.contains('\0')) {
                    Some(value) => Ok(value.into()),
                    None if given.is_none() => Err(missing(&form)),
                    None => Err(invalid(format!("The parameter {name} is no such text."), form)),
                }
            }
            Self::Integer { min, max, default } => {
                let form = format!("Send {name} as a number from {min} to {max}.");
                let value = given.and_then(Value::as_i64).or(default.filter(|_| given.is_none()));
                match value.filter(|value| (min..=max).contains(&value)) {
                    Some(value) => Ok(value.into()),
                    None if given.is_none() => Err(missing(&form)),
                    None => Err(invalid(format!("The parameter {name} is no such number."), form)),
                }
            }
        }
    }
}

/// Replaces each string `$name` and each part `${name}` with what `value_of` returns for the name.
fn fill(value: &mut Value, value_of: &mut impl FnMut(&str) -> Option<Value>) {
    match value {
        Value::String(text) => match text.strip_prefix('$').filter(|name| is_name(name)) {
            Some(name) => {
                if let Some(filled) = value_of(name) {
                    *value = filled;
                }
            }
            None => *text = fill_parts(text, value_of),
        },
        Value::Array(values) => values.iter_mut().for_each(|value| fill(value, value_of)),
        Value::Object(values) => values.values_mut().for_each(|value| fill(value, value_of)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A value may itself contain `${…}`, which stays as it is.
fn fill_parts(text: &str, value_of: &mut impl FnMut(&str) -> Option<Value>) -> String {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let named = part.split_once('}').filter(|(name, _)| is_name(name));
        match named.and_then(|(name, rest)| Some((value_of(name)?, rest))) {
            Some((Value::String(value), rest)) => filled.extend([value.as_str(), rest]),
            Some((value, rest)) => filled.extend([value.to_string().as_str(), rest]),
            None => filled.extend(["${", part]),
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> BTreeMap<String, StoredFile> {
        let file = StoredFile { sha256: "ab".repeat(32), bytes: 3, content_type: "image/png" };
        [("image".to_owned(), file)].into()
    }

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_bundle_has_no_placeholder_left_and_names_its_files_by_their_hash() {
        let catalogue = Catalogue::built_in();
        let service = catalogue.find("multi-style").unwrap();
        let checked = service.check(&object(json!({"gender": "male", "seed": 7})), &picture()).unwrap();
        assert_eq!((&checked["steps"], &checked["style"]), (&json!(20), &json!("oil")));
        let bundle = service.bundle("multi-style", &checked, &picture(), "queue-id");
        assert!(!serde_json::to_string(&bundle).unwrap().contains('$'));
        assert_eq!(bundle.template["6"]["inputs"]["seed"], 7, "a number stays a number");
        assert_eq!(bundle.template["4"]["inputs"]["text"], "a portrait, male face, oil style");
        assert_eq!(bundle.template["8"]["inputs"]["filename_prefix"], "queue-id");
        assert_eq!(bundle.template["2"]["inputs"]["image"], format!("{}.png", "ab".repeat(32)));
    }

    #[test]
    fn wrong_parameters_are_refused_with_the_cure() {
        let catalogue = Catalogue::built_in();
        let service = catalogue.find("multi-style").unwrap();
        let jpeg_only = |mut files: BTreeMap<String, StoredFile>| {
            files.get_mut("image").unwrap().content_type = "application/octet-stream";
            files
        };
        for (given, files, word) in [
            (json!({}), picture(), "one of: female, male"),
            (json!({"gender": "other"}), picture(), "one of: female, male"),
            (json!({"gender": 1}), picture(), "one of: female, male"),
            (json!({"gender": "male", "steps": 0}), picture(), "from 1 to 50"),
            (json!({"gender": "male", "steps": "9"}), picture(), "from 1 to 50"),
            (json!({"gender": "male", "prompt": "x".repeat(501)}), picture(), "at most 500"),
            (json!({"gender": "male", "colour": "red"}), picture(), "gender, image"),
            (json!({"gender": "male", "image": "x"}), picture(), "-F image=@"),
            (json!({"gender": "male"}), BTreeMap::new(), "-F image=@"),
            (json!({"gender": "male"}), jpeg_only(picture()), "image/png"),
        ] {
            let refused = service.check(&object(given.clone()), &files).unwrap_err();
            assert!(refused.cure.contains(word), "{given}: {refused:?}");
        }
        assert!(catalogue.find("other").unwrap_err().cure.contains("multi-style"));
    }

    #[test]
    fn a_faulty_service_is_refused_when_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(folder.path().join("a.json"), text).unwrap();
            Catalogue::read(folder.path()).unwrap_err()
        };
        assert!(
            read(r#"{"parameters": {}, "template": {"1": {"inputs": {"seed": "$seed"}}}}"#).contains("$seed")
        );
        assert!(read(r#"{"parameters": {}, "template": {}}"#).contains("API format"));
        assert!(read("[]").contains("a.json"));
    }
}
