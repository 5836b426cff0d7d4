//! A scenario: one file, one or more parts, each a run of its own.
//!
//! The file's own settings hold for every part; a part overrides what it names. A file without
//! parts has one, named `main`. Everything is checked here, so that a run cannot fail halfway.

mod build;
mod layer;
mod part;

pub(crate) use part::{Arrival, DownstreamPart, GroupPart, Moment, Part, per_second};

use layer::Layer;

/// Why a scenario cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The text is not TOML, a key is unknown or missing, or a value has the wrong form.
    #[error("scenario {scenario}: {message}")]
    Syntax {
        /// Which scenario.
        scenario: String,
        /// What is wrong, with the line.
        message: String,
    },
    /// A value that makes no sense.
    #[error("scenario {scenario}, part {part}: {field}: {problem}")]
    Invalid {
        /// Which scenario.
        scenario: String,
        /// Which of its parts.
        part: String,
        /// Which field.
        field: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
}

/// A checked scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    name: String,
    parts: Vec<Part>,
}

impl Scenario {
    /// Reads and checks a scenario; `name` stands in its reports.
    ///
    /// ```
    /// use fairlane_simulator::Scenario;
    ///
    /// let error = Scenario::parse("mine", "workers = 0").unwrap_err();
    /// assert_eq!(error.to_string(), "scenario mine, part main: workers: must be at least 1, not 0");
    /// ```
    pub fn parse(name: &str, toml: &str) -> Result<Self, SimulationError> {
        let syntax = |message: String| SimulationError::Syntax { scenario: name.to_owned(), message };
        let file: Layer =
            toml::from_str(toml).map_err(|error| syntax(error.to_string().trim_end().into()))?;
        if file.name.is_some() {
            return Err(syntax("name: only a [[part]] has a name; a scenario is named by its file".into()));
        }
        let layers = match file.parts.as_slice() {
            [] => vec![Layer { name: Some("main".into()), ..file.clone() }],
            parts => parts.iter().map(|part| file.under(part)).collect(),
        };
        let mut parts: Vec<Part> = Vec::new();
        for (layer, written) in layers.iter().zip(file.parts.iter().chain([&Layer::default()])) {
            let Some(part_name) = layer.name.clone() else {
                return Err(syntax("a [[part]] has no name; give it one".into()));
            };
            if !written.parts.is_empty() {
                return Err(syntax(format!("part {part_name}: a part has no parts of its own")));
            }
            if parts.iter().any(|part| part.name == part_name) {
                return Err(syntax(format!("two parts are named {part_name}")));
            }
            let part = build::part(layer, &part_name).map_err(|invalid| invalid.of(name, &part_name))?;
            parts.push(part);
        }
        Ok(Self { name: name.to_owned(), parts })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The scenarios that come with the program: name and text.
    pub fn shipped() -> &'static [(&'static str, &'static str)] {
        &[
            ("congestion", include_str!("../../../scenarios/congestion.toml")),
            ("equals", include_str!("../../../scenarios/equals.toml")),
            ("flood", include_str!("../../../scenarios/flood.toml")),
            ("levels", include_str!("../../../scenarios/levels.toml")),
            ("newcomers", include_str!("../../../scenarios/newcomers.toml")),
            ("paused", include_str!("../../../scenarios/paused.toml")),
            ("trickle", include_str!("../../../scenarios/trickle.toml")),
            ("unknown-limit", include_str!("../../../scenarios/unknown-limit.toml")),
            ("weights", include_str!("../../../scenarios/weights.toml")),
        ]
    }
}
