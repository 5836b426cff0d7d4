//! What all requests share.

use std::sync::Arc;
use std::time::Instant;

use fairlane::Fairlane;
use fairlane_engine::Engine;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::api::{Live, Polls};
use crate::figures::Figures;
use crate::guard::Guard;
use crate::keys::Keys;
use crate::settings::ServerSettings;

/// What all requests share.
pub struct App {
    /// The queue.
    pub fairlane: Fairlane,
    /// The limits.
    pub settings: ServerSettings,
    /// Who may come in.
    pub guard: Guard,
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
}

/// As handlers get it.
pub(crate) type Shared = Arc<App>;

impl App {
    /// An app that has not begun to stop; without keys everybody is let in.
    pub fn new(fairlane: Fairlane, keys: Option<Arc<Keys>>, settings: ServerSettings) -> Self {
        let guard = Guard::new(keys, &settings);
        let live = Arc::new(Live::default());
        Self {
            fairlane: Fairlane::from_engine(live.heard(fairlane.engine().clone())),
            settings,
            guard,
            figures: Figures::new(),
            polls: Polls::default(),
            live,
            stopping: CancellationToken::new(),
            started: Instant::now(),
            changing_settings: Mutex::new(()),
            auditing: Mutex::new(()),
        }
    }

    /// The engine behind the queue.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        self.fairlane.engine()
    }
}
