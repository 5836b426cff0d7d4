//! A scenario: one file with one or more parts, each of which is a separate run.
//!
//! The settings at the top of the file apply to every part; a part overrides the keys it has. A
//! file without parts has one, named `main`. Everything is checked here, so that a run cannot fail
//! halfway.

mod build;
mod classic;
mod layer;
mod part;
mod unknown_key;

pub(crate) use classic::ClassicPart;
pub use classic::{ClassicLayer, CongestionLayer};
pub(crate) use part::{Arrival, DownstreamPart, FIFO, GroupPart, Moment, Part, Pause, ServiceTime, TypePart};
pub use unknown_key::with_suggestion;

use fairlane_core::queue::Discipline;

use layer::Layer;

/// Why a scenario cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The text is not TOML, a key is unknown or missing, or a value has the wrong type.
    #[error("scenario {scenario}: {message}")]
    Syntax {
        /// The name of the scenario.
        scenario: String,
        /// The parser's message, with the line.
        message: String,
    },
    /// A value is invalid.
    #[error("scenario {scenario}, part {part}: {field}: {problem}")]
    Invalid {
        /// The name of the scenario.
        scenario: String,
        /// The name of the part.
        part: String,
        /// The name of the field.
        field: String,
        /// What is wrong with it, and what is allowed.
        problem: String,
    },
}

/// A checked scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    name: String,
    layers: Vec<Layer>,
    parts: Vec<Part>,
}

/// Overrides for every part of a scenario, applied as a part is applied to its file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overlay {
    /// The discipline, instead of that of the file.
    pub discipline: Option<Discipline>,
    /// Whether it runs as one plain queue, first in, first out, instead of a discipline.
    pub is_fifo: bool,
    /// Keys of `classic`, each instead of that of the file.
    pub classic: ClassicLayer,
}

impl Scenario {
    /// Parses and checks a scenario; `name` is shown in its reports.
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
            toml::from_str(toml).map_err(|error| syntax(unknown_key::with_suggestion(&error.to_string())))?;
        if file.name.is_some() {
            return Err(syntax("name: only a [[part]] has a name; a scenario is named by its file".into()));
        }
        let layers = match file.parts.as_slice() {
            [] => vec![Layer { name: Some("main".into()), ..file.clone() }],
            parts => parts.iter().map(|part| file.overridden_by(part)).collect(),
        };
        let mut names: Vec<&str> = Vec::new();
        for (layer, written) in layers.iter().zip(file.parts.iter().chain([&Layer::default()])) {
            let Some(part_name) = layer.name.as_deref() else {
                return Err(syntax("a [[part]] has no name; give it one".into()));
            };
            if !written.parts.is_empty() {
                return Err(syntax(format!("part {part_name}: a part has no parts of its own")));
            }
            if names.contains(&part_name) {
                return Err(syntax(format!("two parts are named {part_name}")));
            }
            names.push(part_name);
        }
        Self::built(name, layers)
    }

    /// The same scenario with `overlay` applied to each of its parts.
    ///
    /// ```
    /// use fairlane_core::queue::Discipline;
    /// use fairlane_simulator::{ClassicLayer, Overlay, Scenario};
    ///
    /// let (name, toml) = Scenario::shipped()[0];
    /// let classic = ClassicLayer { alpha: Some(-10_000), ..ClassicLayer::default() };
    /// let overlay = Overlay { discipline: Some(Discipline::Classic), classic, ..Overlay::default() };
    /// let scenario = Scenario::parse(name, toml)?.with(&overlay)?;
    /// assert!(scenario.uses(Discipline::Classic) && !scenario.uses(Discipline::Share));
    /// # Ok::<(), fairlane_simulator::SimulationError>(())
    /// ```
    pub fn with(&self, overlay: &Overlay) -> Result<Self, SimulationError> {
        let mut layers = self.layers.clone();
        for layer in &mut layers {
            let discipline = overlay.discipline.map(Discipline::as_str);
            let discipline = if overlay.is_fifo { Some(FIFO) } else { discipline };
            layer.discipline = discipline.map(str::to_owned).or(layer.discipline.take());
            layer.classic = Some(layer.classic.unwrap_or_default().overridden_by(overlay.classic));
        }
        Self::built(&self.name, layers)
    }

    fn built(name: &str, layers: Vec<Layer>) -> Result<Self, SimulationError> {
        let mut parts: Vec<Part> = Vec::new();
        for layer in &layers {
            let part_name = layer.name.as_deref().expect("a part without a name was refused");
            parts.push(build::part(layer, part_name).map_err(|invalid| invalid.of(name, part_name))?);
        }
        Ok(Self { name: name.to_owned(), layers, parts })
    }

    /// Whether one of its parts runs under this discipline.
    pub fn uses(&self, discipline: Discipline) -> bool {
        self.parts.iter().any(|part| part.discipline == discipline)
    }

    /// The name of the scenario.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The name and text of each scenario that comes with the program.
    pub fn shipped() -> &'static [(&'static str, &'static str)] {
        &[
            ("backoff", include_str!("../../../scenarios/backoff.toml")),
            ("congestion", include_str!("../../../scenarios/congestion.toml")),
            ("equals", include_str!("../../../scenarios/equals.toml")),
            ("flood", include_str!("../../../scenarios/flood.toml")),
            ("late", include_str!("../../../scenarios/late.toml")),
            ("leftovers", include_str!("../../../scenarios/leftovers.toml")),
            ("levels", include_str!("../../../scenarios/levels.toml")),
            ("neighbours", include_str!("../../../scenarios/neighbours.toml")),
            ("newcomers", include_str!("../../../scenarios/newcomers.toml")),
            ("paused", include_str!("../../../scenarios/paused.toml")),
            ("premium", include_str!("../../../scenarios/premium.toml")),
            ("trickle", include_str!("../../../scenarios/trickle.toml")),
            ("unknown-limit", include_str!("../../../scenarios/unknown-limit.toml")),
            ("weights", include_str!("../../../scenarios/weights.toml")),
        ]
    }
}
