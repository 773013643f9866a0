//! The control plane's programs: named by the user, built before, or built now.

use super::skip::{Missing, say};
use crate::sources::root;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Where the programs are.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) folder: PathBuf,
}

impl Programs {
    pub(super) fn etcd(&self) -> PathBuf {
        self.folder.join("etcd")
    }

    pub(super) fn api_server(&self) -> PathBuf {
        self.folder.join("kube-apiserver")
    }

    fn absent(&self) -> Option<PathBuf> {
        [self.etcd(), self.api_server()].into_iter().find(|path| !path.is_file())
    }
}

/// The programs; builds them if need be, which takes minutes the first time.
pub(super) fn find() -> Result<Programs> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let programs = Programs { folder: folder.into() };
        return match programs.absent() {
            Some(path) => bail!("KUBEBUILDER_ASSETS: there is no {}", path.display()),
            None => Ok(programs),
        };
    }
    let programs = Programs { folder: built_folder()? };
    if programs.absent().is_none() {
        return Ok(programs);
    }
    let _lock = locked("cluster.lock")?;
    if programs.absent().is_some() {
        build(&programs.folder)?;
    }
    Ok(programs)
}

/// One at a time on a cluster that is not ours, over all test processes: held until dropped.
pub(super) fn turn() -> Result<File> {
    locked("cluster-under-test.lock")
}

/// Gateway API's definitions of the kinds we read.
pub(super) fn gateway_api_crds() -> Result<Vec<PathBuf>> {
    let names = ["grpcroutes", "httproutes", "referencegrants"];
    let folder = built_folder()?.join("gateway-api");
    let files = names.map(|name| folder.join(format!("{name}.yaml")));
    if !files.iter().all(|file| file.is_file()) {
        let _lock = locked("cluster.lock")?;
        let module = "sigs.k8s.io/gateway-api";
        go(&["mod", "download", module])?;
        let found = go(&["list", "-m", "-f", "{{.Dir}}", module])?;
        fs::create_dir_all(&folder)?;
        for (name, file) in names.iter().zip(&files) {
            let source = Path::new(found.trim())
                .join(format!("config/crd/standard/gateway.networking.k8s.io_{name}.yaml"));
            // The module cache is read-only, which a copied file would be as well.
            let text = fs::read(&source).with_context(|| source.display().to_string())?;
            fs::write(file, text)?;
        }
    }
    Ok(files.to_vec())
}

fn source_folder() -> PathBuf {
    root().join("tests/cluster")
}

fn cache() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.map(PathBuf::from).or_else(home);
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("portcullis"))
}

/// Where what is built from exactly these sources is kept.
fn built_folder() -> Result<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(source_folder())? {
        files.push(entry?.path());
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.file_name().hash(&mut hasher);
        fs::read(&file).with_context(|| file.display().to_string())?.hash(&mut hasher);
    }
    Ok(cache()?.join("cluster").join(format!("{:016x}", hasher.finish())))
}

fn locked(name: &str) -> Result<File> {
    let cache = cache()?;
    fs::create_dir_all(&cache)?;
    let file = File::create(cache.join(name))?;
    file.lock()?;
    Ok(file)
}

fn go_command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new("go");
    command
        .args(arguments)
        .current_dir(source_folder())
        .env("GOCACHE", cache()?.join("go-build"))
        .env("GOFLAGS", "-buildvcs=false")
        .stdin(Stdio::null());
    Ok(command)
}

/// Runs Go for something that only fails where Go or the network is missing.
fn go(arguments: &[&str]) -> Result<String> {
    let output = go_command(arguments)?.output().map_err(|error| {
        Missing::new(format!("a cluster for tests needs Go 1.24 or newer (`go`: {error})"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        return Err(Missing::new(format!("`go {}` failed: {last}", arguments.join(" "))).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn build(folder: &Path) -> Result<()> {
    say(
        "the control plane for tests (etcd and kube-apiserver) is not built yet: building it once \
         with Go, which takes about 6 minutes on 2 cores",
    );
    // Downloads what the build needs, so that what fails afterwards is not the network.
    go(&["list", "-deps", "-f", "{{.ImportPath}}", "."])?;
    fs::create_dir_all(folder)?;
    let binary = folder.join("cluster");
    let arguments = ["build", "-v", "-trimpath", "-ldflags=-s -w", "-o"];
    let mut child = go_command(&arguments)?.arg(&binary).arg(".").stderr(Stdio::piped()).spawn()?;
    let started = Instant::now();
    let compiled = Arc::new(AtomicUsize::new(0));
    let (ended, waiting) = channel::<()>();
    let progress = std::thread::spawn({
        let compiled = Arc::clone(&compiled);
        move || say_progress(&waiting, started, &compiled)
    });
    let mut lines = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // One line per compiled package, and whatever is wrong.
        for line in BufReader::new(stderr).lines() {
            lines.push(line?);
            compiled.fetch_add(1, Ordering::Relaxed);
        }
    }
    let status = child.wait()?;
    drop(ended);
    _ = progress.join();
    if !status.success() {
        let from = lines.len().saturating_sub(30);
        bail!("go build: {status}\n{}", lines.get(from..).unwrap_or_default().join("\n"));
    }
    for name in ["etcd", "kube-apiserver"] {
        std::os::unix::fs::symlink("cluster", folder.join(name))
            .or_else(|error| folder.join(name).is_file().then_some(()).ok_or(error))?;
    }
    say(&format!("the control plane for tests is built ({})", elapsed(started)));
    Ok(())
}

fn say_progress(waiting: &Receiver<()>, started: Instant, compiled: &AtomicUsize) {
    while waiting.recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Timeout) {
        let compiled = compiled.load(Ordering::Relaxed);
        say(&format!(
            "still building the control plane for tests: {}, {compiled} packages compiled",
            elapsed(started)
        ));
    }
}

fn elapsed(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

/// The controller's binary, built by cargo beside the test that runs.
pub(super) fn controller() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("PORTCULLIS_CONTROLLER") {
        return Ok(named.into());
    }
    let name = "policy-controller-under-test";
    let test = std::env::current_exe()?;
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    found.into_iter().find(|path| path.is_file()).with_context(|| {
        format!(
            "there is no {name} beside {}: cargo builds it with this crate's tests",
            test.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::process::Home;
    use super::*;

    #[test]
    fn a_folder_without_the_programs_is_told_by_the_one_that_is_missing() {
        let home = Home::new().unwrap();
        let programs = Programs { folder: home.path().to_owned() };
        assert_eq!(programs.absent(), Some(home.path().join("etcd")));
        fs::write(programs.etcd(), "").unwrap();
        assert_eq!(programs.absent(), Some(home.path().join("kube-apiserver")));
    }

    #[test]
    fn what_is_built_is_kept_by_its_sources() {
        assert_eq!(built_folder().unwrap(), built_folder().unwrap());
        assert!(built_folder().unwrap().starts_with(cache().unwrap()));
    }
}
