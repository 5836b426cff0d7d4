//! The log of a long-running command, on standard error.
//!
//! Invariant: an event is one line without control characters, whatever text its fields contain.

use std::io::{self, Write};

use clap::ValueEnum;
use tracing::Level;
use tracing_subscriber::filter::LevelFilter;

use crate::escape;

/// The format of log events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line, for programs
    Json,
}

/// The variable with the log level: `error`, `warn`, `info` (the default), `debug`, `trace` or
/// `off`.
pub const VARIABLE: &str = "FAIRLANE_LOG";

/// Starts the log. An unknown level is an error that lists the known ones.
pub fn install(format: LogFormat) -> Result<(), String> {
    let level = match crate::config::variable(VARIABLE) {
        Some(text) => text.parse::<LevelFilter>().map_err(|_| {
            format!("{VARIABLE} is {text:?}; it must be error, warn, info, debug, trace or off")
        })?,
        None => LevelFilter::from_level(Level::INFO),
    };
    let events = tracing_subscriber::fmt().with_max_level(level);
    // A process has one subscriber; an earlier one stays.
    let _ = match format {
        LogFormat::Text => {
            let form = if is_coloured() { Form::Coloured } else { Form::Plain };
            let writer = move || EventWriter { output: io::stderr(), form };
            events.with_ansi(is_coloured()).with_writer(writer).try_init()
        }
        LogFormat::Json => {
            let writer = || EventWriter { output: io::stderr(), form: Form::Json };
            events.with_writer(writer).json().flatten_event(true).try_init()
        }
    };
    Ok(())
}

fn is_coloured() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr()) && crate::config::variable("NO_COLOR").is_none()
}

/// Writes events; each arrives in a single call.
struct EventWriter<W> {
    output: W,
    form: Form,
}

/// The form in which the formatter writes events.
#[derive(Clone, Copy)]
enum Form {
    /// Text without colours.
    Plain,
    /// Text with colours: only the escape sequences that set a colour are kept.
    Coloured,
    /// JSON objects.
    Json,
}

impl<W: Write> Write for EventWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        let safe = match self.form {
            Form::Plain => escape::line(line),
            Form::Coloured => with_colours(line).into(),
            Form::Json => escape::json(line),
        };
        self.output.write_all(format!("{safe}{end}").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// The line with every escape character made visible that does not begin the setting of a colour.
fn with_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut safe = escape::line(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let codes = part.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        let is_colour =
            codes.is_some_and(|(codes, _)| codes.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'));
        safe += if is_colour { "\u{1b}" } else { "\\u{1b}" };
        safe += &escape::line(part);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: Form, event: &str) -> String {
        let mut output = Vec::new();
        EventWriter { output: &mut output, form }.write_all(event.as_bytes()).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn an_event_is_one_line_without_bidirectional_controls() {
        let event = "INFO note=a\nERROR forged\u{202e}\r\u{9b}\n";
        let expected = "INFO note=a\\nERROR forged\\u{202e}\\r\\u{9b}\n";
        assert_eq!(
            (written(Form::Plain, event), written(Form::Coloured, event)),
            (expected.into(), expected.into())
        );
    }

    #[test]
    fn only_the_coloured_form_keeps_the_formatters_colours() {
        let event = "\u{1b}[32mINFO\u{1b}[0m note\n";
        assert_eq!(written(Form::Coloured, event), event);
        assert!(!written(Form::Plain, event).contains('\u{1b}'));
        let title = "INFO error=\u{1b}]0;title\u{7}\u{1b}[2J\n";
        assert_eq!(written(Form::Coloured, title), "INFO error=\\u{1b}]0;title\\u{7}\\u{1b}[2J\n");
    }

    #[test]
    fn an_escaped_json_event_is_valid_json() {
        let event = "{\"note\":\"a\u{9b}\u{202e}\"}\n";
        assert_eq!(written(Form::Json, event), "{\"note\":\"a\\u009b\\u202e\"}\n");
    }
}
