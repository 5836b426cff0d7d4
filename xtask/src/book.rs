//! The documentation as a site: pages in the order of `docs/SUMMARY.md`, with a search that needs no
//! network.
//!
//! Pages link to files outside of `docs`, which mdBook does not follow. So the pages and every file
//! that they link to are copied, at their own paths, and mdBook reads the copy.

use crate::tidy::{markdown, tree::Tree};
use crate::{Outcome, expect_no_arguments, shell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Help of `cargo xtask book`.
pub const HELP: &str = "\
Usage: cargo xtask book

Builds the documentation into target/book with mdBook, and checks every link of the result. Open
target/book/index.html; it needs no server and no network. Without mdBook it says how to install it.
";

const SUMMARY: &str = "docs/SUMMARY.md";

/// Builds the site, and checks it.
pub fn run(root: &Path, arguments: &[String]) -> Outcome {
    expect_no_arguments("book", arguments)?;
    if shell::find("mdbook").is_none() {
        return Err("mdbook is missing; `cargo install mdbook --locked` brings it".into());
    }
    build(root)
}

/// As [`run`]; where mdBook is missing, only the copy for it is made.
pub fn check(root: &Path) -> Outcome {
    if shell::find("mdbook").is_some() {
        return build(root);
    }
    println!("the site is not built: mdbook is missing; `cargo install mdbook --locked` brings it");
    stage(root, &shell::target_folder(root).join("book-source"))
}

fn build(root: &Path) -> Outcome {
    let target = shell::target_folder(root);
    let (source, site) = (target.join("book-source"), target.join("book"));
    stage(root, &source)?;
    let mut mdbook = shell::program_at(root, "mdbook");
    shell::run(mdbook.arg("build").arg(&source).arg("--dest-dir").arg(&site))?;
    let broken = broken_links(&site)?;
    if broken.is_empty() {
        println!("the site is {}", site.join("index.html").display());
        return Ok(());
    }
    Err(format!("the site has broken links:\n  {}", broken.join("\n  ")))
}

/// Copies the files that the site consists of.
fn stage(root: &Path, source: &Path) -> Outcome {
    let tree = Tree::read(root)?;
    // Files that an earlier run copied may no longer exist in the tree.
    if source.exists() {
        std::fs::remove_dir_all(source).map_err(|error| format!("{}: {error}", source.display()))?;
    }
    for path in staged(&tree)? {
        let to = source.join(&path);
        let folder = to.parent().expect("a staged path has a folder");
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::copy(root.join(&path), &to))
            .map_err(|error| format!("{path} cannot be copied to {}: {error}", to.display()))?;
    }
    let summary = source.join("SUMMARY.md");
    std::fs::write(&summary, summary_at_root(&tree)?)
        .map_err(|error| format!("{}: {error}", summary.display()))
}

/// The pages of the summary and the files that they link to.
fn staged(tree: &Tree) -> Result<BTreeSet<String>, String> {
    let summary = tree.text(SUMMARY).ok_or("docs/SUMMARY.md is missing")?;
    let pages: BTreeSet<String> = linked(SUMMARY, summary).collect();
    let mut staged: BTreeSet<String> = pages.iter().cloned().chain(["book.toml".into()]).collect();
    for page in &pages {
        let text = tree.text(page).ok_or_else(|| format!("{SUMMARY} lists {page}, which is missing"))?;
        for target in linked(page, text) {
            if target.ends_with(".md") && !pages.contains(&target) {
                return Err(format!("{page} links to {target}, which {SUMMARY} does not list"));
            }
            let folder = format!("{}/", target.trim_end_matches('/'));
            let files = tree.paths().filter(|path| *path == target || path.starts_with(&folder));
            staged.extend(files.map(String::from));
        }
    }
    Ok(staged)
}

fn linked<'a>(page: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    markdown::links(text).into_iter().filter_map(|link| markdown::linked_path(page, &link.target))
}

/// The summary with the paths that pages have below the root.
fn summary_at_root(tree: &Tree) -> Result<String, String> {
    let text = tree.text(SUMMARY).ok_or("docs/SUMMARY.md is missing")?;
    let line = |line: &str| match line
        .split_once("](")
        .and_then(|(start, rest)| Some((start, markdown::linked_path(SUMMARY, rest.strip_suffix(')')?)?)))
    {
        Some((start, path)) => format!("{start}]({path})\n"),
        None => format!("{line}\n"),
    };
    Ok(text.lines().map(line).collect())
}

/// Links and resources of the site that do not exist, or that need a network.
fn broken_links(site: &Path) -> Result<Vec<String>, String> {
    let mut broken = Vec::new();
    let mut folders = vec![site.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let unreadable = |error| format!("{} cannot be read: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                let text = std::fs::read_to_string(&path).map_err(unreadable)?;
                broken.extend(broken_in(&path, &text));
            }
        }
    }
    Ok(broken)
}

/// The page for missing paths. It is served at any path, so its links are absolute.
const NOT_FOUND: &str = "404.html";

fn broken_in(page: &Path, html: &str) -> Vec<String> {
    let folder = page.parent().expect("a page has a folder");
    let values = |attribute| html.split(attribute).skip(1).filter_map(|rest: &str| rest.split('"').next());
    let is_gone = |target: &&str| {
        let path: PathBuf = folder.join(target.split(['#', '?']).next().unwrap_or_default());
        !target.contains(':') && !target.starts_with('#') && !path.exists()
    };
    let gone = values(" href=\"").chain(values(" src=\"")).filter(is_gone);
    let remote = values(" src=\"").filter(|target| target.starts_with("http"));
    if page.ends_with(NOT_FOUND) {
        return Vec::new();
    }
    gone.chain(remote).map(|target| format!("{}: {target}", page.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 5] = [
        (SUMMARY, "[Start](../README.md)\n\n- [A](a.md)\n"),
        ("README.md", "[a](docs/a.md) ![p](docs/p.svg)\n"),
        ("docs/a.md", "[files](../deploy)\n"),
        ("deploy/x.yaml", ""),
        ("docs/p.svg", ""),
    ];

    #[test]
    fn pages_and_the_files_that_they_link_to_are_copied() {
        let staged = staged(&Tree::of(&FILES)).unwrap();
        let expected = ["README.md", "book.toml", "deploy/x.yaml", "docs/a.md", "docs/p.svg"];
        assert_eq!(staged, expected.map(String::from).into());
    }

    #[test]
    fn a_page_that_the_summary_does_not_list_is_refused() {
        let files = [(SUMMARY, "- [A](a.md)\n"), ("docs/a.md", "[b](b.md)"), ("docs/b.md", "")];
        let message = staged(&Tree::of(&files)).unwrap_err();
        assert_eq!(message, "docs/a.md links to docs/b.md, which docs/SUMMARY.md does not list");
    }

    #[test]
    fn the_summary_of_the_site_has_paths_from_the_root() {
        let summary = summary_at_root(&Tree::of(&FILES)).unwrap();
        assert_eq!(summary, "[Start](README.md)\n\n- [A](docs/a.md)\n");
    }

    #[test]
    fn links_to_nothing_and_resources_of_other_sites_are_found() {
        let html = r##"<a href="book.rs#x"><a href="gone.html"><a href="#y"><a href="https://a.example">
            <script src="https://b.example/x.js"></script>"##;
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page.html");
        let found = broken_in(&page, html);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].ends_with("gone.html") && found[1].ends_with("x.js"));
    }
}
