//! What a long-running command tells about itself, on standard error.

use clap::ValueEnum;
use tracing::Level;
use tracing_subscriber::filter::LevelFilter;

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line, for programs
    Json,
}

/// Which events are told: `error`, `warn`, `info` (unless said), `debug` or `trace`.
pub const VARIABLE: &str = "FAIRLANE_LOG";

/// Begins to tell events. What is not a level is an error that names those there are.
pub fn install(format: LogFormat) -> Result<(), String> {
    let level = match crate::config::variable(VARIABLE) {
        Some(text) => text.parse::<LevelFilter>().map_err(|_| {
            format!("{VARIABLE} is {text:?}; it can be error, warn, info, debug, trace or off")
        })?,
        None => LevelFilter::from_level(Level::INFO),
    };
    let events = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    // Whoever was first tells; there is one for a process.
    let _ = match format {
        LogFormat::Text => events.with_ansi(is_coloured()).try_init(),
        LogFormat::Json => events.json().flatten_event(true).try_init(),
    };
    Ok(())
}

fn is_coloured() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr()) && crate::config::variable("NO_COLOR").is_none()
}
