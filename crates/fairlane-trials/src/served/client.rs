//! A client that costs little: requests are prepared bytes, and responses are read only as far as
//! needed.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The size of each payload, in bytes.
pub const PAYLOAD_BYTES: usize = 200;
/// The number of groups that the jobs belong to, in turns.
pub const GROUPS: u64 = 100;
/// Placeholder for an id until the number of the job is known.
const ID: &[u8; 16] = b"################";
/// Placeholder for the end of a group's name until its number is known.
const GROUP: &[u8; 3] = b"@@@";

/// A connection that is kept alive.
pub struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
}

/// A response.
pub struct Response<'a> {
    pub status: u16,
    pub body: &'a [u8],
    /// The server closes the connection.
    pub is_last: bool,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        Self::over(TcpStream::connect(address).await?)
    }

    /// Opens a connection from this address of the machine.
    pub async fn open_from(source: IpAddr, address: SocketAddr) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        Self::over(socket.connect(address).await?)
    }

    fn over(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: Vec::with_capacity(512) })
    }

    /// Sends a request and reads the response.
    pub async fn round_trip(&mut self, request: &[u8]) -> Result<Response<'_>> {
        self.send(request).await?;
        self.read_response().await
    }

    pub async fn send(&mut self, request: &[u8]) -> Result<()> {
        self.input.clear();
        self.stream.write_all(request).await
    }

    /// Reads a response that has a content length.
    pub async fn read_response(&mut self) -> Result<Response<'_>> {
        let head_end = loop {
            if let Some(at) = find(&self.input, b"\r\n\r\n") {
                break at + 4;
            }
            self.read().await?;
        };
        let head = &self.input[..head_end];
        let length = number_after(head, b"content-length: ").unwrap_or(0) as usize;
        let status = number_after(head, b"HTTP/1.1 ").unwrap_or(0) as u16;
        let is_last = find(head, b"connection: close").is_some();
        while self.input.len() < head_end + length {
            self.read().await?;
        }
        Ok(Response { status, body: &self.input[head_end..head_end + length], is_last })
    }

    /// Reads until these bytes have arrived, and drops everything read so far.
    pub async fn until(&mut self, mark: &[u8]) -> Result<()> {
        while find(&self.input, mark).is_none() {
            self.read().await?;
        }
        self.input.clear();
        Ok(())
    }

    /// Closes the connection at once, with all data in transit.
    pub fn reset(self) -> Result<()> {
        self.stream.set_zero_linger()
    }

    async fn read(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(Error::new(ErrorKind::UnexpectedEof, "the server has closed the connection")),
            _ => Ok(()),
        }
    }
}

/// The position of `wanted` in `text`.
pub fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// The number after a mark.
pub fn number_after(text: &[u8], mark: &[u8]) -> Option<u64> {
    let digits = &text[find(text, mark)? + mark.len()..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, key: Option<&str>, body: &[u8]) -> Vec<u8> {
    let key = key.map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{key}content-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A request that adds jobs: only the bytes of ids and groups change.
pub struct AddRequest {
    bytes: Vec<u8>,
    ids: Vec<usize>,
    groups: Vec<usize>,
}

impl AddRequest {
    /// A request with one job to this path.
    pub fn one(path: &str, key: Option<&str>) -> Self {
        Self::new(request("POST", path, key, &job()))
    }

    /// A request with this many jobs.
    pub fn batch(jobs: u64, key: Option<&str>) -> Self {
        let list = vec![job(); jobs as usize].join(&b","[..]);
        Self::new(request("POST", "/api/jobs/batch", key, &[b"{\"jobs\":[", &list[..], b"]}"].concat()))
    }

    fn new(bytes: Vec<u8>) -> Self {
        let positions = |mark: &[u8]| {
            let windows = bytes.windows(mark.len()).enumerate();
            windows.filter(|(_, window)| *window == mark).map(|(at, _)| at).collect()
        };
        Self { ids: positions(ID), groups: positions(GROUP), bytes }
    }

    /// The request with this number, which determines its ids; no number may be used twice.
    pub fn numbered(&mut self, number: u64) -> &[u8] {
        let jobs = self.ids.len() as u64;
        let group = format!("{:03}", number % GROUPS);
        for at in &self.groups {
            self.bytes[*at..*at + GROUP.len()].copy_from_slice(group.as_bytes());
        }
        for (index, at) in self.ids.iter().enumerate() {
            let id = number * jobs + index as u64;
            for digit in 0..ID.len() {
                let shift = 4 * (ID.len() - 1 - digit);
                self.bytes[at + digit] = b"0123456789abcdef"[(id >> shift & 0xf) as usize];
            }
        }
        &self.bytes
    }
}

/// A typical payload of an application.
pub fn payload() -> Vec<u8> {
    let mut payload =
        br#"{"to":"customer@example.com","template":"receipt","order":48151623,"total":42.5,"lines":[1,2,3],"text":""#
            .to_vec();
    payload.resize(PAYLOAD_BYTES - 2, b'x');
    payload.extend_from_slice(b"\"}");
    payload
}

fn job() -> Vec<u8> {
    let (id, payload) = (String::from_utf8_lossy(ID), payload());
    let payload = String::from_utf8_lossy(&payload);
    format!(r#"{{"group":"group-000@@@","id":"{id}","type":"bench","payload":{payload}}}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_changes_only_in_its_ids_and_groups() {
        let mut adding = AddRequest::batch(2, None);
        let text = String::from_utf8(adding.numbered(207).to_vec()).unwrap();
        assert_eq!(text.matches("group-000007").count(), 2);
        assert!(text.contains("\"000000000000019e\"") && text.contains("\"000000000000019f\""), "{text}");
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(number_after(text.as_bytes(), b"content-length: "), Some(body.len() as u64));
        let read: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(read["jobs"][0]["payload"]["template"], "receipt");
        assert_eq!(payload().len(), PAYLOAD_BYTES);
    }
}
