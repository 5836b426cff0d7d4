//! The server that is attacked: the `fairlane` program in a folder of its own.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use fairlane_core::GroupId;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, NewKey};
use serde_json::{Value, json};

use crate::served::client::{Connection, request};

/// The longest time for a server to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const START_POLL: Duration = Duration::from_millis(10);

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
    child: Child,
    pub address: SocketAddr,
}

impl ServerProcess {
    /// Starts `program serve` and waits until it serves.
    pub async fn start(program: &Path, folder: &Path) -> Result<Self, String> {
        let file = |name: &str| File::create(folder.join(name)).expect("the folder can be written");
        let mut command = Command::new(program);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--config", CONFIG]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FAIRLANE_") {
                command.env_remove(&name);
            }
        }
        command.current_dir(folder).stdout(file("stdout")).stderr(file("stderr"));
        let child =
            command.spawn().map_err(|error| format!("{} cannot start: {error}", program.display()))?;
        let mut process = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = process.ended() {
                let errors = std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
                return Err(format!("it ended with {status}: {}", errors.lines().last().unwrap_or_default()));
            }
            if let Some(address) = serving(&folder.join("stdout")) {
                process.address = address;
                return Ok(process);
            }
            tokio::time::sleep(START_POLL).await;
        }
        Err(format!("it does not serve within {} s", START_TIMEOUT.as_secs()))
    }

    /// The exit status, if the server has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it can be waited for")
    }

    /// The peak memory so far, in MiB; NaN if the server has ended.
    pub fn memory_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kib.map_or(f64::NAN, |kib| kib / 1024.0)
    }

    /// Kills the server, as a crash would end it.
    pub fn kill(&mut self) {
        // A server that has ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The address of the server, from its line of output.
fn serving(output: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(output).ok()?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let address = lines.filter(|line| line["event"] == "serving").find_map(|line| {
        let address = line["address"].as_str()?.strip_prefix("http://")?.to_owned();
        Some(address)
    });
    address?.parse().ok()
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
