//! A stand-in for a ComfyUI engine: the same routes, events and faults, without a GPU.
//!
//! Like the real one it keeps queue and history in memory, runs one prompt at a time, runs an id
//! twice if it is submitted twice, and addresses events to the client id of a prompt. A test can make
//! it forget everything, fall silent, respond late and hold prompts. The class of a node decides what
//! happens to it:
//!
//! | class | effect |
//! |---|---|
//! | `SaveImage` | writes a file |
//! | `Fail` | ends the prompt with an error |
//! | `OutOfMemory` | ends the prompt with an error until memory is freed |
//! | `Missing` | the prompt is refused: the engine has no such node |
//! | `Invalid` | the prompt is accepted without this output |
//! | anything else | runs |

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::receiver::{ReceivedRequest, Receiver, response};

/// The bytes of every file.
pub const FILE: &str = "a picture";

/// The generation of the interface that the engine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Queue and history only.
    Old,
    /// Also one resource for each prompt.
    New,
}

/// An engine that runs until it is dropped.
pub struct ComfyUi {
    server: Receiver,
    engine: Arc<Engine>,
}

struct Engine {
    generation: Generation,
    state: Mutex<State>,
    submitted: Notify,
    /// The number of nodes that may run; prompts wait while it is 0.
    allowed: watch::Sender<usize>,
    is_silent: AtomicBool,
    is_executing: AtomicBool,
    /// The delay of the response to a submission.
    delay: Mutex<Duration>,
    /// How long each node takes.
    node_time: Duration,
    journal: Option<Mutex<File>>,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Submitted>,
    running: Option<Submitted>,
    interrupted: bool,
    history: HashMap<String, Value>,
    sockets: HashMap<String, mpsc::UnboundedSender<Message>>,
    /// Every prompt that was started, by its id.
    runs: HashMap<String, usize>,
    /// Input files by their names.
    uploads: HashMap<String, Vec<u8>>,
    number: u64,
    freed: usize,
}

#[derive(Clone)]
struct Submitted {
    number: u64,
    id: String,
    client: Option<String>,
    nodes: Map<String, Value>,
}

impl Submitted {
    fn entry(&self) -> Value {
        json!([self.number, self.id, self.nodes, {}, []])
    }

    fn has(&self, class: &str) -> bool {
        self.nodes.values().any(|node| node["class_type"] == class)
    }
}

impl ComfyUi {
    /// Starts an engine on a free port.
    pub fn start(generation: Generation) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), generation, Duration::ZERO, None)
    }

    /// Starts an engine at an address, whose nodes take this long. The journal is a file that survives
    /// the engine: it gets a line of JSON for the start of the engine, for each submission, each
    /// response to one, and the start and end of each run, each with its time.
    pub fn start_at(
        address: SocketAddr,
        generation: Generation,
        node_time: Duration,
        journal: Option<&Path>,
    ) -> Self {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        let journal = journal.map(|path| Mutex::new(open(path).expect("the journal can be written")));
        let engine = Arc::new(Engine {
            generation,
            state: Mutex::default(),
            submitted: Notify::new(),
            allowed: watch::Sender::new(usize::MAX),
            is_silent: AtomicBool::new(false),
            is_executing: AtomicBool::new(false),
            delay: Mutex::default(),
            node_time,
            journal,
        });
        engine.record(json!({"event": "started"}));
        let serving = engine.clone();
        let server = Receiver::start_at(address, move |request, stream| {
            serving.clone().serve(request.clone(), stream)
        });
        Self { server, engine }
    }

    /// The base URL.
    pub fn url(&self) -> String {
        self.server.url("")
    }

    /// Makes prompts wait before their next node, or lets them run.
    pub fn hold(&self, holds: bool) {
        self.allow_nodes(if holds { 0 } else { usize::MAX });
    }

    /// Lets this many nodes run.
    pub fn allow_nodes(&self, nodes: usize) {
        self.engine.allowed.send_replace(nodes);
    }

    /// Number of clients that receive events.
    pub fn listeners(&self) -> usize {
        self.engine.state().sockets.len()
    }

    /// Keeps sockets open without sending anything, or sends events again.
    pub fn set_silent(&self, is_silent: bool) {
        self.engine.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Delays the responses to submissions, which are carried out at once.
    pub fn delay_submissions(&self, delay: Duration) {
        *self.engine.delay.lock().expect("no holder of the lock panics") = delay;
    }

    /// Forgets queue, history and sockets, as a restart does. The counts of this object stay.
    pub fn forget(&self) {
        let mut state = self.engine.state();
        let (runs, uploads) = (std::mem::take(&mut state.runs), std::mem::take(&mut state.uploads));
        *state = State { runs, uploads, freed: state.freed, interrupted: true, ..State::default() };
    }

    /// How often each prompt was started.
    pub fn runs(&self) -> HashMap<String, usize> {
        self.engine.state().runs.clone()
    }

    /// The input files by their names. They survive a restart, as those on the disk of a real engine.
    pub fn uploads(&self) -> HashMap<String, Vec<u8>> {
        self.engine.state().uploads.clone()
    }

    /// How often memory was freed.
    pub fn freed(&self) -> usize {
        self.engine.state().freed
    }

    /// Number of prompts that run or wait.
    pub fn queued(&self) -> usize {
        let state = self.engine.state();
        state.pending.len() + usize::from(state.running.is_some())
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.server.requests()
    }
}

impl Engine {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    async fn serve(self: Arc<Self>, request: ReceivedRequest, mut stream: TcpStream) -> Option<TcpStream> {
        if !self.is_executing.swap(true, Ordering::SeqCst) {
            tokio::spawn(self.clone().execute());
        }
        let (path, query) = request.path().split_once('?').unwrap_or((request.path(), ""));
        let path = path.strip_prefix("/api").unwrap_or(path).to_owned();
        let method = request.head.split(' ').next().unwrap_or_default();
        if path == "/ws" {
            self.listen(&request, query, stream).await;
            return None;
        }
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        if (method, parts.as_slice()) == ("POST", &["upload", "image"]) {
            let (status, body) = self.upload(&request.body);
            let response = response(status, &["content-type: application/json"], &body);
            return stream.write_all(response.as_bytes()).await.is_ok().then_some(stream);
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let submitted = (method, parts.as_slice()) == ("POST", &["prompt"]);
        let submitted = submitted.then(|| body["prompt_id"].clone());
        let delay = match (method, parts.as_slice()) {
            ("POST", ["prompt"]) => *self.delay.lock().expect("no holder of the lock panics"),
            _ => Duration::ZERO,
        };
        let (status, body) = self.respond(method, &parts, body);
        tokio::time::sleep(delay).await;
        let response = response(status, &["content-type: application/json"], &body);
        let is_written = stream.write_all(response.as_bytes()).await.is_ok();
        if let Some(id) = submitted.filter(|_| is_written) {
            self.record(json!({"event": "answered", "prompt_id": id}));
        }
        is_written.then_some(stream)
    }

    /// Appends a line to the journal, in one write.
    fn record(&self, mut event: Value) {
        if let Some(journal) = &self.journal {
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            event["at_ms"] = (since_1970.as_millis() as u64).into();
            let mut journal = journal.lock().expect("no holder of the lock panics");
            journal.write_all(format!("{event}\n").as_bytes()).expect("the journal can be written");
        }
    }

    /// Stores the file of a form.
    fn upload(&self, form: &[u8]) -> (&'static str, String) {
        let position = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).position(|it| it == part);
        let parsed = (|| {
            let boundary = [b"\r\n", &form[..position(form, b"\r\n")?]].concat();
            let file = &form[position(form, b"filename=\"")? + b"filename=\"".len()..];
            let name = String::from_utf8_lossy(&file[..position(file, b"\"")?]).into_owned();
            let bytes = &file[position(file, b"\r\n\r\n")? + 4..];
            Some((name, bytes[..position(bytes, &boundary)?].to_vec()))
        })();
        let Some((name, bytes)) = parsed else { return ("400 Bad Request", String::new()) };
        self.state().uploads.insert(name.clone(), bytes);
        ("200 OK", json!({"name": name, "subfolder": "", "type": "input"}).to_string())
    }

    fn respond(&self, method: &str, path: &[&str], body: Value) -> (&'static str, String) {
        let ok = |body: Value| ("200 OK", body.to_string());
        let is_new = self.generation == Generation::New;
        match (method, path) {
            ("POST", ["prompt"]) => self.submit(&body),
            ("GET", ["queue"]) => {
                let state = self.state();
                let running: Vec<Value> = state.running.iter().map(Submitted::entry).collect();
                let pending: Vec<Value> = state.pending.iter().map(Submitted::entry).collect();
                ok(json!({"queue_running": running, "queue_pending": pending}))
            }
            ("POST", ["queue"]) => {
                let ids = body["delete"].as_array().into_iter().flatten();
                for id in ids.filter_map(Value::as_str) {
                    self.state().pending.retain(|prompt| prompt.id != id);
                }
                ("200 OK", String::new())
            }
            ("GET", ["history", id]) => {
                let found = self.state().history.get(*id).cloned();
                ok(found.map_or(json!({}), |entry| json!({ *id: entry })))
            }
            ("POST", ["interrupt"]) => {
                let mut state = self.state();
                if state.running.as_ref().is_some_and(|prompt| body["prompt_id"] == prompt.id.as_str()) {
                    state.interrupted = true;
                }
                ("200 OK", String::new())
            }
            ("POST", ["free"]) => {
                self.state().freed += 1;
                ("200 OK", String::new())
            }
            ("GET", ["view"]) => ("200 OK", FILE.to_owned()),
            ("GET", ["jobs", id]) if is_new => match self.job(id) {
                Some(job) => ok(job),
                None => ("404 Not Found", json!({"error": "Job not found"}).to_string()),
            },
            ("POST", ["jobs", id, "cancel"]) if is_new => {
                let mut state = self.state();
                let before = state.pending.len();
                state.pending.retain(|prompt| prompt.id != *id);
                let is_running = state.running.as_ref().is_some_and(|prompt| prompt.id == *id);
                state.interrupted |= is_running;
                ok(json!({"cancelled": is_running || state.pending.len() < before}))
            }
            _ => ("404 Not Found", "404: Not Found".to_owned()),
        }
    }

    fn submit(&self, body: &Value) -> (&'static str, String) {
        let Some(nodes) = body["prompt"].as_object().cloned() else {
            let error = json!({"type": "no_prompt", "message": "No prompt provided", "details": ""});
            return ("400 Bad Request", json!({"error": error, "node_errors": {}}).to_string());
        };
        if let Some((id, _)) = nodes.iter().find(|(_, node)| node["class_type"] == "Missing") {
            let details = format!("Node ID '#{id}'");
            let error = json!({"type": "missing_node_type", "message": "Node not found", "details": details});
            return ("400 Bad Request", json!({"error": error, "node_errors": {}}).to_string());
        }
        let errors: Map<String, Value> = nodes
            .iter()
            .filter(|(_, node)| node["class_type"] == "Invalid")
            .map(|(id, _)| {
                let error =
                    json!({"type": "value_not_in_list", "message": "Value not in list", "details": "ckpt"});
                (id.clone(), json!({"errors": [error], "dependent_outputs": [id], "class_type": "Invalid"}))
            })
            .collect();
        let mut state = self.state();
        state.number += 1;
        let number = state.number;
        let given = body["prompt_id"].as_str().map(str::to_owned);
        let id = given.unwrap_or_else(|| format!("prompt-{number}"));
        let client = body["client_id"].as_str().map(str::to_owned);
        self.record(json!({"event": "submitted", "prompt_id": id, "prompt": nodes}));
        state.pending.push_back(Submitted { number, id: id.clone(), client, nodes });
        drop(state);
        self.submitted.notify_one();
        ("200 OK", json!({"prompt_id": id, "number": number, "node_errors": errors}).to_string())
    }

    fn job(&self, id: &str) -> Option<Value> {
        let state = self.state();
        if let Some(entry) = state.history.get(id) {
            let status = match entry["status"]["messages"].as_array()?.last()?[0].as_str()? {
                "execution_success" => "completed",
                "execution_interrupted" => "cancelled",
                _ => "failed",
            };
            let (outputs, messages) = (&entry["outputs"], &entry["status"]);
            return Some(
                json!({"id": id, "status": status, "outputs": outputs, "execution_status": messages}),
            );
        }
        let is_running = state.running.as_ref().is_some_and(|prompt| prompt.id == id);
        let is_pending = state.pending.iter().any(|prompt| prompt.id == id);
        let status = if is_running { "in_progress" } else { "pending" };
        (is_running || is_pending).then(|| json!({"id": id, "status": status}))
    }

    /// Runs one prompt after the other.
    async fn execute(self: Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state();
                let next = state.pending.pop_front();
                state.running.clone_from(&next);
                state.interrupted = false;
                next
            };
            let Some(prompt) = next else {
                self.submitted.notified().await;
                continue;
            };
            *self.state().runs.entry(prompt.id.clone()).or_default() += 1;
            self.record(json!({"event": "run", "prompt_id": prompt.id, "prompt": prompt.nodes}));
            let entry = self.run(&prompt).await;
            let mut state = self.state();
            // A restart may have removed the prompt.
            let is_ours = state.running.take().is_some_and(|running| running.number == prompt.number);
            if is_ours {
                state.history.insert(prompt.id.clone(), entry);
            }
            drop(state);
            self.record(json!({"event": "ended", "prompt_id": prompt.id, "prompt": prompt.nodes}));
            self.send(&prompt, "executing", json!({"node": null}));
        }
    }

    async fn run(&self, prompt: &Submitted) -> Value {
        let mut messages = vec![json!(["execution_start", {"prompt_id": prompt.id}])];
        let mut outputs = Map::new();
        self.send(prompt, "execution_start", json!({}));
        let mut end = json!(["execution_success", {"prompt_id": prompt.id}]);
        for (id, node) in &prompt.nodes {
            if self.until_allowed().await {
                end = json!(["execution_interrupted", {"prompt_id": prompt.id, "node_id": id}]);
                self.send(prompt, "execution_interrupted", json!({"node_id": id}));
                break;
            }
            self.send(prompt, "executing", json!({"node": id}));
            for value in [1, 2] {
                self.send(prompt, "progress", json!({"value": value, "max": 2, "node": id}));
            }
            tokio::time::sleep(self.node_time).await;
            if let Some(exception) = self.exception(prompt, node) {
                let error = json!({
                    "prompt_id": prompt.id, "node_id": id, "node_type": node["class_type"],
                    "exception_type": exception, "exception_message": "it did not work",
                });
                self.send(prompt, "execution_error", error.clone());
                end = json!(["execution_error", error]);
                break;
            }
            if node["class_type"] == "SaveImage" {
                let file = json!({"filename": format!("{}_{id}.png", prompt.number), "subfolder": "", "type": "output"});
                outputs.insert(id.clone(), json!({"images": [file]}));
            }
        }
        let is_success = end[0] == "execution_success";
        if is_success {
            self.send(prompt, "execution_success", json!({}));
        }
        messages.push(end);
        let status = if is_success { "success" } else { "error" };
        json!({
            "prompt": prompt.entry(), "outputs": outputs,
            "status": {"status_str": status, "completed": is_success, "messages": messages},
        })
    }

    /// Waits until a node may run; true if the prompt was interrupted.
    async fn until_allowed(&self) -> bool {
        let mut allowed = self.allowed.subscribe();
        loop {
            if self.state().interrupted {
                return true;
            }
            let is_allowed = self.allowed.send_if_modified(|nodes| {
                let is_allowed = *nodes > 0;
                *nodes -= usize::from(is_allowed);
                is_allowed
            });
            if is_allowed {
                return false;
            }
            // As in the real engine, an interrupt is noticed only by polling.
            let _ = tokio::time::timeout(Duration::from_millis(5), allowed.changed()).await;
        }
    }

    fn exception(&self, prompt: &Submitted, node: &Value) -> Option<&'static str> {
        match node["class_type"].as_str() {
            Some("Fail") => Some("ValueError"),
            Some("OutOfMemory") if self.state().freed == 0 && prompt.has("OutOfMemory") => {
                Some("torch.OutOfMemoryError")
            }
            _ => None,
        }
    }

    fn send(&self, prompt: &Submitted, kind: &str, mut data: Value) {
        if self.is_silent.load(Ordering::SeqCst) {
            return;
        }
        data["prompt_id"] = prompt.id.as_str().into();
        let state = self.state();
        let Some(socket) = prompt.client.as_ref().and_then(|client| state.sockets.get(client)) else {
            return;
        };
        // The socket may have been closed.
        let _ = socket.send(Message::text(json!({"type": kind, "data": data}).to_string()));
    }

    /// Sends events to one client until it leaves. As in the real engine, a socket that ends removes
    /// the newer socket of the same client.
    async fn listen(&self, request: &ReceivedRequest, query: &str, mut stream: TcpStream) {
        let client = query.strip_prefix("clientId=").unwrap_or_default().to_owned();
        let Some(key) = request.header("sec-websocket-key") else { return };
        let accepted = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {}\r\n\r\n",
            derive_accept_key(key.as_bytes())
        );
        if stream.write_all(accepted.as_bytes()).await.is_err() {
            return;
        }
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        let (events, mut queued) = mpsc::unbounded_channel();
        self.state().sockets.insert(client.clone(), events);
        loop {
            tokio::select! {
                event = queued.recv() => {
                    let Some(event) = event else { break };
                    if socket.send(event).await.is_err() {
                        break;
                    }
                }
                message = socket.next() => if !matches!(message, Some(Ok(_))) {
                    break;
                },
            }
        }
        self.state().sockets.remove(&client);
    }
}
