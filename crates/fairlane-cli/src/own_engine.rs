//! A temporary engine for one run, isolated from other data in the same store.
//!
//! On Redis it uses a unique key prefix and removes only those keys at the end. In a data directory
//! it uses a new folder inside, which it removes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fairlane_core::queue::Settings;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, directory_of};
use redis::aio::MultiplexedConnection;

use crate::failure::Failure;
use crate::target::is_server;

/// Keys that one SCAN inspects.
const CLEAR_KEYS: usize = 1000;

/// A temporary engine, and what is needed to remove its data.
pub struct OwnEngine {
    /// The engine itself.
    pub engine: Arc<dyn Engine>,
    redis: Option<(String, String)>,
    folder: Option<PathBuf>,
}

impl OwnEngine {
    /// Opens the engine at `url`; its keys begin with `purpose`.
    pub async fn open(url: &str, purpose: &str) -> Result<Self, Failure> {
        if is_server(url) {
            return Err(Failure::bad_input(
                "--engine selects a server, whose queue other processes use; use memory:, a directory or a Redis",
            ));
        }
        if !is_redis(url) {
            let folder = directory_of(url).map(|folder| folder.join(format!("{purpose}-{}", run_id())));
            let own_url = folder.as_ref().map_or(url.to_owned(), |folder| with_folder(url, folder));
            let opened = fairlane_engine::open(&own_url, Settings::default()).await;
            let engine = opened.map_err(|error| Failure::bad_input(error.to_string()))?;
            return Ok(Self { engine, redis: None, folder });
        }
        let prefix = own_prefix(purpose);
        let options = RedisOptions { prefix: prefix.clone(), ..RedisOptions::default() };
        let engine = RedisEngine::connect(url, options).await?;
        Ok(Self { engine: Arc::new(engine), redis: Some((url.to_owned(), prefix)), folder: None })
    }

    /// The prefix of its keys, on Redis.
    pub fn prefix(&self) -> Option<&str> {
        self.redis.as_ref().map(|(_, prefix)| prefix.as_str())
    }

    /// Its folder, in a data directory.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Removes all keys or the folder of this run.
    pub async fn clear(&self) -> Result<(), Failure> {
        if let Some(folder) = &self.folder {
            return std::fs::remove_dir_all(folder).map_err(|error| {
                Failure::broken(format!("{} cannot be removed: {error}; remove it by hand", folder.display()))
            });
        }
        let Some((url, prefix)) = &self.redis else { return Ok(()) };
        let Some(nodes) = url.strip_prefix("redis+cluster://") else {
            return clear_node(&mut connect(url).await?, prefix, CLEAR_KEYS).await;
        };
        for master in masters(nodes).await? {
            // The keys of a node are in many slots, and one command may touch only one slot.
            clear_node(&mut connect(&master).await?, prefix, 1).await?;
        }
        Ok(())
    }
}

/// Whether an address selects a Redis.
pub fn is_redis(url: &str) -> bool {
    matches!(url.split_once(':'), Some(("redis" | "redis+cluster", _)))
}

/// The address with another directory and the same options.
fn with_folder(url: &str, folder: &Path) -> String {
    let options = url.rfind('?').map_or("", |at| &url[at..]);
    format!("dir:{}{options}", folder.display())
}

/// Opens a separate connection to the same Redis.
pub async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    let client = redis::Client::open(url)?;
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

/// A unique prefix of the same length as the default one, so that memory measurements are
/// realistic.
fn own_prefix(purpose: &str) -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let number = since_1970.as_millis() as u64 ^ (u64::from(std::process::id()) << 20);
    format!("{:.4}-{:06x}:", purpose, number & 0xff_ffff)
}

/// A unique id of this run: letters and digits.
pub fn run_id() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", since_1970.as_micros(), std::process::id())
}

/// The addresses of a cluster's masters, from the first configured node, with its user and
/// password.
async fn masters(nodes: &str) -> Result<Vec<String>, Failure> {
    let first = nodes.split([',', '/']).next().unwrap_or(nodes);
    let (user, address) = match first.rsplit_once('@') {
        Some((user, address)) => (format!("{user}@"), address),
        None => (String::new(), first),
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let mut connection = connect(&format!("redis://{first}")).await?;
    let listed: String = redis::cmd("CLUSTER").arg("NODES").query_async(&mut connection).await?;
    let masters = listed.lines().filter_map(master_address);
    // A node that has never met another one does not know its own host.
    let addresses =
        masters.map(|master| if master.starts_with(':') { format!("{host}{master}") } else { master.into() });
    Ok(addresses.map(|address| format!("redis://{user}{address}")).collect())
}

/// Parses a line such as `id 127.0.0.1:7000@17000,name master - 0 …`; none unless it is a master.
fn master_address(line: &str) -> Option<&str> {
    let mut words = line.split(' ').skip(1);
    let address = words.next()?.split('@').next()?;
    words.next()?.split(',').any(|flag| flag == "master").then_some(address)
}

async fn clear_node(
    connection: &mut MultiplexedConnection,
    prefix: &str,
    unlink_keys: usize,
) -> Result<(), Failure> {
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{prefix}*")).arg("COUNT").arg(CLEAR_KEYS);
        let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(connection).await?;
        let mut unlinks = redis::pipe();
        for keys in keys.chunks(unlink_keys) {
            unlinks.cmd("UNLINK").arg(keys).ignore();
        }
        if !keys.is_empty() {
            let () = unlinks.query_async(connection).await?;
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masters_of_a_cluster_are_cleared() {
        let master = "07c3 127.0.0.1:7000@17000,host myself,master - 0 1426238317239 4 connected 0-5460";
        let replica = "e7d1 127.0.0.1:7004@17004 slave 07c3 0 1426238317739 4 connected";
        assert_eq!(master_address(master), Some("127.0.0.1:7000"));
        assert_eq!(master_address(replica), None);
    }

    #[test]
    fn a_folder_keeps_the_options_of_its_address() {
        let url = "dir:/what?/data?durability=interval";
        let folder = directory_of(url).unwrap().join("own");
        assert_eq!(with_folder(url, &folder), "dir:/what?/data/own?durability=interval");
    }

    #[test]
    fn a_redis_is_recognised_by_its_scheme() {
        assert!(is_redis("redis://localhost") && is_redis("redis+cluster://a:1,b:2"));
        assert!(!is_redis("memory:") && !is_redis("rediss://localhost") && !is_redis("redis"));
    }
}
