//! An HTTP server of the test's own that keeps what it is sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let named = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }
}

/// Answers for as long as the test process lives.
pub struct Receiver {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Receiver {
    /// `answer` gives status line, further header lines and body.
    pub fn start<A>(answer: A) -> Self
    where
        A: Fn(&Seen) -> (String, String, String) + Send + Sync + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (seen.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { port, seen }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// What was sent to this path.
    pub fn seen(&self, path: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|seen| seen.path == path).cloned().collect()
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Seen>>, answer: &dyn Fn(&Seen) -> (String, String, String)) {
    let mut reader = BufReader::new(stream);
    while let Some(seen) = read(&mut reader) {
        log.lock().unwrap().push(seen.clone());
        let (status, headers, body) = answer(&seen);
        let text = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        if reader.get_mut().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let path = lines.first()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut seen = Seen { path, headers, body: String::new() };
    let mut body = vec![0; seen.header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    seen.body = String::from_utf8(body).unwrap();
    Some(seen)
}
