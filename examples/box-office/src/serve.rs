//! Starts an instance: the parts of the shop, its loops and its HTTP server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fairlane::{Fairlane, Pool, RoomSettings};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::boards::Boards;
use crate::http::{App, router};
use crate::identity::Identity;
use crate::live::Live;
use crate::options::Options;
use crate::provider::Provider;
use crate::shop::Shop;
use crate::store::{Lane, Store};
use crate::{ROOM, jobs, now_ms, relay};

/// How often the database is searched for steps that the queue has lost.
const SEARCH_EVERY: Duration = Duration::from_secs(30);
/// How late such a step is before it counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(30);
/// How long a start waits for each answer of the engine.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// How long open connections have when the instance stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Why an instance did not start.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// A running instance.
pub struct Running {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The shop.
    pub shop: Arc<Shop>,
    /// The boards.
    pub boards: Boards,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
    loops: Vec<JoinHandle<()>>,
    pool: Pool,
    /// The folder of a temporary database.
    _folder: Option<TempDir>,
}

/// Starts an instance on the engine of its options.
pub async fn start(options: &Options) -> Result<Running, StartError> {
    let fairlane = Fairlane::open(&options.engine).await?;
    start_on(fairlane, options).await
}

/// Starts an instance on an engine that is already open.
pub async fn start_on(fairlane: Fairlane, options: &Options) -> Result<Running, StartError> {
    let (database, folder) = match &options.database {
        Some(path) => (path.clone(), None),
        None => {
            let folder = tempfile::Builder::new().prefix("box-office-").tempdir()?;
            (folder.path().join("shop.db"), Some(folder))
        }
    };
    let shop = Arc::new(open_shop(fairlane.clone(), &database, options).await?);
    let boards = Boards::new(fairlane.clone(), shop.store.clone());
    open_room(&fairlane, options).await;
    match timeout(START_TIMEOUT, boards.prepare()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("the boards are made later: {error}"),
        Err(_) => tracing::warn!("the boards are made later: no reply in time"),
    }
    let pool = jobs::start(&shop, &fairlane).await?;
    let loops = vec![
        tokio::spawn(relay::run(shop.clone(), boards.clone(), Lane::Jobs)),
        tokio::spawn(relay::run(shop.clone(), boards.clone(), Lane::Boards)),
        tokio::spawn(find_lost(shop.clone())),
    ];
    let live = Live::start(shop.clone(), boards.clone());
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener
        .map_err(|error| format!("cannot listen on {}: {error}; name another --listen", options.listen))?;
    let address = listener.local_addr()?;
    let app = router(App { shop: shop.clone(), boards: boards.clone(), live });
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(stopped).await {
            tracing::error!("the server has ended: {error}");
        }
    });
    Ok(Running { address, shop, boards, stop, server, loops, pool, _folder: folder })
}

/// The shop on these files, without its loops and its server.
pub async fn open_shop(fairlane: Fairlane, database: &Path, options: &Options) -> Result<Shop, StartError> {
    let store = Store::open(database, &options.catalogue())?;
    let provider = Provider::open(&provider_path(database), options.faults())?;
    let identity = Identity::load(&store).await?;
    Ok(Shop::new(store, provider, fairlane, identity, options.times()))
}

/// The file of the payment provider.
fn provider_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".provider");
    PathBuf::from(path)
}

impl Running {
    /// The address of the page.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops accepting requests, lets those that run end, and stops the loops.
    pub async fn stop(mut self) {
        let _ = self.stop.send(());
        // Streams of events have no end of their own.
        if timeout(STOP_TIMEOUT, &mut self.server).await.is_err() {
            self.server.abort();
        }
        self.pool.stop().await;
        for task in self.loops {
            task.abort();
        }
    }
}

/// Sets the limits of the waiting room. An engine that is down keeps the limits that it has.
async fn open_room(fairlane: &Fairlane, options: &Options) {
    let limits = RoomSettings {
        max_active: options.max_active,
        polls_per_second: options.polls_per_second,
        active_ttl_ms: u64::try_from(options.active_for.as_millis()).unwrap_or(u64::MAX),
        ..RoomSettings::default()
    };
    match timeout(START_TIMEOUT, fairlane.room(ROOM).set(limits)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("the limits of the waiting room were not set: {error}"),
        Err(_) => tracing::warn!("the limits of the waiting room were not set: no reply in time"),
    }
}

/// Does what the queue should have done long ago: a Redis that lost its data has lost our jobs.
async fn find_lost(shop: Arc<Shop>) {
    let lost_after = u64::try_from((LOST_AFTER + shop.times.payment).as_millis()).unwrap_or(u64::MAX);
    loop {
        let lost = shop.store.overdue(now_ms().saturating_sub(lost_after)).await;
        for effect in lost.unwrap_or_default() {
            if let Err(error) = jobs::run_effect(&shop, &effect).await {
                tracing::warn!("a lost job could not be done: {error}");
            }
        }
        sleep(SEARCH_EVERY).await;
    }
}
