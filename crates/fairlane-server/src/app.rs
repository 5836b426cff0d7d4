//! State that all requests share.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use fairlane::views::PlaceView;
use fairlane::{Error, Fairlane, PlaceStatus, RoomName};
use fairlane_core::TypeId;
use fairlane_engine::Engine;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::access::Caller;
use crate::api::{Live, Polls};
use crate::bodies::Bodies;
use crate::extract::Parsers;
use crate::guard::{Guard, charge_commands};
use crate::health::Readiness;
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::outbox::{OutboxReader, OutboxSource};
use crate::passes::Passes;
use crate::problem::{Problem, ProblemKind};
use crate::settings::ServerSettings;
use crate::ui::Dashboard;

/// State that all requests share.
pub struct App {
    /// The queue.
    pub fairlane: Fairlane,
    /// The limits of the server.
    pub settings: ServerSettings,
    /// Admits requests.
    pub guard: Guard,
    /// Whether the engine replies and accepts writes.
    pub readiness: Readiness,
    /// Memory for bodies.
    pub(crate) bodies: Bodies,
    /// Threads that parse large bodies.
    pub(crate) parsers: Parsers,
    /// The metrics of the server.
    pub metrics: Metrics,
    /// Long polls for jobs.
    pub(crate) polls: Polls,
    /// Event streams and what feeds them.
    pub(crate) live: Arc<Live>,
    /// The queue for workers in this process: it feeds the event streams and charges no quota.
    pub(crate) uncharged: Fairlane,
    /// State of the dashboard that does not come from the engine.
    pub(crate) dashboard: Dashboard,
    /// Cancelled when the server stops: long polls and streams then end.
    pub stopping: CancellationToken,
    /// The keys that sign passes of waiting rooms, if there are any.
    pub(crate) passes: Option<Arc<Passes>>,
    /// The outbox of a database, if there is one.
    pub(crate) outbox: OutboxReader,
    /// When the server started.
    pub started: Instant,
    /// Held while the settings of the queue are changed.
    pub changing_settings: Mutex<()>,
    /// Held while an audit runs: one at a time.
    pub auditing: Mutex<()>,
    /// Types that are known to exist, so that the engine is not queried for them again.
    known_types: RwLock<HashSet<TypeId>>,
}

/// The state as handlers extract it.
pub(crate) type Shared = Arc<App>;

impl App {
    /// The state of a server that is not stopping; without keys every client is admitted.
    pub fn new(fairlane: Fairlane, keys: Option<Arc<Keys>>, settings: ServerSettings) -> Self {
        Self::with(fairlane, keys, settings, None, None)
    }

    /// The state of a server with keys that sign passes of waiting rooms, and with an outbox.
    pub(crate) fn with(
        fairlane: Fairlane,
        keys: Option<Arc<Keys>>,
        settings: ServerSettings,
        passes: Option<Arc<Passes>>,
        outbox: Option<Arc<dyn OutboxSource>>,
    ) -> Self {
        let guard = Guard::new(keys, &settings);
        let live = Arc::new(Live::default());
        let stopping = CancellationToken::new();
        let uncharged = Fairlane::from_engine(live.tap(fairlane.engine().clone()));
        let dashboard = Dashboard::default();
        let engine = charge_commands(fairlane.engine().clone(), stopping.clone());
        Self {
            fairlane: Fairlane::from_engine(live.tap(engine)),
            bodies: Bodies::new(settings.bodies_bytes_max),
            parsers: Parsers::default(),
            settings,
            guard,
            metrics: Metrics::new(),
            readiness: Readiness::default(),
            polls: Polls::default(),
            live,
            uncharged,
            dashboard,
            stopping,
            passes,
            outbox: OutboxReader::new(outbox),
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

    /// The view of a place, with a pass if it is active.
    pub(crate) fn place_view(&self, room: &RoomName, status: PlaceStatus) -> PlaceView {
        Passes::view(self.passes.as_ref(), room, status)
    }

    /// Refuses a new type to a caller bound to groups: all groups share at most 64 types.
    pub(crate) async fn check_type(&self, caller: &Caller, name: &TypeId) -> Result<(), Problem> {
        if self.may_use(caller, name).await? { Ok(()) } else { Err(new_type(name)) }
    }

    /// Whether the caller may enqueue jobs of this type.
    pub(crate) async fn may_use(&self, caller: &Caller, name: &TypeId) -> Result<bool, Error> {
        if caller.groups.is_none() { Ok(true) } else { self.exists(name).await }
    }

    /// The types among these that do not exist; none if the engine does not reply.
    pub(crate) async fn unknown_types(&self, types: Vec<TypeId>) -> Vec<TypeId> {
        let mut unknown = Vec::new();
        for name in types {
            match self.exists(&name).await {
                Ok(true) => {}
                Ok(false) => unknown.push(name),
                Err(_) => return Vec::new(),
            }
        }
        unknown
    }

    async fn exists(&self, name: &TypeId) -> Result<bool, Error> {
        if self.known_types.read().unwrap_or_else(PoisonError::into_inner).contains(name) {
            return Ok(true);
        }
        let exists = self.fairlane.job_type(name).view().await?.is_some();
        if exists {
            self.known_types.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        }
        Ok(exists)
    }
}

/// Why a caller bound to groups may not use a type.
pub(crate) fn new_type(name: &TypeId) -> Problem {
    ProblemKind::Conflict.because(format!(
        "the type {name} does not exist, and this key is bound to groups; add it first with a key that is not bound \
         (PATCH /api/types/{name} with {{\"paused\": false}})"
    ))
}
