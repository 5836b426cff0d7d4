//! A minimal reader of Cargo manifests: their direct dependencies.
//!
//! Left out: dependencies written as one inline table for a complete section.

const SECTIONS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// One dependency of a manifest.
#[derive(Debug, PartialEq)]
pub struct Dependency {
    pub name: String,
    pub line: usize,
    /// Whether it is in this workspace.
    pub local: bool,
}

/// The direct dependencies of a manifest, of every kind.
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    let mut section = Section::Other;
    let mut depth = 0_usize;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if depth == 0 && line.starts_with('[') {
            section = Section::of(line);
            if let Section::One(name) = &section {
                found.push(Dependency { name: name.clone(), line: index + 1, local: false });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| depth == 0) else {
            depth = nesting(depth, line);
            continue;
        };
        depth = nesting(depth, line);
        match &section {
            Section::Many => found.push(Dependency {
                name: bare_name(key),
                line: index + 1,
                local: value.contains("path =") || value.contains("path="),
            }),
            Section::One(_) if key.trim() == "path" => {
                found.last_mut().expect("pushed with its header").local = true
            }
            Section::One(_) | Section::Other => {}
        }
    }
    found
}

/// The content of the lines below a header.
enum Section {
    /// A list of dependencies, one a line.
    Many,
    /// The settings of one dependency.
    One(String),
    Other,
}

impl Section {
    fn of(header: &str) -> Self {
        let header = header.trim_matches(['[', ']']);
        let (before, last) = header.rsplit_once('.').unwrap_or(("", header));
        let parent = before.rsplit('.').next().unwrap_or_default();
        if SECTIONS.contains(&last) {
            Self::Many
        } else if SECTIONS.contains(&parent) {
            Self::One(bare_name(last))
        } else {
            Self::Other
        }
    }
}

fn bare_name(key: &str) -> String {
    let key = key.split('.').next().unwrap_or_default();
    key.trim().trim_matches('"').into()
}

fn nesting(depth: usize, line: &str) -> usize {
    let opened = line.matches(['[', '{']).count();
    let closed = line.matches([']', '}']).count();
    (depth + opened).saturating_sub(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        dependencies(text).into_iter().map(|dependency| dependency.name).collect()
    }

    #[test]
    fn dependencies_of_every_kind_are_found() {
        let text = "[package]\nname = \"x\"\n[dependencies]\na = \"1\"\nb.workspace = true\n[dev-dependencies]\nc = { version = \"1\" }\n[target.'cfg(unix)'.dependencies]\nd = \"1\"\n[workspace.dependencies]\ne = \"1\"\n[build-dependencies.f]\nversion = \"1\"\n[lints]\nworkspace = true\n";
        assert_eq!(names(text), ["a", "b", "c", "d", "e", "f"]);
    }

    #[test]
    fn a_dependency_by_path_is_local() {
        let text = "[dependencies]\na = { path = \"../a\" }\nb = \"1\"\n[dependencies.c]\npath = \"../c\"\n";
        let local: Vec<bool> = dependencies(text).iter().map(|dependency| dependency.local).collect();
        assert_eq!(local, [true, false, true]);
    }

    #[test]
    fn a_value_over_several_lines_is_one_dependency() {
        let text =
            "[dependencies]\na = { version = \"1\", features = [\n  \"b\",\n  \"c\",\n] }\nd = \"1\"\n";
        assert_eq!(names(text), ["a", "d"]);
    }
}
