//! A real Chromium for tests of pages, driven through WebDriver.
//!
//! Each [`Browser`] is a `chromedriver` and a Chromium of its own, with an empty profile and without
//! background requests. Settings that WebDriver does not have (colour scheme, disabled scripts, the
//! size of the viewport) are sent as commands of the DevTools protocol.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::process::Process;
use crate::wait::eventually;

/// The width and height of a desktop window.
pub const DESKTOP: (u32, u32) = (1280, 800);
/// The width and height of a phone.
pub const PHONE: (u32, u32) = (390, 844);

/// A browser with one window; it ends when dropped.
pub struct Browser {
    client: Client,
    driver_address: SocketAddr,
    session: String,
    _driver: Process,
    _folder: TempDir,
}

impl Browser {
    /// Starts a browser with a window of the size [`DESKTOP`].
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (driver, driver_address) = start_driver(&folder).await;
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities(&folder));
        let client = builder.connect(&format!("http://{driver_address}/")).await;
        let client = client.expect("chromium starts: apt-get install chromium");
        let session = client.session_id().await.ok().flatten().expect("a connected client has a session");
        let browser = Self { client, driver_address, session, _driver: driver, _folder: folder };
        browser.resize(DESKTOP).await;
        browser
    }

    /// The WebDriver client, for elements, cookies and scripts.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Opens an address, and waits until the page is loaded.
    pub async fn open(&self, address: &str) {
        self.client.goto(address).await.unwrap_or_else(|error| panic!("{address}: {error}"));
    }

    /// The visible text of the page. A page that is being replaced has no body for a moment.
    pub async fn text(&self) -> String {
        eventually(async || self.client.find(Locator::Css("body")).await?.text().await).await
    }

    /// Waits until the visible text of the page contains these words.
    pub async fn until_text(&self, words: &str) {
        eventually(async || {
            let text = self.text().await;
            if text.contains(words) { Ok(()) } else { Err(format!("{words:?} is not in: {text}")) }
        })
        .await;
    }

    /// Sets the size of the page's viewport, such as [`PHONE`].
    pub async fn resize(&self, (width, height): (u32, u32)) {
        let mobile = width < 600;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Prefers the dark colour scheme, or the light one.
    pub async fn prefer_dark(&self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// Disables the scripts of pages that are opened from now on.
    pub async fn disable_scripts(&self) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    }

    /// Writes a picture of the full page to `target/screenshots/<name>.png`, and returns its path.
    pub async fn screenshot(&self, name: &str) -> PathBuf {
        let options = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.devtools("Page.captureScreenshot", options).await;
        let data = picture["data"].as_str().expect("a screenshot has data");
        let folder = target_folder().join("screenshots");
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        let path = folder.join(format!("{name}.png"));
        let bytes = STANDARD.decode(data).expect("a screenshot is Base64");
        std::fs::write(&path, bytes).expect("the target folder can be written");
        path
    }

    /// Asserts that axe-core finds no violation of WCAG 2.2 level AA on the page, and that the page
    /// is not wider than its viewport.
    pub async fn assert_accessible(&self) {
        let run = "const done = arguments[arguments.length - 1];
             axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
                .then(found => done(found.violations.map(v =>
                    v.id + ': ' + v.help + ' at ' + v.nodes.map(n => n.target.join(' ')).join(', '))),
                  error => done(['axe-core failed: ' + error]));";
        let script = format!("{}\n{run}", axe_core());
        let found = self.client.execute_async(&script, Vec::new()).await.expect("axe-core runs");
        assert_eq!(found, json!([]), "accessibility of {:?}", self.client.current_url().await);
        let wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        let excess = self.client.execute(wider, Vec::new()).await.expect("a page has a width");
        assert_eq!(excess, json!(0), "pixels that the page is wider than its viewport");
    }

    /// Asserts that the console has no errors, such as violations of the content security policy.
    /// Clears the log.
    pub async fn assert_no_errors(&self) {
        let entries = self.client.issue_cmd(Extension::log()).await.expect("the log can be read");
        let entries = entries.as_array().cloned().unwrap_or_default();
        let errors: Vec<_> = entries.iter().filter(|entry| entry["level"] == "SEVERE").collect();
        assert!(errors.is_empty(), "the console has {errors:?}");
    }

    /// Sends a command of the DevTools protocol.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Value {
        let extension = Extension::devtools(command, parameters);
        self.client.issue_cmd(extension).await.unwrap_or_else(|error| panic!("{command}: {error}"))
    }
}

impl Drop for Browser {
    /// Ends the session, and with it Chromium: a chromedriver that is killed leaves it behind. It
    /// does not use the client, whose runtime may have ended.
    fn drop(&mut self) {
        let Ok(mut stream) = TcpStream::connect(self.driver_address) else { return };
        let request = format!(
            "DELETE /session/{} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.session, self.driver_address
        );
        let _ = stream.write_all(request.as_bytes());
        // The response comes when Chromium has ended; chromedriver keeps the connection open.
        let _ = stream.read(&mut [0; 64]);
    }
}

/// A command of chromedriver beyond the WebDriver standard.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl Extension {
    fn devtools(command: &str, parameters: Value) -> Self {
        Self { path: "goog/cdp/execute", body: json!({"cmd": command, "params": parameters}) }
    }

    fn log() -> Self {
        Self { path: "se/log", body: json!({"type": "browser"}) }
    }
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

/// Starts chromedriver on a free port, which it prints.
async fn start_driver(folder: &TempDir) -> (Process, SocketAddr) {
    let output = folder.path().join("chromedriver");
    let launch = || {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(File::create(&output).expect("a temporary folder can be written"));
        Process::start(&mut command)
    };
    let mut driver = launch();
    let port = eventually(async || {
        let text = std::fs::read_to_string(&output).expect("the file was created");
        // It chooses a port that is free for IPv6, and exits if another process has it for IPv4.
        if text.contains("port not available") {
            driver = launch();
        }
        let port = text.rsplit_once("on port ").and_then(|(_, rest)| rest.trim().strip_suffix('.'));
        port.and_then(|port| port.parse::<u16>().ok()).ok_or(text)
    })
    .await;
    (driver, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

fn capabilities(folder: &TempDir) -> Map<String, Value> {
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        &profile,
    ];
    let capabilities = json!({
        "goog:chromeOptions": {"args": arguments},
        "goog:loggingPrefs": {"browser": "ALL"},
    });
    capabilities.as_object().cloned().unwrap_or_default()
}

/// The source of axe-core, which npm installs once under the target folder.
fn axe_core() -> String {
    let folder = target_folder().join("axe-core");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    let lock = File::create(folder.join("lock")).expect("the target folder can be written");
    // Tests run in several processes; the first one installs.
    lock.lock().expect("the file can be locked");
    let source = folder.join("node_modules/axe-core/axe.min.js");
    if !source.exists() {
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(manifests.join(name), folder.join(name)).expect("the manifest is copied");
        }
        let mut npm = Command::new("npm");
        let output = npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(&folder).output();
        let output = output.expect("npm is needed: apt-get install npm");
        assert!(output.status.success(), "npm ci: {}", String::from_utf8_lossy(&output.stderr));
    }
    std::fs::read_to_string(&source).expect("npm has installed axe-core")
}

/// The folder of build results, which contains the running test.
fn target_folder() -> PathBuf {
    let program = std::env::current_exe().expect("a test is a program");
    let target = program.ancestors().find(|path| path.ends_with("target"));
    target.map_or_else(|| PathBuf::from("target"), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver::Receiver;

    /// A server with one page.
    fn serve(page: &str) -> Receiver {
        let policy = "content-security-policy: default-src 'none'; style-src 'self'";
        let head = format!("content-type: text/html\r\n{policy}\r\ncontent-length: {}", page.len());
        Receiver::responding(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{page}"))
    }

    const PAGE: &str = "<!doctype html><html lang=en><title>Page</title><main><h1>Hello</h1></main>";

    #[tokio::test]
    async fn a_page_is_opened_checked_and_photographed() {
        let server = serve(PAGE);
        let browser = Browser::start().await;
        browser.open(&server.url("/")).await;
        browser.until_text("Hello").await;
        browser.prefer_dark(true).await;
        let dark = "return matchMedia('(prefers-color-scheme: dark)').matches && innerWidth";
        assert_eq!(browser.client().execute(dark, Vec::new()).await.unwrap(), json!(1280));
        browser.assert_accessible().await;
        let picture = browser.screenshot("testkit").await;
        assert!(std::fs::read(picture).unwrap().starts_with(b"\x89PNG"));
    }

    #[tokio::test]
    #[should_panic(expected = "image-alt")]
    async fn a_violation_is_reported() {
        let server = serve("<!doctype html><html lang=en><title>Page</title><img src=/x>");
        let browser = Browser::start().await;
        browser.open(&server.url("/")).await;
        browser.assert_accessible().await;
    }

    #[tokio::test]
    #[should_panic(expected = "Content Security Policy")]
    async fn a_violation_of_the_policy_is_reported() {
        let server = serve("<!doctype html><html lang=en><title>Page</title><script>1</script>");
        let browser = Browser::start().await;
        browser.open(&server.url("/")).await;
        browser.assert_no_errors().await;
    }

    #[tokio::test]
    async fn scripts_can_be_disabled() {
        let page = "<!doctype html><html lang=en><title>Page</title><p>plain";
        let script = "<script>document.write('scripted')</script>";
        let body = format!("{page}{script}");
        let head = format!("content-type: text/html\r\ncontent-length: {}", body.len());
        let server = Receiver::responding(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
        let browser = Browser::start().await;
        browser.open(&server.url("/")).await;
        browser.until_text("scripted").await;
        browser.disable_scripts().await;
        browser.open(&server.url("/")).await;
        assert_eq!(browser.text().await, "plain");
    }
}
