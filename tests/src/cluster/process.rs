//! Processes that end with this one, whatever ends it, and a folder that goes with them.

use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Waits until the pipe to this process closes, which also happens when it is killed; then kills
/// whoever left a process id in the folder, a stopped process too, runs `cleanup` if it is there, and
/// removes the folder.
const GUARD: &str = r#"trap '' INT TERM HUP
read -r _
for file in "$1"/*.pid; do
  [ -e "$file" ] && kill -9 "$(cat "$file")" 2>/dev/null
done
[ -e "$1/cleanup" ] && sh "$1/cleanup"
rm -rf -- "$1" 2>/dev/null || { sleep 1; rm -rf -- "$1"; }"#;

/// A folder for files and processes of a test. Gone when dropped, or when this process dies.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    guard: Child,
}

impl Home {
    pub(super) fn new() -> Result<Self> {
        let path = tempfile::Builder::new().prefix("portcullis-test-").tempdir()?.keep();
        let guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C at the terminal is not meant for it.
            .process_group(0)
            .spawn()
            .context("sh")?;
        Ok(Self { path, guard })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a process in a group of its own, with its output in `NAME.log`.
    pub(super) fn run(&self, name: &str, command: &mut Command) -> Result<Process> {
        let log = self.path.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let pid_file = self.path.join(format!("{name}.pid"));
        let id = child.id();
        let process = Process { name: name.to_owned(), child, id, pid_file, log };
        fs::write(&process.pid_file, id.to_string())?;
        Ok(process)
    }

    /// As [`Home::run`], for a command that starts the process proper as its only child and ends
    /// with it, as `nsenter` does for the sake of a namespace of processes.
    pub(super) fn run_within(&self, name: &str, command: &mut Command) -> Result<Process> {
        let mut process = self.run(name, command)?;
        let outer = process.child.id();
        let children = format!("/proc/{outer}/task/{outer}/children");
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let found = fs::read_to_string(&children).unwrap_or_default();
            if let Some(id) = found.split_whitespace().next() {
                process.id = id.parse()?;
                fs::write(&process.pid_file, id)?;
                return Ok(process);
            }
            if process.ended()?.is_some() || Instant::now() > deadline {
                bail!("{name} does not start\n{}", process.tail());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // It has no way to fail that anything could be done about.
        _ = self.guard.wait();
    }
}

/// A process of ours. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    /// The child's, or that of its only child.
    id: u32,
    /// There for as long as the id cannot belong to anybody else.
    pid_file: PathBuf,
    log: PathBuf,
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Exit status; none while it runs.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let ended = self.child.try_wait()?;
        if ended.is_some() {
            _ = fs::remove_file(&self.pid_file);
        }
        Ok(ended)
    }

    /// Sends a signal by name, such as `STOP`.
    pub(super) fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.id.to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().context("kill")?;
        if !sent.success() {
            bail!("{} (process {pid}) could not be sent {signal}", self.name);
        }
        Ok(())
    }

    /// All it said so far.
    pub(super) fn log(&self) -> String {
        fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// The last lines of what it said.
    pub(super) fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default();
        format!("--- end of the log of {}:\n{}", self.name, last.join("\n"))
    }

    /// Ends it at once, stopped or not.
    pub(super) fn kill(&mut self) {
        // It may have ended by itself, and its id may then be somebody else's.
        if self.id != self.child.id() && matches!(self.ended(), Ok(None)) {
            _ = self.signal("KILL");
        }
        _ = self.child.kill();
        _ = fs::remove_file(&self.pid_file);
        _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
