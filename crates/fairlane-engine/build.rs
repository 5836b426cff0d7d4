//! Lists the Lua files of the Redis engine by folder, so that a new file needs no line elsewhere.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/redis/lua");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    files.sort();
    let entry = |file: &PathBuf| {
        let path = file.strip_prefix(&folder).expect("a file in its folder").with_extension("");
        format!("({path:?}, include_str!({file:?})),")
    };
    let list: String = files.iter().map(entry).collect();
    let target = env::var_os("OUT_DIR").expect("cargo sets it for build scripts");
    fs::write(Path::new(&target).join("lua.rs"), format!("&[{list}]"))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            files.push(path);
        }
    }
    Ok(())
}
