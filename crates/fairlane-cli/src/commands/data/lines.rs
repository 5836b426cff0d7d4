//! Rows as lines of JSON: the table, then its columns. Bytes are written as text if they are UTF-8,
//! else as base64 in a column with the suffix `_base64`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairlane_engine::embedded::disk::{Field, Record};
use serde_json::{Map, Value};

use crate::escape;

const TABLE: &str = "table";
const BASE_64: &str = "_base64";

/// Formats a row as a line.
pub fn line(record: &Record) -> String {
    let mut object = Map::new();
    object.insert(TABLE.into(), record.table.clone().into());
    for (name, field) in &record.fields {
        match field {
            Field::Null => object.insert(name.clone(), Value::Null),
            Field::Integer(number) => object.insert(name.clone(), (*number).into()),
            Field::Text(text) => object.insert(name.clone(), text.clone().into()),
            Field::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => object.insert(name.clone(), text.into()),
                Err(_) => object.insert(format!("{name}{BASE_64}"), STANDARD.encode(bytes).into()),
            },
        };
    }
    escape::json(&Value::Object(object).to_string()).into_owned()
}

/// Parses a line; the error says what is invalid.
pub fn record(line: &str) -> Result<Record, String> {
    let object: Map<String, Value> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let mut table = None;
    let mut fields = Vec::new();
    for (name, value) in object {
        if name == TABLE {
            table = value.as_str().map(str::to_owned);
            continue;
        }
        fields.push(match value {
            Value::Null => (name, Field::Null),
            Value::String(text) => match name.strip_suffix(BASE_64) {
                Some(column) => (
                    column.to_owned(),
                    Field::Bytes(STANDARD.decode(&text).map_err(|error| format!("{name}: {error}"))?),
                ),
                None => (name, Field::Text(text)),
            },
            value => {
                let number = value.as_i64().ok_or_else(|| format!("{name} is {value}"))?;
                (name, Field::Integer(number))
            }
        });
    }
    let table = table.ok_or("it has no table")?;
    Ok(Record { table, fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_row_parses_to_the_same_row() {
        for payload in [&b""[..], b"{}", b"\x00\xff", b"\xff\xfe\xfd", b"\xf0\xf1\xf2\xf3"] {
            let fields = vec![
                ("number".to_owned(), Field::Integer(7)),
                ("due_at".to_owned(), Field::Null),
                ("note".to_owned(), Field::Text("a \"note\"\n".into())),
                ("payload".to_owned(), Field::Bytes(payload.to_vec())),
            ];
            let before = Record { table: "jobs".into(), fields };
            let after = record(&line(&before)).unwrap();
            assert_eq!(after.table, "jobs");
            for (name, field) in before.fields {
                let found =
                    after.fields.iter().find(|(known, _)| *known == name).map(|(_, field)| field.clone());
                // Bytes that are UTF-8 come back as text; the schema of the directory knows which
                // column has bytes.
                let same = match (&found, &field) {
                    (Some(Field::Text(text)), Field::Bytes(bytes)) => text.as_bytes() == *bytes,
                    (found, field) => found.as_ref() == Some(field),
                };
                assert!(same, "{name}: {found:?}");
            }
        }
    }

    #[test]
    fn an_invalid_line_is_rejected() {
        assert!(record("{}").unwrap_err().contains("no table"));
        assert!(record("[1]").is_err());
        assert!(record(r#"{"table": "jobs", "number": 1.5}"#).unwrap_err().contains("number"));
        assert!(record(r#"{"table": "jobs", "payload_base64": "!"}"#).is_err());
    }
}
