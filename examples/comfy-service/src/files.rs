//! Uploaded files, stored under the hash of their content.
//!
//! Invariant: a file is complete and on the disk before it has its name, and never changes after
//! that. So a job that was committed has its files, and the same upload twice is one file. Workers
//! check the hash before they use a file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

/// How long the rest of an interrupted upload is kept.
const INTERRUPTED_KEPT: Duration = Duration::from_secs(3600);
/// Bytes by which a type is recognised.
const HEAD_BYTES: usize = 12;

/// A directory of files.
#[derive(Debug, Clone)]
pub struct Files {
    root: PathBuf,
}

/// A file that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
    /// Its media type, recognised by its first bytes.
    pub content_type: &'static str,
}

impl StoredFile {
    /// Its name on an engine.
    pub fn engine_name(&self) -> String {
        let extension = match self.content_type {
            "image/png" => "png",
            "image/jpeg" => "jpg",
            "image/webp" => "webp",
            _ => "bin",
        };
        format!("{}.{extension}", self.sha256)
    }
}

/// A file that is being received; one that is dropped leaves nothing.
pub struct Incoming {
    file: NamedTempFile,
    hash: Sha256,
    head: Vec<u8>,
    bytes: u64,
}

impl Files {
    /// Uses a directory, which is made if it is missing, and clears away what interrupted uploads left.
    pub fn open(root: &Path) -> io::Result<Self> {
        let files = Self { root: std::path::absolute(root)? };
        std::fs::create_dir_all(files.incoming())?;
        for entry in std::fs::read_dir(files.incoming())?.flatten() {
            let modified = entry.metadata().and_then(|data| data.modified());
            let age = modified.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
            if age.is_ok_and(|age| age > INTERRUPTED_KEPT) {
                // Another process may have removed it.
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(files)
    }

    fn incoming(&self) -> PathBuf {
        self.root.join("incoming")
    }

    /// The path of a file.
    pub fn path(&self, sha256: &str) -> PathBuf {
        self.root.join(sha256.get(..2).unwrap_or("__")).join(sha256)
    }

    /// Begins to receive a file.
    pub fn receive(&self) -> io::Result<Incoming> {
        let file = NamedTempFile::new_in(self.incoming())?;
        Ok(Incoming { file, hash: Sha256::new(), head: Vec::new(), bytes: 0 })
    }

    /// Gives a received file its name.
    pub fn store(&self, incoming: Incoming) -> io::Result<StoredFile> {
        let Incoming { file, hash, head, bytes } = incoming;
        let sha256: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.path(&sha256);
        if !path.exists() {
            let directory = path.parent().unwrap_or(&self.root);
            std::fs::create_dir_all(directory)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            std::fs::File::open(directory)?.sync_all()?;
            std::fs::File::open(&self.root)?.sync_all()?;
        }
        Ok(StoredFile { sha256, bytes, content_type: recognise(&head) })
    }

    /// The content of a file; an error if it is not what its name says.
    pub fn read(&self, sha256: &str) -> io::Result<Vec<u8>> {
        let bytes = std::fs::read(self.path(sha256))?;
        let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if found != sha256 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its content has changed"));
        }
        Ok(bytes)
    }
}

impl Incoming {
    /// Appends to the file; returns its length so far.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let missing = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.hash.update(bytes);
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(self.bytes)
    }
}

/// The media type of a file, by its first bytes: what its sender claims decides nothing.
fn recognise(head: &[u8]) -> &'static str {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P'] => "image/webp",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_its_name_when_it_is_complete_and_is_checked_when_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::open(folder.path()).unwrap();
        let mut incoming = files.receive().unwrap();
        incoming.write(b"\x89PNG\r").unwrap();
        assert_eq!(incoming.write(b"\n\x1a\nrest").unwrap(), 12);
        let stored = files.store(incoming).unwrap();
        assert_eq!((stored.bytes, stored.content_type), (12, "image/png"));
        assert_eq!(files.read(&stored.sha256).unwrap(), b"\x89PNG\r\n\x1a\nrest");
        drop(files.receive().unwrap());
        assert_eq!(std::fs::read_dir(files.incoming()).unwrap().count(), 0, "nothing is left behind");
        std::fs::write(files.path(&stored.sha256), "other").unwrap();
        assert!(files.read(&stored.sha256).unwrap_err().to_string().contains("changed"));
    }

    #[test]
    fn the_first_bytes_decide_the_type() {
        assert_eq!(recognise(b"\xff\xd8\xff\xe0"), "image/jpeg");
        assert_eq!(recognise(b"RIFF\0\0\0\0WEBP"), "image/webp");
        assert_eq!(recognise(b"<svg>"), "application/octet-stream");
        assert_eq!(recognise(b""), "application/octet-stream");
    }
}
