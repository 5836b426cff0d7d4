//! The attacks by name.

/// The kind of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Adds jobs whose ids have equal hashes under a hash without a seed.
    Ids,
    /// Adds jobs with large payloads.
    Payloads,
    /// Ends bulk actions whose callbacks are accepted and never get a response.
    Callbacks,
    /// Ends bulk actions with a fold that no worker knows.
    Folds,
    /// Opens connections, sends one request on each and keeps them.
    Connections,
    /// Sends bodies that consist of unknown keys.
    UnknownKeys,
}

impl Kind {
    /// All kinds of attacks.
    pub const ALL: [Self; 6] =
        [Self::Ids, Self::Payloads, Self::Callbacks, Self::Folds, Self::Connections, Self::UnknownKeys];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Payloads => "payloads",
            Self::Callbacks => "callbacks",
            Self::Folds => "folds",
            Self::Connections => "connections",
            Self::UnknownKeys => "unknown-keys",
        }
    }

    /// The attack of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
