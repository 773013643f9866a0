//! Programs built by Go from small modules of this repository, once, and kept by their sources.

use super::cache::{cache, locked};
use super::skip::Missing;
use crate::sources::root;
use anyhow::{Context as _, Result, bail};
use policy_testkit::say;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A module of this repository and the one binary that is built from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Module {
    /// Name in progress messages.
    pub(super) what: &'static str,
    /// Folder, from the repository's root.
    pub(super) folder: &'static str,
    /// Go package.
    pub(super) package: &'static str,
    /// Name of the program.
    pub(super) binary: &'static str,
    /// Other names of the result, which it looks at.
    pub(super) called: &'static [&'static str],
    /// The module whose version is built in as that of Kubernetes, which Helm and others ask for.
    pub(super) version_of: Option<&'static str>,
    /// About how long it takes on two cores where nothing is cached.
    pub(super) minutes: u8,
}

impl Module {
    /// The folder with the binary under all its names; builds it if need be.
    pub(super) fn built(&self) -> Result<PathBuf> {
        let folder = self.output()?;
        if !self.complete(&folder) {
            let _lock = locked("cluster.lock")?;
            if !self.complete(&folder) {
                self.build(&folder)?;
            }
        }
        Ok(folder)
    }

    fn complete(&self, folder: &Path) -> bool {
        self.called.iter().chain([&self.binary]).all(|name| folder.join(name).is_file())
    }

    /// Path at which the program built from exactly these sources is kept.
    pub(super) fn output(&self) -> Result<PathBuf> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.source())? {
            let path = entry?.path();
            // A folder is a module of its own.
            if path.is_file() {
                files.push(path);
            }
        }
        files.sort();
        let mut hasher = DefaultHasher::new();
        for file in files {
            file.file_name().hash(&mut hasher);
            fs::read(&file).with_context(|| file.display().to_string())?.hash(&mut hasher);
        }
        if let Some(module) = self.version_of {
            module.hash(&mut hasher);
        }
        Ok(cache()?.join("cluster").join(format!("{:016x}", hasher.finish())))
    }

    fn source(&self) -> PathBuf {
        root().join(self.folder)
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new("go");
        command
            .args(arguments)
            .current_dir(self.source())
            .env("GOCACHE", cache()?.join("go-build"))
            .env("GOFLAGS", "-buildvcs=false")
            .stdin(Stdio::null());
        Ok(command)
    }

    /// Runs Go for something that only fails where Go or the network is missing.
    pub(super) fn go(&self, arguments: &[&str]) -> Result<String> {
        Self::run(self.command(arguments)?, arguments)
    }

    /// Runs Go outside of every module, for one that no module of this repository requires.
    pub(super) fn go_outside(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(arguments)?;
        command.current_dir(std::env::temp_dir());
        Self::run(command, arguments)
    }

    fn run(mut command: Command, arguments: &[&str]) -> Result<String> {
        let output = command.output().map_err(|error| {
            Missing::new(format!("a cluster for tests needs Go 1.24 or newer (`go`: {error})"))
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            return Err(Missing::new(format!("`go {}` failed: {last}", arguments.join(" "))).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn linker_flags(&self) -> Result<String> {
        let Some(module) = self.version_of else { return Ok("-ldflags=-s -w".to_owned()) };
        let version = self.go(&["list", "-m", "-f", "{{.Version}}", module])?;
        let variable = "k8s.io/component-base/version.gitVersion";
        Ok(format!("-ldflags=-s -w -X {variable}={}", version.trim()))
    }

    fn build(&self, folder: &Path) -> Result<()> {
        let Self { what, minutes, .. } = self;
        say(&format!(
            "{what}: not built yet; building it once with Go, which takes about {minutes} minutes on \
             2 cores"
        ));
        // Downloads what the build needs, so that what fails afterwards is not the network.
        self.go(&["list", "-deps", "-f", "{{.ImportPath}}", self.package])?;
        fs::create_dir_all(folder)?;
        let binary = folder.join(self.binary);
        let flags = self.linker_flags()?;
        // Nobody debugs them: without tables for debuggers they compile faster.
        let arguments = ["build", "-v", "-trimpath", "-gcflags=all=-dwarf=false", &flags, "-o"];
        let mut command = self.command(&arguments)?;
        let mut child = command.arg(&binary).arg(self.package).stderr(Stdio::piped()).spawn()?;
        let started = Instant::now();
        let compiled = Arc::new(AtomicUsize::new(0));
        let (ended, waiting) = channel::<()>();
        let progress = std::thread::spawn({
            let (compiled, what) = (Arc::clone(&compiled), *what);
            move || say_progress(what, &waiting, started, &compiled)
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
        for name in self.called {
            symlink(self.binary, folder.join(name))
                .or_else(|error| folder.join(name).is_file().then_some(()).ok_or(error))?;
        }
        say(&format!("{what}: built ({})", elapsed(started)));
        Ok(())
    }
}

fn say_progress(what: &str, ended: &Receiver<()>, started: Instant, compiled: &AtomicUsize) {
    while ended.recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Timeout) {
        let compiled = compiled.load(Ordering::Relaxed);
        say(&format!("{what}: still building, {}, {compiled} packages compiled", elapsed(started)));
    }
}

fn elapsed(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}
