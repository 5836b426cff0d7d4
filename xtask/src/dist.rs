//! The release artefacts: an optimised and stripped program, an archive and a Debian package with
//! manual pages, completions and the systemd unit, and checksums.
//!
//! They are made with programs that a Debian machine has: cargo, tar, gzip, dpkg-deb and sha256sum.

use crate::{Outcome, expect_no_arguments, shell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Help of `cargo xtask dist`.
pub const HELP: &str = "\
Usage: cargo xtask dist

Builds what is shipped, with the profile `dist`, into target/dist-packages:
  fairlane-VERSION-TARGET.tar.gz  the program, manual pages, completions, the systemd unit
  fairlane_VERSION_ARCH.deb       the same as a Debian package, where dpkg-deb is installed
  SHA256SUMS                      checksums of both
The program is linked statically where the target x86_64-unknown-linux-musl and musl-gcc are installed.
";

const MUSL: &str = "x86_64-unknown-linux-musl";
const FOLDER: &str = "dist-packages";

/// The largest size of the program, in bytes.
const PROGRAM_BYTES_MAX: u64 = 30_000_000;

/// The compression of a Debian package.
#[derive(Clone, Copy)]
enum Compression {
    /// The smallest package, which is slow to make.
    Best,
    /// A fast compression, for tests.
    Fast,
}

/// Builds the program and packages it.
pub fn run(root: &Path, arguments: &[String]) -> Outcome {
    expect_no_arguments("dist", arguments)?;
    let target = target(root)?;
    let build = ["build", "--profile", "dist", "--locked", "-p", "fairlane-cli", "--target", &target];
    shell::run(&mut shell::cargo(root, &build))?;
    let program = shell::target_folder(root).join(&target).join("dist/fairlane");
    let folder = shell::target_folder(root).join(FOLDER);
    let files = package(root, &program, &folder, &target, Compression::Best)?;
    for path in std::iter::once(&program).chain(&files) {
        println!("{:>10.1} MB  {}", bytes(path)? as f64 / 1e6, path.display());
    }
    match bytes(&program)? {
        size if size > PROGRAM_BYTES_MAX => {
            Err(format!("the program has {size} bytes; at most {PROGRAM_BYTES_MAX} are shipped"))
        }
        _ => Ok(()),
    }
}

/// Packages the debug build and tries the result: the step `packages` of `cargo xtask test`.
pub fn check(root: &Path) -> Outcome {
    shell::run(&mut shell::cargo(root, &["build", "-p", "fairlane-cli"]))?;
    let target_folder = shell::target_folder(root);
    let folder = target_folder.join("dist-check");
    let program = target_folder.join("debug/fairlane");
    let files = package(root, &program, &folder, "debug", Compression::Fast)?;
    let Some(package) = files.iter().find(|path| path.extension().is_some_and(|ending| ending == "deb"))
    else {
        return Ok(());
    };
    let installed = folder.join("installed");
    shell::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&installed))?;
    shell::run(Command::new(installed.join("usr/bin/fairlane")).arg("--version"))?;
    let unit = read(&installed.join("usr/lib/systemd/system/fairlane.service"))?;
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/"));
    let words: Vec<&str> = started.unwrap_or_default().split_whitespace().collect();
    for path in words.iter().filter(|word| word.contains('/')).map(|word| word.trim_start_matches('/')) {
        if !installed.join(path).exists() {
            return Err(format!("the service needs /{path}, which the package does not have"));
        }
    }
    if words.is_empty() || !installed.join("usr/share/man/man1/fairlane-serve.1.gz").exists() {
        return Err("the package lacks its service or its manual pages".into());
    }
    install_as_documented(root, package, &folder.join("root"))
}

/// Runs the commands of docs/install.md that install the package, below a folder instead of the
/// root, and with a stand-in for systemctl that starts what the unit starts.
fn install_as_documented(root: &Path, package: &Path, folder: &Path) -> Outcome {
    let page = read(&root.join("docs/install.md"))?;
    let block = page.split("```sh\n").skip(1).find(|block| block.starts_with("dpkg -i ")).unwrap_or_default();
    let block = block.split("```").next().unwrap_or_default();
    if block.lines().count() != 4 {
        return Err("docs/install.md shows how the package is installed in four commands".into());
    }
    std::fs::create_dir_all(folder.join("var/lib/dpkg")).map_err(|error| error.to_string())?;
    write(&folder.join("var/lib/dpkg/status"), "")?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    drop(listener);
    let (below, package) = (folder.display(), package.display());
    let block = block.replace("fairlane_0.1.0_amd64.deb", &format!("'{package}'"));
    let block = block.replace("/var/lib/fairlane", &format!("{below}/var/lib/fairlane"));
    let block = block.replace("fairlane health", &format!("fairlane health http://127.0.0.1:{port}"));
    let script = format!(
        "export PATH='{below}/usr/bin':$PATH
         dpkg() {{ command dpkg --root='{below}' --force-depends --force-not-root --force-bad-path --log=/dev/null \"$@\"; }}
         systemctl() {{
           [ \"$*\" = 'enable --now fairlane' ]
           sed -i 's#/var/lib/#{below}/var/lib/#; s#127.0.0.1:8080#127.0.0.1:{port}#' '{below}/etc/fairlane/fairlane.toml'
           started=$(sed -n 's#^ExecStart=##p' '{below}/usr/lib/systemd/system/fairlane.service')
           $(echo \"$started\" | sed 's# /etc# {below}/etc#; s#^/usr#{below}/usr#') > '{below}/log' 2>&1 &
         }}
         trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
         {block}"
    );
    shell::run(Command::new("bash").args(["-euc", &script]))
}

/// The target to build for: a static one if possible, else that of this machine.
fn target(root: &Path) -> Result<String, String> {
    let installed = output(shell::program_at(root, "rustc").args(["--print", "sysroot"]))?;
    let has_target = Path::new(installed.trim()).join("lib/rustlib").join(MUSL).join("lib").is_dir();
    if has_target && shell::find("musl-gcc").is_some() {
        return Ok(MUSL.into());
    }
    println!("linked with the C library of this machine: {MUSL} or musl-gcc is not installed");
    let version = output(shell::program_at(root, "rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not name its host")?.to_owned())
}

/// Makes the packages of a program that was built before.
fn package(
    root: &Path,
    program: &Path,
    folder: &Path,
    target: &str,
    compression: Compression,
) -> Result<Vec<PathBuf>, String> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let version = output(Command::new(program).arg("--version"))?;
    let version = version.trim().strip_prefix("fairlane ").ok_or("the program does not say its version")?;
    let name = format!("fairlane-{version}-{target}");
    let archived = folder.join(&name);
    fill_archive(root, program, &archived)?;
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--sort=name", "-C"])
        .arg(folder)
        .arg("-czf")
        .arg(&archive)
        .arg(&name);
    shell::run(&mut tar)?;
    let mut files = vec![archive];
    match shell::find("dpkg-deb") {
        Some(_) => files.push(debian_package(root, &archived, folder, version, compression)?),
        None => println!("no Debian package: dpkg-deb is missing"),
    }
    let mut sums = Command::new("sha256sum");
    sums.current_dir(folder).args(files.iter().filter_map(|path| path.file_name()));
    write(&folder.join("SHA256SUMS"), &output(&mut sums)?)?;
    Ok(files)
}

/// Adds the program, its manual pages, completions, systemd unit and licences to the archive.
fn fill_archive(root: &Path, program: &Path, folder: &Path) -> Outcome {
    copy(program, &folder.join("fairlane"))?;
    output(Command::new(program).arg("man").arg(folder.join("man")))?;
    for (shell, file) in [("bash", "fairlane.bash"), ("zsh", "_fairlane"), ("fish", "fairlane.fish")] {
        let script = output(Command::new(program).args(["completions", shell]))?;
        write(&folder.join("completions").join(file), &script)?;
    }
    for file in ["fairlane.service", "fairlane.toml"] {
        copy(&root.join("deploy/systemd").join(file), &folder.join("systemd").join(file))?;
    }
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
        copy(&root.join(file), &folder.join(file))?;
    }
    Ok(())
}

/// A Debian package of the files in the archive.
fn debian_package(
    root: &Path,
    archived: &Path,
    folder: &Path,
    version: &str,
    compression: Compression,
) -> Result<PathBuf, String> {
    let tree = folder.join("debian");
    copy(&archived.join("fairlane"), &tree.join("usr/bin/fairlane"))?;
    let manual = tree.join("usr/share/man/man1");
    let pages = std::fs::read_dir(archived.join("man")).map_err(|error| error.to_string())?;
    for page in pages.flatten() {
        copy(&page.path(), &manual.join(page.file_name()))?;
    }
    shell::run(Command::new("sh").current_dir(&manual).args(["-c", "gzip -9n ./*.1"]))?;
    for (file, to) in [
        ("fairlane.bash", "usr/share/bash-completion/completions/fairlane"),
        ("_fairlane", "usr/share/zsh/vendor-completions/_fairlane"),
        ("fairlane.fish", "usr/share/fish/vendor_completions.d/fairlane.fish"),
    ] {
        copy(&archived.join("completions").join(file), &tree.join(to))?;
    }
    let unit = read(&archived.join("systemd/fairlane.service"))?.replace("/usr/local/bin/", "/usr/bin/");
    write(&tree.join("usr/lib/systemd/system/fairlane.service"), &unit)?;
    copy(&archived.join("systemd/fairlane.toml"), &tree.join("etc/fairlane/fairlane.toml"))?;
    let licences = [read(&root.join("LICENSE-MIT"))?, read(&root.join("LICENSE-APACHE"))?];
    write(&tree.join("usr/share/doc/fairlane/copyright"), &licences.join("\n\n"))?;
    write(&tree.join("DEBIAN/conffiles"), "/etc/fairlane/fairlane.toml\n")?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    write(&tree.join("DEBIAN/control"), &control(&archived.join("fairlane"), version, architecture)?)?;
    let package = folder.join(format!("fairlane_{version}_{architecture}.deb"));
    let level = match compression {
        Compression::Best => ["-Zxz", "-z6"],
        Compression::Fast => ["-Zgzip", "-z1"],
    };
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group"]).args(level).arg("--build").arg(&tree).arg(&package);
    shell::run(&mut build)?;
    Ok(package)
}

/// The control file of the package, with the C library that the program was linked with.
fn control(program: &Path, version: &str, architecture: &str) -> Result<String, String> {
    let mut needed = Vec::new();
    // `ldd` fails for a static program.
    if let Ok(libraries) = output(Command::new("ldd").arg(program)) {
        if libraries.contains("libc.so") {
            let text = output(Command::new("ldd").arg("--version"))?;
            let libc = text.lines().next().and_then(|line| line.split_whitespace().last()).unwrap_or("0");
            needed.push(format!("libc6 (>= {libc})"));
        }
        if libraries.contains("libgcc_s.so") {
            needed.push("libgcc-s1".into());
        }
    }
    let depends = match needed.is_empty() {
        true => String::new(),
        false => format!("Depends: {}\n", needed.join(", ")),
    };
    let kilobytes = bytes(program)? / 1024;
    Ok(format!(
        "Package: fairlane\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: Fairlane <fairlane@localhost>\n\
         Section: admin\nPriority: optional\nInstalled-Size: {kilobytes}\n{depends}Recommends: ca-certificates\n\
         Description: job queue for multi-tenant applications\n \
         Shares workers fairly between customers, stays within rate limits, and never\n loses an accepted job.\n"
    ))
}

fn copy(from: &Path, to: &Path) -> Outcome {
    make_folder_of(to)?;
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{} cannot be copied: {error}", from.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    make_folder_of(path)?;
    std::fs::write(path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

fn make_folder_of(path: &Path) -> Outcome {
    let folder = path.parent().expect("a file has a folder");
    std::fs::create_dir_all(folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

fn bytes(path: &Path) -> Result<u64, String> {
    std::fs::metadata(path).map(|file| file.len()).map_err(|error| format!("{}: {error}", path.display()))
}

/// The standard output of a command that must succeed.
fn output(command: &mut Command) -> Result<String, String> {
    let line = shell::command_line(command);
    let ran = command.output().map_err(|error| format!("`{line}` could not be started: {error}"))?;
    match ran.status.success() {
        true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
        false => Err(format!("`{line}` failed: {}", String::from_utf8_lossy(&ran.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_says_which_c_library_its_program_needs() {
        let control = control(Path::new("/bin/sh"), "1.2.3", "amd64").unwrap();
        assert!(control.starts_with("Package: fairlane\nVersion: 1.2.3\nArchitecture: amd64\n"), "{control}");
        assert!(control.contains("\nDepends: libc6 (>= 2."), "{control}");
        assert!(control.lines().all(|line| !line.is_empty() && line.len() < 80), "{control}");
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_reason() {
        let message = output(Command::new("sh").args(["-c", "echo broken >&2; exit 1"])).unwrap_err();
        assert!(message.starts_with("`sh ") && message.ends_with("failed: broken"), "{message}");
    }
}
