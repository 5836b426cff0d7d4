//! Everything at once, on free ports: PostgreSQL, a queue in memory, a stand-in for a ComfyUI engine,
//! a receiver of callbacks, and the service with all its roles.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use clap::{Args, Parser};
use fairlane_testkit::comfyui::{ComfyUi as StandIn, Generation};
use fairlane_testkit::postgres::{self, PostgresServer};
use fairlane_testkit::receiver::{ReceivedRequest, Receiver, response};
use tempfile::TempDir;

use crate::StartError;
use crate::options::Options;
use crate::role::{self, Roles, Running};

/// How long a node of a workflow takes, so that progress can be watched.
const NODE_TIME: Duration = Duration::from_millis(500);
/// The smallest picture that the service accepts: one pixel.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The options of a demonstration.
#[derive(Debug, Clone, Args)]
pub struct DemoOptions {
    /// --demo: the address of the API; any free port by default
    #[arg(long, default_value = "127.0.0.1:0", requires = "demo")]
    pub listen: SocketAddr,
    /// --demo: a PostgreSQL database of your own; by default one is started
    #[arg(long, requires = "demo")]
    pub database: Option<String>,
    /// --demo: a ComfyUI engine of your own; by default a stand-in is started
    #[arg(long, requires = "demo")]
    pub comfyui: Option<String>,
}

/// A running demonstration.
pub struct Demo {
    running: Running,
    receiver: Receiver,
    folder: TempDir,
    _stand_in: Option<StandIn>,
    _postgres: Option<PostgresServer>,
}

/// Starts everything.
pub async fn start(options: &DemoOptions) -> Result<Demo, StartError> {
    let started = match &options.database {
        Some(_) => None,
        None if !postgres::is_installed() => {
            return Err(
                "PostgreSQL is not installed; install it (Debian: apt-get install postgresql), or name \
                 a database: --demo --database postgres://user@host/database"
                    .into(),
            );
        }
        // The start of the server blocks for a second.
        None => Some(tokio::task::spawn_blocking(PostgresServer::start).await?),
    };
    let stand_in = options
        .comfyui
        .is_none()
        .then(|| StandIn::start_at(([127, 0, 0, 1], 0).into(), Generation::New, NODE_TIME, None));
    let folder = tempfile::Builder::new().prefix("comfy-service-").tempdir()?;
    std::fs::write(folder.path().join("picture.png"), BASE64.decode(PICTURE)?)?;
    let receiver = Receiver::handling(|request: &ReceivedRequest| {
        let id = request.header("webhook-id").unwrap_or("without an id");
        println!("callback {id}: {}", String::from_utf8_lossy(&request.body));
        std::future::ready(response("204 No Content", &[], ""))
    });
    let database = options.database.clone().or(started.as_ref().map(PostgresServer::url));
    let comfyui = options.comfyui.clone().or(stand_in.as_ref().map(StandIn::url));
    let files = folder.path().join("files").display().to_string();
    let (database, comfyui) = (database.unwrap_or_default(), comfyui.unwrap_or_default());
    let listen = options.listen.to_string();
    let secret = new_secret()?;
    let running = role::start(
        Roles::ALL,
        &parse_options(&[
            ["--listen", &listen],
            ["--database", &database],
            ["--engine", "memory:"],
            ["--files", &files],
            ["--comfyui", &comfyui],
            ["--callback-secret", &secret],
            ["--callback-host", "127.0.0.1"],
        ]),
    )
    .await?;
    Ok(Demo { running, receiver, folder, _stand_in: stand_in, _postgres: started })
}

impl Demo {
    /// What to try, as commands.
    pub fn instructions(&self) -> String {
        let (url, hook) = (self.running.url(), self.receiver.url("/hook"));
        let picture = self.folder.path().join("picture.png");
        format!(
            "The service is at {url}. Ctrl-C stops it.\n\n  curl -F service_type=multi-style \
             -F 'parameters={{\"gender\": \"female\"}}' \\\n    -F image=@{} -F callback_url={hook} {url}/jobs/file\n  \
             curl -N {url}/jobs/1/events\n  curl {url}/jobs/1\n",
            picture.display()
        )
    }

    /// The base URL of the API.
    pub fn url(&self) -> String {
        self.running.url()
    }

    /// The URL of the receiver of callbacks.
    pub fn hook(&self) -> String {
        self.receiver.url("/hook")
    }

    /// The path of a small picture.
    pub fn picture(&self) -> std::path::PathBuf {
        self.folder.path().join("picture.png")
    }

    /// The callbacks so far.
    pub fn callbacks(&self) -> Vec<ReceivedRequest> {
        self.receiver.requests()
    }

    /// Stops everything.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}

/// A new secret for callbacks.
pub fn new_secret() -> Result<String, StartError> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| format!("no random bytes: {error}"))?;
    Ok(format!("whsec_{}", BASE64.encode(key)))
}

/// Options with their defaults, and these arguments.
pub fn parse_options(arguments: &[[&str; 2]]) -> Options {
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }
    Command::parse_from(["comfy-service"].iter().chain(arguments.as_flattened())).options
}
