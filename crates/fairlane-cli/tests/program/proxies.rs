//! The files of the reverse proxies, each used by the real proxy in front of a server.
//!
//! Only names of this machine are replaced: addresses, ports and the paths of certificates.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairlane_testkit::certificates::CertificateAuthority;
use fairlane_testkit::document::root;
use fairlane_testkit::process::Process;
use fairlane_testkit::redis::free_port;
use fairlane_testkit::wait::until_blocking;
use serde_json::json;
use tempfile::TempDir;

use super::running::fairlane;
use super::served::Served;

/// The longest long poll.
const LONG_POLL: Duration = Duration::from_secs(60);

/// A server, and a proxy that terminates TLS before it.
struct Proxied {
    server: Served,
    key: String,
    proxy: Process,
    address: String,
    /// Keeps the files of the certificates.
    _authority: CertificateAuthority,
    /// The certificate of the CA that the proxy's certificate is from.
    ca_file: PathBuf,
}

/// Starts a proxy before the server at this address, with its files in the folder. Returns its
/// address and the certificate of its CA, which may be this one.
type Start = fn(&str, &Path, &CertificateAuthority) -> (Process, String, PathBuf);

impl Proxied {
    /// A server with a key behind a proxy.
    fn start(proxy: Start) -> Self {
        let folder = TempDir::new().unwrap();
        let keys = folder.path().join("keys.json").display().to_string();
        let create = ["key", "create", "--keys", &keys, "--name", "me", "--role", "admin", "--json"];
        let key = fairlane(&create).json()["key"].as_str().unwrap().to_owned();
        Self::before(Served::in_folder(folder, &["--engine", "memory:", "--keys", &keys]), key, proxy)
    }

    fn before(server: Served, key: String, proxy: Start) -> Self {
        let authority = CertificateAuthority::new();
        let host = server.address.trim_start_matches("http://");
        let (proxy, address, ca_file) = proxy(host, server.folder.path(), &authority);
        let mut proxied = Self { server, key, proxy, address, _authority: authority, ca_file };
        until_blocking("the proxy answers", || {
            assert_eq!(proxied.proxy.try_wait().unwrap(), None, "{}", proxied.log());
            proxied.status("/healthz") != "000"
        });
        proxied
    }

    /// The status of the response to a request, `000` without one.
    fn status(&self, path: &str) -> String {
        let output = self.curl(&[path, "--output", "/dev/null", "--write-out", "%{http_code}"]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    fn log(&self) -> String {
        self.server.read("proxy.log")
    }

    /// A request through the proxy; the first argument is the path.
    fn curl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--no-buffer", "--fail-with-body", "--max-time", "60", "--cacert"])
            .arg(&self.ca_file);
        command.args(["--header", &format!("authorization: Bearer {}", self.key)]);
        command.arg(format!("{}{}", self.address, arguments[0])).args(&arguments[1..]);
        command
    }

    /// The response to a request that succeeds.
    fn get(&self, arguments: &[&str]) -> String {
        let output = self.curl(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}: {text}{}", self.log());
        text
    }

    /// A request that goes on, with its response in a file of the folder.
    fn begin(&self, name: &str, arguments: &[&str]) -> Process {
        let response = File::create(self.server.path(name)).unwrap();
        Process::start(self.curl(arguments).stdin(Stdio::piped()).stdout(response))
    }

    fn enqueue(&self, id: &str) {
        let job = format!(r#"{{"group": "a", "type": "mail", "id": "{id}", "payload": 1}}"#);
        self.get(&["/api/jobs", "--json", &job]);
    }

    /// Begins to wait for a job, and returns once the server has the request.
    fn begin_long_poll(&self, name: &str) -> Process {
        let lease = json!({ "worker": "w", "types": ["mail"], "count": 1, "lease_ms": 30000,
            "wait_ms": LONG_POLL.as_millis() });
        let poll = self.begin(name, &["/api/leases", "--json", &lease.to_string()]);
        self.until_held_requests(1);
        poll
    }

    /// Waits until the server has this many long polls, streams and uploads in progress.
    fn until_held_requests(&self, count: u32) {
        let line = format!("fairlane_http_held_requests {count}");
        until_blocking(&line, || self.get(&["/metrics"]).lines().any(|shown| shown == line));
    }
}

fn file(name: &str) -> String {
    std::fs::read_to_string(root().join("deploy/proxy").join(name)).unwrap()
}

fn replaced(text: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from} is not in the file");
        text.replace(from, to)
    })
}

fn logged(command: &mut Command, folder: &Path) -> Process {
    let log = File::create(folder.join("proxy.log")).unwrap();
    Process::start(command.stdout(Stdio::null()).stderr(log))
}

fn nginx(server: &str, folder: &Path, authority: &CertificateAuthority) -> (Process, String, PathBuf) {
    let ((certificate, key), port) = (authority.issue("nginx"), free_port());
    let site = replaced(
        &file("nginx.conf"),
        &[
            ("127.0.0.1:8080", server),
            ("443 ssl", &format!("127.0.0.1:{port} ssl")),
            ("/etc/letsencrypt/live/queue.example.com/fullchain.pem", &certificate.display().to_string()),
            ("/etc/letsencrypt/live/queue.example.com/privkey.pem", &key.display().to_string()),
        ],
    );
    let paths =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {name};"));
    // Its workers use the folder of the user that runs the test.
    let user = match rustix::process::geteuid().is_root() {
        true => "user root;",
        false => "",
    };
    let all = format!(
        "{user} daemon off; worker_processes 1; pid nginx.pid; error_log stderr;
        events {{}} http {{ access_log off; {} {site} }}",
        paths.concat()
    );
    std::fs::write(folder.join("nginx.conf"), all).unwrap();
    let mut command = Command::new("nginx");
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap());
    command.env("PATH", path).arg("-p").arg(folder).args(["-e", "stderr", "-c", "nginx.conf"]);
    let process = logged(&mut command, folder);
    (process, format!("https://localhost:{port}"), authority.file())
}

fn caddy(server: &str, folder: &Path, _: &CertificateAuthority) -> (Process, String, PathBuf) {
    let (_, server_port) = server.rsplit_once(':').unwrap();
    let site = replaced(
        &file("Caddyfile"),
        &[("dynamic a fairlane 8080", &format!("dynamic a localhost {server_port}"))],
    );
    // For localhost, Caddy issues certificates itself. It changes nothing on this machine.
    let options = format!(
        "{{\n admin off\n auto_https disable_redirects\n skip_install_trust\n storage file_system {}\n}}\n",
        folder.join("caddy").display()
    );
    std::fs::write(folder.join("Caddyfile"), options + &site).unwrap();
    let address = format!("https://localhost:{}", free_port());
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(folder.join("Caddyfile"));
    let process = logged(command.env("HOME", folder).env("FAIRLANE_HOST", &address), folder);
    (process, address, folder.join("caddy/pki/authorities/local/root.crt"))
}

#[test]
fn waits_events_and_uploads_pass_through_each_proxy_at_once() {
    for proxy in [nginx as Start, caddy] {
        let proxied = Proxied::start(proxy);

        let mut poll = proxied.begin_long_poll("poll");
        proxied.enqueue("1");
        assert!(poll.wait().unwrap().success(), "{}", proxied.log());
        assert!(proxied.server.read("poll").contains(r#""id":"1""#));

        // The response has no end while the job runs: a proxy that collects it shows nothing.
        let _events = proxied.begin("events", &["/api/jobs/a/1/events"]);
        until_blocking("the state of the job arrives", || {
            proxied.server.read("events").contains(r#""state":"in_flight""#)
        });

        // The request has no end either.
        let lines_follow = "content-type: application/x-ndjson";
        let stream = "/api/jobs/stream?group=b&type=later";
        let stream = [stream, "--request", "POST", "--header", lines_follow, "--upload-file", "."];
        let mut upload = proxied.begin("upload", &stream);
        let mut lines = upload.stdin.take().unwrap();
        writeln!(lines, r#"{{"id": "first", "payload": 1}}"#).unwrap();
        lines.flush().unwrap();
        until_blocking("the first line of the upload is a job", || {
            proxied.curl(&["/api/jobs/b/first"]).output().unwrap().status.success()
        });
        writeln!(lines, r#"{{"id": "last", "payload": 2}}"#).unwrap();
        drop(lines);
        assert!(upload.wait().unwrap().success(), "{}", proxied.log());
        let receipt = proxied.server.read("upload");
        assert!(receipt.contains(r#""created":2"#), "{receipt}");
    }
}

#[test]
fn a_client_that_is_gone_gets_no_jobs_through_any_proxy() {
    for proxy in [nginx as Start, caddy] {
        let proxied = Proxied::start(proxy);
        let begun = Instant::now();
        proxied.begin_long_poll("poll").kill();
        proxied.until_held_requests(0);
        assert!(begun.elapsed() < LONG_POLL, "it ended only at its own timeout");
        proxied.enqueue("1");
        let job = proxied.get(&["/api/jobs/a/1"]);
        assert!(job.contains(r#""state":"pending""#), "{job}");
    }
}

#[test]
fn the_cookie_of_the_dashboard_is_sent_over_tls_only_behind_each_proxy() {
    for proxy in [nginx as Start, caddy] {
        let proxied = Proxied::start(proxy);
        let origin = format!("origin: {}", proxied.address);
        let key = format!("key={}", proxied.key);
        let response =
            proxied.get(&["/sign-in", "--include", "--header", &origin, "--data", &key]).to_lowercase();
        let cookie = response.lines().find(|line| line.starts_with("set-cookie: "));
        assert!(cookie.is_some_and(|cookie| cookie.contains("; secure")), "{response}");
    }
}

#[test]
fn a_server_without_keys_refuses_what_a_proxy_sends() {
    for proxy in [nginx as Start, caddy] {
        let proxied = Proxied::before(Served::start(), String::new(), proxy);
        assert_eq!(proxied.status("/api/status"), "403", "{}", proxied.log());
    }
}
