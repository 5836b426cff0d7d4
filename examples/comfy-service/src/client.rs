//! A small HTTP client for trials and tests: one request on one connection.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The line between the parts of a form.
const BOUNDARY: &str = "comfy-service-form-of-a-test";

/// A response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The status line and the headers, in lower case.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Response {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Sends a request and reads the response until the server closes the connection.
pub async fn send(
    server: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let mut stream = TcpStream::connect(server).await?;
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    // A server that refuses a large body answers before it has read all of it.
    let written = stream.write_all(body).await;
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes).await
        && bytes.is_empty()
    {
        return Err(error);
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    if status < 400 {
        written?;
    }
    Ok(Response { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}

/// A part of a form.
pub enum Part<'a> {
    /// A text with its name.
    Text(&'a str, &'a str),
    /// A file with its name in the form, and its content.
    File(&'a str, &'a [u8]),
}

/// Sends a form to `POST /jobs/file`.
pub async fn submit(server: SocketAddr, key: Option<&str>, parts: &[Part<'_>]) -> io::Result<Response> {
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let mut headers = vec![("content-type", content_type.as_str())];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    let mut body = Vec::new();
    for part in parts {
        let (head, content) = match part {
            Part::Text(name, text) => (format!("name=\"{name}\"\r\n\r\n"), text.as_bytes()),
            Part::File(name, content) => {
                let head = format!("name=\"{name}\"; filename=\"a.png\"\r\ncontent-type: image/png\r\n\r\n");
                (head, *content)
            }
        };
        body.extend_from_slice(format!("--{BOUNDARY}\r\ncontent-disposition: form-data; {head}").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    send(server, "POST", "/jobs/file", &headers, &body).await
}
