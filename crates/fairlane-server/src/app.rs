//! What all requests share.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use fairlane::Fairlane;
use fairlane_core::TypeId;
use fairlane_core::queue::{Inspect, Inspected};
use fairlane_engine::{Engine, EngineError};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::access::Caller;
use crate::api::{Live, Polls};
use crate::bodies::Bodies;
use crate::extract::Parsers;
use crate::figures::Figures;
use crate::guard::{Charged, Guard};
use crate::health::Readiness;
use crate::keys::Keys;
use crate::problem::{Problem, ProblemKind};
use crate::settings::ServerSettings;

/// What all requests share.
pub struct App {
    /// The queue.
    pub fairlane: Fairlane,
    /// The limits.
    pub settings: ServerSettings,
    /// Who may come in.
    pub guard: Guard,
    /// Whether the engine answers.
    pub readiness: Readiness,
    /// Room for bodies.
    pub(crate) bodies: Bodies,
    /// Threads that parse large bodies.
    pub(crate) parsers: Parsers,
    /// What is counted.
    pub figures: Figures,
    /// Who waits for jobs.
    pub(crate) polls: Polls,
    /// What is followed as it happens.
    pub(crate) live: Arc<Live>,
    /// Cancelled when the server stops: what waits ends, and says so.
    pub stopping: CancellationToken,
    /// When the server started.
    pub started: Instant,
    /// Held by whoever changes the settings of the whole.
    pub changing_settings: Mutex<()>,
    /// One audit at a time.
    pub auditing: Mutex<()>,
    /// Types that were seen. None ever goes, so there are at most 64, and what is known stays known.
    known_types: RwLock<HashSet<TypeId>>,
}

/// As handlers get it.
pub(crate) type Shared = Arc<App>;

impl App {
    /// An app that has not begun to stop; without keys everybody is let in.
    pub fn new(fairlane: Fairlane, keys: Option<Arc<Keys>>, settings: ServerSettings) -> Self {
        let guard = Guard::new(keys, &settings);
        let live = Arc::new(Live::default());
        let stopping = CancellationToken::new();
        let engine = Arc::new(Charged::new(fairlane.engine().clone(), stopping.clone()));
        Self {
            fairlane: Fairlane::from_engine(live.heard(engine)),
            bodies: Bodies::new(settings.bodies_bytes_max),
            parsers: Parsers::default(),
            settings,
            guard,
            figures: Figures::new(),
            readiness: Readiness::default(),
            polls: Polls::default(),
            live,
            stopping,
            started: Instant::now(),
            changing_settings: Mutex::new(()),
            auditing: Mutex::new(()),
            known_types: RwLock::default(),
        }
    }

    /// The engine behind the queue.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        self.fairlane.engine()
    }

    /// Refuses a type that is new to a caller who is bound to groups: there is room for 64, for everybody and for ever.
    pub(crate) async fn check_type(&self, caller: &Caller, name: &TypeId) -> Result<(), Problem> {
        if self.may_use(caller, name).await? { Ok(()) } else { Err(new_type(name)) }
    }

    /// Whether the caller may enqueue jobs of this type.
    pub(crate) async fn may_use(&self, caller: &Caller, name: &TypeId) -> Result<bool, EngineError> {
        let is_known = || self.known_types.read().unwrap_or_else(PoisonError::into_inner).contains(name);
        if caller.groups.is_none() || is_known() {
            return Ok(true);
        }
        let is_there = match self.engine().inspect(Inspect::Type(name.clone())).await? {
            Inspected::Type(view) => view.is_some(),
            _ => {
                return Err(EngineError::Broken {
                    reason: "inspect was answered with something else".to_owned(),
                });
            }
        };
        if is_there {
            self.known_types.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        }
        Ok(is_there)
    }
}

/// Why a caller who is bound to groups may not use a type.
pub(crate) fn new_type(name: &TypeId) -> Problem {
    ProblemKind::Conflict.because(format!(
        "the type {name} is new, and this key is bound to groups; let a key that is not bound add it first (PATCH \
         /api/types/{name} with {{\"paused\": false}})"
    ))
}
