//! The server that is attacked: the `fairlane` program in a folder of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;

use fairlane_core::GroupId;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, NewKey};
use fairlane_testkit::process::Process;
use fairlane_testkit::program::Background;
use serde_json::json;

use crate::served::client::{Connection, request};

const KEYS: &str = "keys.json";
const CONFIG: &str = "fairlane.toml";

/// The type that the server works on.
pub const WORKED_ON: &str = "mail";
/// A type without a worker.
pub const PARKED: &str = "parked";
/// The group of the attacker.
pub const ATTACKER: &str = "attacker";
/// The group of the customer beside it.
pub const CUSTOMER: &str = "customer";

/// A key for each side.
pub struct Keys {
    pub admin: String,
    pub attacker: String,
    pub customer: String,
}

impl Keys {
    /// Writes the file of keys into the folder.
    pub fn create(folder: &Path) -> Self {
        let file = KeyFile::at(folder.join(KEYS));
        let key = |name: &str, role, group: Option<&str>| {
            let groups = group.map(|group| [GroupId::new(group).expect("a plain word")].into());
            let new = NewKey { name: name.to_owned(), role, groups, rate: None, expires_in: None };
            file.create(new).expect("the folder can be written").1.reveal().to_owned()
        };
        Self {
            admin: key("admin", Role::Admin, None),
            attacker: key("attacker", Role::Producer, Some(ATTACKER)),
            customer: key("customer", Role::Producer, Some(CUSTOMER)),
        }
    }
}

/// Writes the configuration: jobs go to the receiver, callbacks may go to this machine.
pub fn configure(folder: &Path, receiver: SocketAddr, connections_max: Option<usize>) {
    let connections = connections_max.map(|most| format!("connections_max = {most}\n")).unwrap_or_default();
    let text = format!(
        "engine = \"dir:queue\"\n[server]\nkeys = \"{KEYS}\"\n{connections}\n[types.{WORKED_ON}]\n\
         http = \"http://{receiver}/job\"\n\n[callbacks]\nallow_private = true\n\
         secrets = [\"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]\n"
    );
    std::fs::write(folder.join(CONFIG), text).expect("the folder can be written");
}

/// A running server, which ends when dropped.
pub struct ServerProcess {
    background: Background,
    pub address: SocketAddr,
}

impl ServerProcess {
    /// Starts `program serve` and waits until it serves.
    pub fn start(program: &Path, folder: &Path) -> Result<Self, String> {
        let words = ["serve", "--json", "--listen", "127.0.0.1:0", "--config", CONFIG];
        let mut background = Background::start(program, folder, &words);
        let url = background.served()?;
        let address = url.trim_start_matches("http://").parse().map_err(|_| format!("it serves {url}"))?;
        Ok(Self { background, address })
    }

    /// The exit status, if the server has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.background.status()
    }

    /// The process, to be measured and killed.
    pub fn process(&mut self) -> &mut Process {
        self.background.process()
    }
}

/// Adds a job of each type, as keys that are bound to groups cannot add types.
pub async fn add_types(address: SocketAddr, key: &str) -> std::io::Result<()> {
    let mut connection = Connection::open(address).await?;
    for type_name in [WORKED_ON, PARKED] {
        let body = json!({ "group": "setup", "type": type_name, "payload": { "number": null } });
        let add = request("POST", "/api/jobs", Some(key), body.to_string().as_bytes());
        let status = connection.round_trip(&add).await?.status;
        if !(200..300).contains(&status) {
            return Err(std::io::Error::other(format!("the status is {status}")));
        }
    }
    Ok(())
}
