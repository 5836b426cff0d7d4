//! Opens the engine at an address.

use std::path::PathBuf;
use std::sync::Arc;

use fairlane_core::queue::{QueueSet, SetQueue, Settings};

use crate::clock::Clock;
#[cfg(feature = "sqlite")]
use crate::embedded::DirectoryOptions;
#[cfg(all(feature = "sqlite", feature = "http"))]
use crate::embedded::disk::address_in;
#[cfg(feature = "sqlite")]
use crate::embedded::disk::{holds_queue, owner_of};
use crate::embedded::{Durability, EmbeddedEngine};
use crate::engine::{Engine, EngineError};
#[cfg(feature = "http")]
use crate::http::{self, HttpEngine, HttpOptions, Reconnect, ServerAddress};
#[cfg(feature = "redis")]
use crate::redis::{RedisEngine, RedisOptions};

/// Opens the engine at `url` and applies these settings to its queue.
///
/// - `memory:`: the embedded engine without a trace on disk.
/// - `dir:path`, `./path` or `/path`: the embedded engine with its state in that directory. With
///   `?durability=interval` at the end, it replies before changes are on disk. If another process
///   owns and serves the directory, commands go to that process, also after it was restarted at
///   another address.
/// - `redis://user:password@host:port/database`: a single Redis or Valkey server.
/// - `redis+cluster://host:port,host:port`: a cluster, by some of its nodes.
/// - `rediss` instead of `redis` in either: a connection with TLS. `?ca=FILE` names a CA to trust
///   instead of those of the system, `?cert=FILE&key=FILE` the certificate of the client, and
///   `?insecure` accepts any server.
/// - `?prefix=shop:` at the end of a Redis address: the prefix of every key instead of
///   `bulk-action:`, so that one Redis can hold several queues.
/// - `http://host:port` or `https://host/path`: a Fairlane server, with the key from the
///   environment variable `FAIRLANE_KEY`; a key before the host takes precedence. Changing the
///   settings needs an admin key.
///
/// ```
/// # use fairlane_core::queue::{InspectQueue, Settings};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane_engine::EngineError> {
/// let engine = fairlane_engine::open("memory:", Settings::default()).await?;
/// assert_eq!(engine.call(InspectQueue).await?.backlog, 0);
/// # Ok(())
/// # }
/// ```
pub async fn open(url: &str, settings: Settings) -> Result<Arc<dyn Engine>, EngineError> {
    let engine = engine_at(url, settings.clone()).await?;
    set_queue(engine, url, settings).await
}

/// Opens the engine at `url` with default settings; a queue behind a server keeps its settings.
pub async fn open_default(url: &str) -> Result<Arc<dyn Engine>, EngineError> {
    let engine = engine_at(url, Settings::default()).await?;
    if engine.name() == "http" {
        return Ok(engine);
    }
    set_queue(engine, url, Settings::default()).await
}

async fn set_queue(
    engine: Arc<dyn Engine>,
    url: &str,
    settings: Settings,
) -> Result<Arc<dyn Engine>, EngineError> {
    let discipline = settings.discipline.as_str();
    match engine.call(SetQueue { settings }).await? {
        QueueSet::Set => Ok(engine),
        QueueSet::DisciplineInUse => Err(EngineError::refused(format!(
            "the queue at {} has unfinished jobs under another discipline than {discipline}; the discipline can \
             only be changed while the queue is empty: let it drain, or open it with the discipline it has",
            without_user(url)
        ))),
    }
}

/// An address without user, password or key, for display. Secrets in an invalid address
/// are removed, too.
///
/// ```
/// assert_eq!(fairlane_engine::without_user("redis://:hunter/2@host:6379"), "redis://host:6379");
/// ```
pub fn without_user(url: &str) -> String {
    match (url.rsplit_once('@'), url.split_once("://")) {
        _ if directory_of(url).is_some() => url.to_owned(),
        (Some((_, host)), Some((scheme, _))) => format!("{scheme}://{host}"),
        (Some((_, host)), None) => host.to_owned(),
        (None, _) => url.to_owned(),
    }
}

/// The data directory of an address, if it is that of a directory.
pub fn directory_of(url: &str) -> Option<PathBuf> {
    Directory::named(url).ok().flatten().map(|directory| directory.path)
}

/// Opens the engine at `url` without changing its settings, for reading. A directory without a
/// queue is an error, and nothing is created there.
pub async fn attach(url: &str) -> Result<Arc<dyn Engine>, EngineError> {
    if let Some(directory) = Directory::named(url)? {
        directory.check()?;
        directory.check_queue()?;
    }
    engine_at(url, Settings::default()).await
}

/// Like [`attach`], for producers: a directory without a queue gets one with default settings.
pub async fn attach_or_make(url: &str) -> Result<Arc<dyn Engine>, EngineError> {
    engine_at(url, Settings::default()).await
}

/// Whether `url` can be the address of an engine, without opening it: nothing is
/// created or contacted.
///
/// ```
/// assert!(fairlane_engine::check_address("redis://127.0.0.1:6379").is_ok());
/// assert!(fairlane_engine::check_address("redis://127.0.0.1:99999").is_err());
/// ```
pub fn check_address(url: &str) -> Result<(), EngineError> {
    match Address::read(url)? {
        Address::Memory => Ok(()),
        Address::Directory(directory) => directory.check(),
        #[cfg(feature = "redis")]
        Address::Redis(url, _) => crate::redis::check_address(&url),
        #[cfg(feature = "http")]
        Address::Server(_) => Ok(()),
    }
}

/// A parsed address.
enum Address {
    Memory,
    Directory(Directory),
    #[cfg(feature = "redis")]
    Redis(String, RedisOptions),
    #[cfg(feature = "http")]
    Server(ServerAddress),
}

impl Address {
    fn read(url: &str) -> Result<Self, EngineError> {
        if let Some(directory) = Directory::named(url)? {
            return Ok(Self::Directory(directory));
        }
        match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
            "memory" => Ok(Self::Memory),
            #[cfg(not(feature = "redis"))]
            "redis" | "rediss" | "redis+cluster" | "rediss+cluster" => Err(missing_feature("redis")),
            #[cfg(not(feature = "http"))]
            "http" | "https" => Err(missing_feature("http")),
            #[cfg(feature = "redis")]
            scheme if crate::redis::is_redis(scheme) => {
                redis_options(url).map(|(url, options)| Self::Redis(url, options))
            }
            #[cfg(feature = "http")]
            "http" | "https" => ServerAddress::read(url).map(Self::Server),
            _ => Err(EngineError::refused(format!(
                "{:?} is not the address of an engine; known are memory:, dir:path, redis://host:port, \
                 rediss://host:port (TLS), redis+cluster://host:port,host:port, http://host:port and https://host",
                without_user(url)
            ))),
        }
    }
}

/// The address of an engine that this program was built without.
#[cfg(not(all(feature = "redis", feature = "http", feature = "sqlite")))]
fn missing_feature(feature: &str) -> EngineError {
    EngineError::refused(format!(
        "this program was built without that engine: enable the feature `{feature}` of the fairlane crate"
    ))
}

/// Opens an engine; the settings are those of a new queue.
async fn engine_at(url: &str, settings: Settings) -> Result<Arc<dyn Engine>, EngineError> {
    Ok(match Address::read(url)? {
        Address::Memory => Arc::new(EmbeddedEngine::new(settings, Clock::System)?),
        Address::Directory(directory) => return directory.open(settings).await,
        #[cfg(feature = "redis")]
        Address::Redis(url, options) => Arc::new(RedisEngine::connect(&url, options).await?),
        #[cfg(feature = "http")]
        Address::Server(address) => Arc::new(
            HttpEngine::connect_to(address, HttpOptions::from_environment()?, Reconnect::default()).await?,
        ),
    })
}

/// Removes `prefix` from the query of an address; the client reads the rest.
#[cfg(feature = "redis")]
fn redis_options(url: &str) -> Result<(String, RedisOptions), EngineError> {
    let mut options = RedisOptions::default();
    let Some((plain, query)) = url.split_once('?') else { return Ok((url.to_owned(), options)) };
    let mut rest: Vec<&str> = Vec::new();
    for word in query.split('&') {
        match word.strip_prefix("prefix=") {
            Some(prefix) if is_prefix(prefix) => options.prefix = prefix.to_owned(),
            Some(prefix) => {
                return Err(EngineError::refused(format!(
                    "{prefix:?} cannot begin keys; a prefix has 1 to {PREFIX_BYTES_MAX} letters, digits, '-', '_', \
                     '.' and ':'"
                )));
            }
            None => rest.push(word),
        }
    }
    let url = if rest.is_empty() { plain.to_owned() } else { format!("{plain}?{}", rest.join("&")) };
    Ok((url, options))
}

/// Longest prefix of keys in bytes: it is part of every key.
#[cfg(feature = "redis")]
const PREFIX_BYTES_MAX: usize = 64;

/// Whether a prefix has no character with a meaning in a hash tag or a pattern.
#[cfg(feature = "redis")]
fn is_prefix(prefix: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=PREFIX_BYTES_MAX).contains(&prefix.len()) && prefix.bytes().all(plain)
}

/// A data directory and its options, from an address.
#[derive(Debug, PartialEq, Eq)]
struct Directory {
    path: PathBuf,
    durability: Durability,
}

impl Directory {
    /// Parses the address of a directory; `None` if it is another kind of address.
    fn named(url: &str) -> Result<Option<Self>, EngineError> {
        let path = match url.strip_prefix("dir:") {
            Some(path) => path,
            None if url.starts_with(['.', '/']) => url,
            None => return Ok(None),
        };
        let (path, durability) = match path.rsplit_once('?') {
            None => (path, Durability::default()),
            Some((path, query)) => (path, durability(query)?),
        };
        if path.is_empty() {
            return Err(EngineError::refused(format!("{url:?} names no directory; write dir:path")));
        }
        Ok(Some(Self { path: path.into(), durability }))
    }

    /// Rejects a path that exists and is not a directory.
    fn check(&self) -> Result<(), EngineError> {
        if self.path.exists() && !self.path.is_dir() {
            let reason =
                format!("{} is a file; the address of a queue names a directory", self.path.display());
            return Err(EngineError::refused(reason));
        }
        Ok(())
    }

    /// Rejects a directory without a queue, because opening it for reading would create one.
    #[cfg(feature = "sqlite")]
    fn check_queue(&self) -> Result<(), EngineError> {
        let what = match self.path.exists() {
            false => "there is no directory",
            // A process that has just started creates its files after it has locked the directory.
            true if holds_queue(&self.path) || owner_of(&self.path).is_some() => return Ok(()),
            true => "there is no queue in",
        };
        let folder = self.path.display();
        Err(EngineError::refused(format!(
            "{what} {folder}; look at the path, or make a queue there by adding a job or serving it (fairlane serve \
             --engine dir:{folder})"
        )))
    }

    /// Opens the directory, or connects to the process that serves it. That process is looked up
    /// only if the directory is in use, so that readers never block an owner.
    #[cfg(feature = "sqlite")]
    async fn open(self, settings: Settings) -> Result<Arc<dyn Engine>, EngineError> {
        self.check()?;
        match self.own(settings).await {
            Ok(engine) => Ok(Arc::new(engine)),
            #[cfg(feature = "http")]
            Err(error) => match owner_of(&self.path).and_then(|owner| owner.address) {
                Some(address) => Ok(Arc::new(self.served_at(&address).await?)),
                None => Err(error),
            },
            #[cfg(not(feature = "http"))]
            Err(error) => Err(error),
        }
    }

    #[cfg(not(feature = "sqlite"))]
    fn check_queue(&self) -> Result<(), EngineError> {
        Err(missing_feature("sqlite"))
    }

    #[cfg(not(feature = "sqlite"))]
    async fn open(self, _: Settings) -> Result<Arc<dyn Engine>, EngineError> {
        Err(missing_feature("sqlite"))
    }

    /// Opens the directory as its owner. Reading a large one takes seconds, so it runs on a
    /// blocking thread.
    #[cfg(feature = "sqlite")]
    async fn own(&self, settings: Settings) -> Result<EmbeddedEngine, EngineError> {
        let options = DirectoryOptions { durability: self.durability, settings, ..Default::default() };
        let path = self.path.clone();
        let opening = tokio::task::spawn_blocking(move || EmbeddedEngine::open(&path, options));
        opening.await.unwrap_or_else(|error| Err(EngineError::broken(format!("opening failed: {error}"))))
    }

    #[cfg(all(feature = "sqlite", feature = "http"))]
    async fn served_at(&self, address: &str) -> Result<HttpEngine, EngineError> {
        let server = ServerAddress::read(address)?;
        let advice = format!(
            "the directory is served at {server}; set {} to a key of that server",
            http::KEY_VARIABLE
        );
        let folder = self.path.display();
        let served = |reason: String| format!("{folder} is served at {server}: {reason}");
        let options = HttpOptions::from_environment()?;
        let path = self.path.clone();
        let reconnect =
            Reconnect { key_advice: Some(advice), moved: Some(Box::new(move || address_in(&path))) };
        match HttpEngine::connect_to(server.clone(), options, reconnect).await {
            Err(EngineError::Unavailable { engine, reason }) => {
                Err(EngineError::Unavailable { engine, reason: served(reason) })
            }
            connected => connected,
        }
    }
}

fn durability(query: &str) -> Result<Durability, EngineError> {
    let Some(word) = query.strip_prefix("durability=") else {
        return Err(EngineError::refused(format!("?{query} is not known; a directory takes ?durability=…")));
    };
    word.parse().map_err(|error: crate::embedded::UnknownDurability| EngineError::refused(error.to_string()))
}

#[cfg(all(test, feature = "redis", feature = "sqlite", feature = "http"))]
mod tests {
    use super::*;

    async fn refusal(url: &str) -> String {
        let refused = open(url, Settings::default()).await.err().expect("nothing is there to open");
        assert!(!refused.is_retryable());
        refused.to_string()
    }

    #[tokio::test]
    async fn an_unknown_address_is_refused_with_the_known_ones() {
        for url in ["memroy:", "postgres://localhost", "localhost"] {
            let message = refusal(url).await;
            assert!(message.contains(url) && message.contains("redis://host:port"), "{message}");
        }
    }

    #[test]
    fn an_address_is_checked_without_a_connection() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let fresh = format!("dir:{}/fresh", folder.path().display());
        for url in ["memory:", "redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1,127.0.0.1:2", &fresh] {
            check_address(url).unwrap();
        }
        assert!(!folder.path().join("fresh").exists());
        for url in [
            "rediss://h?key=/k",
            "redis://:hunter2@host:99999",
            "redis+cluster://me:hunter2@host:99999",
            "redis://",
        ] {
            let refused = check_address(url).unwrap_err().to_string();
            assert!(refused.contains("is not a Redis address") && !refused.contains("hunter2"), "{refused}");
        }
        let refused = check_address(&format!("dir:{}", file.display())).unwrap_err().to_string();
        assert!(refused.contains("is a file"), "{refused}");
        assert!(check_address("postgres://localhost").is_err());
    }

    #[test]
    fn a_prefix_is_taken_out_of_the_address_of_a_redis() {
        let read = |url: &str| redis_options(url).map(|(url, options)| (url, options.prefix));
        let standard = RedisOptions::default().prefix;
        assert_eq!(read("redis://h:1/2"), Ok(("redis://h:1/2".into(), standard)));
        let all = "redis://h:1/2?protocol=resp3&prefix=shop:";
        assert_eq!(read(all), Ok(("redis://h:1/2?protocol=resp3".into(), "shop:".into())));
        assert_eq!(
            read("redis+cluster://h:1,i:2?prefix=a"),
            Ok(("redis+cluster://h:1,i:2".into(), "a".into()))
        );
        for bad in ["", "a{b}", "a*", "a b"] {
            let refused = read(&format!("redis://h?prefix={bad}")).unwrap_err().to_string();
            assert!(refused.contains("cannot begin keys"), "{refused}");
        }
    }

    fn directory(url: &str) -> Option<(String, Durability)> {
        let named = Directory::named(url).expect("nothing is wrong with it")?;
        Some((named.path.to_string_lossy().into_owned(), named.durability))
    }

    #[test]
    fn a_directory_is_known_by_its_beginning() {
        for url in ["", "memory:", "data", "redis://./x", "directory:x"] {
            assert_eq!(directory(url), None, "{url}");
        }
        let commit = |path: &str| Some((path.to_owned(), Durability::Commit));
        assert_eq!(directory("dir:data"), commit("data"));
        assert_eq!(directory("./data"), commit("./data"));
        assert_eq!(directory("/var/lib/queue"), commit("/var/lib/queue"));
        assert_eq!(directory("dir:/a?durability=interval"), Some(("/a".into(), Durability::Interval)));
    }

    #[tokio::test]
    async fn a_directory_with_an_unknown_option_is_refused() {
        assert!(refusal("dir:").await.contains("names no directory"));
        assert!(refusal("./x?durability=often").await.contains("commit, interval and memory"));
        assert!(refusal("./x?sync=off").await.contains("?durability="));
    }

    #[tokio::test]
    async fn the_contents_of_a_directory_are_there_when_it_is_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("dir:{}/queue", folder.path().display());
        let settings = Settings { max_retry_count: 7, ..Settings::default() };
        let engine = open(&url, settings.clone()).await.unwrap();
        engine.enqueue_all(crate::embedded::tests::jobs(3)).await.unwrap();
        assert!(refusal(&url).await.contains("clone the Fairlane you have"));
        drop(engine);
        let engine = open(&url, settings).await.unwrap();
        let queue = engine.call(fairlane_core::queue::InspectQueue).await.unwrap();
        assert_eq!(queue.backlog, 3);
    }

    #[tokio::test]
    async fn attaching_to_a_directory_without_a_queue_creates_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("dir:{}", folder.path().display());
        for (url, what) in
            [(url.clone(), "there is no queue in"), (format!("{url}/x"), "there is no directory")]
        {
            let refused = attach(&url).await.err().expect("nothing is there to look at").to_string();
            assert!(refused.contains(what) && refused.contains("fairlane serve --engine dir:"), "{refused}");
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        drop(attach_or_make(&url).await.unwrap());
        assert_eq!(attach(&url).await.unwrap().name(), "embedded");
    }

    #[tokio::test]
    async fn memory_has_to_be_requested_by_name() {
        for url in ["memory", "memory:"] {
            assert_eq!(open(url, Settings::default()).await.unwrap().name(), "embedded");
        }
        for url in ["", ":", " "] {
            assert!(refusal(url).await.contains("is not the address of an engine; known are memory:"));
        }
    }
}
