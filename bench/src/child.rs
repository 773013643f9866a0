//! Processes that a measurement starts and that end with it.

use crate::process;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that is about to be started.
///
/// It is started by way of `setpriv` and, where it is to run on certain cores, `taskset`. Both are
/// replaced by the program itself, which so has the process id that is told, and which the kernel
/// ends if the thread that started it ends without having done so.
#[derive(Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    cores: Option<String>,
    environment: Vec<(String, OsString)>,
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
}

impl Launch {
    /// A program without arguments, without input, whose output is dropped.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            cores: None,
            environment: Vec::new(),
            stdin: Stdio::null(),
            stdout: Stdio::null(),
            stderr: Stdio::null(),
        }
    }

    /// With further arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, all: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(all.into_iter().map(Into::into));
        self
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// On these cores alone, as `taskset` lists them (`0`, `0,1`).
    #[must_use]
    pub fn on(mut self, cores: Option<&str>) -> Self {
        self.cores = cores.map(str::to_owned);
        self
    }

    /// With its standard input open to us: [`Process::stdin`].
    #[must_use]
    pub fn with_stdin(mut self) -> Self {
        self.stdin = Stdio::piped();
        self
    }

    /// With its standard output open to us: [`Process::stdout`].
    #[must_use]
    pub fn with_stdout(mut self) -> Self {
        self.stdout = Stdio::piped();
        self
    }

    /// With its standard error open to us: [`Process::stderr`].
    #[must_use]
    pub fn with_stderr(mut self) -> Self {
        self.stderr = Stdio::piped();
        self
    }

    /// With what it says on either output in a file.
    pub fn logging_to(mut self, path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        self.stdout = file.try_clone()?.into();
        self.stderr = file.into();
        Ok(self)
    }

    /// Starts it. The calling thread must live as long as the process is wanted.
    pub fn start(self) -> anyhow::Result<Process> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(cores) = &self.cores {
            command.args(["taskset", "-c", cores]);
        }
        command.arg(&self.program).args(self.arguments).envs(self.environment);
        let spawned = command.stdin(self.stdin).stdout(self.stdout).stderr(self.stderr).spawn();
        let name = self.program.display().to_string();
        let child = spawned.with_context(|| format!("{name} (started by setpriv, util-linux)"))?;
        Ok(Process { child, name })
    }
}

/// Has a process, with the threads that it has and will have, run before all whose time is shared out
/// (`SCHED_FIFO`), and before those that were [put second](put_second).
///
/// # Errors
/// `chrt` (util-linux) is missing, or it is not permitted.
pub fn put_first(pid: u32) -> anyhow::Result<()> {
    in_real_time(pid, "2")
}

/// As [`put_first`], behind those.
///
/// # Errors
/// As of [`put_first`].
pub fn put_second(pid: u32) -> anyhow::Result<()> {
    in_real_time(pid, "1")
}

fn in_real_time(pid: u32, priority: &str) -> anyhow::Result<()> {
    let mut command = Command::new("chrt");
    command.args(["--all-tasks", "--fifo", "--pid", priority, &pid.to_string()]);
    let done = command.stdin(Stdio::null()).output().context("chrt (util-linux)")?;
    if !done.status.success() {
        bail!("chrt: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

/// A running process. Dropping it kills it, by its id.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error if it has ended by itself.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} has ended: {status}", self.name),
            None => Ok(()),
        }
    }

    /// Waits until somebody listens at the address, which costs whoever listens a connection.
    pub fn wait_for(&mut self, address: SocketAddr, patience: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            self.check()?;
            if began.elapsed() > patience {
                bail!("{} does not listen on {address}", self.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Its standard input, once.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// The first value that `find` sees in a line of standard error. What follows is read and
    /// dropped, so that the process never waits for a reader.
    pub fn told<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        let stderr = self.stderr().context("its standard error is not ours")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut seen = Vec::new();
        while let Some(line) = lines.next().transpose()? {
            if let Some(value) = find(&line) {
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(value);
            }
            seen.push(line);
        }
        bail!("{} said nothing of it: {}", self.name, seen.join("\n"))
    }

    /// Waits for its end, and says whether it was a good one.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { bail!("{}: {status}", self.name) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its own processes, as nginx's workers, would outlive it and go on listening.
        let below = process::descendants(self.pid());
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
        for pid in below {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_process_that_does_not_exist_is_not_put_first() {
        assert!(put_first(u32::MAX).is_err());
    }

    #[test]
    fn what_is_dropped_has_ended() {
        let process = Launch::new("sleep").args(["600"]).on(Some("0")).start().unwrap();
        let pid = process.pid();
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn what_it_started_ends_with_it() {
        let launch = Launch::new("sh").args(["-c", "sleep 600 & echo $!; wait"]);
        let mut process = launch.with_stdout().start().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout().unwrap()).read_line(&mut line).unwrap();
        let own = format!("/proc/{}/status", line.trim());
        assert!(Path::new(&own).exists());
        drop(process);
        // Whoever takes it over may need a moment to see that it has ended.
        let is_gone = || {
            let status = std::fs::read_to_string(&own).unwrap_or_default();
            status.is_empty() || status.contains("State:\tZ")
        };
        let began = Instant::now();
        while !is_gone() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_process_that_ended_is_an_error_and_its_output_can_be_read() {
        let launch = Launch::new("sh").args(["-c", "echo $ANSWER"]).env("ANSWER", "yes");
        let mut process = launch.with_stdout().start().unwrap();
        let mut said = String::new();
        process.stdout().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "yes\n");
        process.child.wait().unwrap();
        assert!(process.check().unwrap_err().to_string().contains("sh has ended"));
    }

    #[test]
    fn a_line_of_the_log_is_found() {
        let launch = Launch::new("sh").args(["-c", "echo a >&2; echo port=7 >&2; sleep 600"]);
        let mut process = launch.with_stderr().start().unwrap();
        let port = process.told(|line| line.strip_prefix("port=")?.parse::<u16>().ok());
        assert_eq!(port.unwrap(), 7);
    }
}
