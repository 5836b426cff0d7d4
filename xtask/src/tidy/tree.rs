//! The files of the project, read once: what version control tracks and what it would track next.
//!
//! Paths are relative to the root and use `/`. A file that is not text is present with no lines.
//! Without version control the folders are listed instead, except its own folder and build output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const SKIPPED_FOLDERS: [&str; 2] = [".git", "target"];

/// Every file of the project with its text.
pub struct Tree {
    root: Option<PathBuf>,
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the tree below `root`.
    pub fn read(root: &Path) -> Result<Self, String> {
        let paths = match tracked(root) {
            Some(paths) => paths,
            None => listed(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            // A tracked file may be deleted and not yet committed as such.
            if let Ok(bytes) = std::fs::read(root.join(&path)) {
                files.insert(path, String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(Self { root: Some(root.to_path_buf()), files })
    }

    /// A tree that exists only in a test.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let owned = files.iter().map(|(path, text)| (path.to_string(), text.to_string()));
        Self { root: None, files: owned.collect() }
    }

    /// The root folder of the tree, unless it exists only in a test.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Every path, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Every path with its text, in order.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends with `ending`.
    pub fn ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| path.ends_with(ending))
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or folder of that path exists.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty() || self.files.contains_key(path) || self.paths().any(|file| file.starts_with(&folder))
    }

    /// The stems of the files with `ending` that lie directly in `folder`.
    pub fn stems<'a>(&'a self, folder: &str, ending: &str) -> Vec<&'a str> {
        let stem = |path: &'a str| path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(ending);
        self.paths().filter_map(stem).filter(|stem| !stem.contains('/')).collect()
    }
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.split_terminator('\0').map(String::from).collect())
}

fn listed(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let unreadable = |error| format!("{} could not be read: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_name().unwrap_or_default();
            if path.is_file() {
                let relative = path.strip_prefix(root).expect("every listed file is below the root");
                paths.push(relative.to_string_lossy().into());
            } else if path.is_dir() && !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_folders_and_version_control_both_find_this_file() {
        let root = crate::workspace_root().unwrap();
        let this = String::from("xtask/src/tidy/tree.rs");
        assert!(listed(&root).unwrap().contains(&this));
        assert!(tracked(&root).is_none_or(|paths| paths.contains(&this)));
    }

    #[test]
    fn a_folder_exists_when_a_file_lies_in_it() {
        let tree = Tree::of(&[("docs/guide.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/") && tree.has("docs/guide.md"));
        assert!(!tree.has("doc") && !tree.has("docs/guide"));
    }

    #[test]
    fn stems_are_of_the_files_directly_in_the_folder() {
        let tree = Tree::of(&[
            ("scripts/lease.lua", ""),
            ("scripts/include/gate.lua", ""),
            ("scripts/notes.md", ""),
        ]);
        assert_eq!(tree.stems("scripts", ".lua"), ["lease"]);
    }
}
