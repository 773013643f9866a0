//! One step of a lane: a program that is run to its end.

use super::libtest::{self, Line};
use super::list::{Program, cargo};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::{BufRead as _, BufReader, PipeReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time to wait for lines after a program has ended: a child may hold its output open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Most that a step may take. The longest takes a quarter of it on two processors without any cache.
const BOUND: Duration = Duration::from_secs(40 * 60);

/// A program, and what is known of it.
#[derive(Debug)]
pub(super) struct Step {
    name: String,
    command: Command,
    /// Of a program of tests: how many run at once.
    threads: Option<usize>,
    /// Programs that run.
    chosen: Vec<&'static str>,
}

/// Result of a step.
#[derive(Debug)]
pub(super) struct Done {
    /// The step's name.
    pub(super) name: String,
    /// True if it succeeded.
    pub(super) passed: bool,
    /// Duration of the step.
    pub(super) time: Duration,
    /// Duration of each test.
    pub(super) tests: Vec<(String, Duration)>,
    /// The tests that failed, with what they printed.
    pub(super) failures: Vec<(String, Vec<String>)>,
    /// The last lines.
    pub(super) end: Vec<String>,
}

impl Done {
    /// One line for whoever watches.
    pub(super) fn line(&self) -> String {
        let seconds = self.time.as_secs_f64();
        let count = match self.tests.len() {
            0 => String::new(),
            count => format!(", {count} tests"),
        };
        let failed = if self.passed { "" } else { "  FAILED" };
        format!("{seconds:7.1} s  {}{count}{failed}", self.name)
    }
}

impl Step {
    /// A program that is no program of tests.
    pub(super) fn plain(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), command, threads: None, chosen: Vec::new() }
    }

    /// A program of tests, in the folder and with the variables that cargo would give it: so many at
    /// once for each processor.
    pub(super) fn tests(program: Program, for_each: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = processors * for_each;
        let mut command = Command::new(&program.path);
        command
            .current_dir(&program.folder)
            .env("CARGO", cargo())
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .env("CARGO_PKG_NAME", &program.package);
        let name = format!("{} {}", program.package, program.target);
        Self { name, command, threads: Some(threads), chosen: Vec::new() }
    }

    /// The same, of these tests, as the program's own arguments choose them.
    pub(super) fn chosen(self, arguments: &[&'static str]) -> Self {
        Self { chosen: arguments.to_vec(), ..self }
    }

    /// Runs it to its end, or to that of all steps. What it says goes to the file. A step that cannot be
    /// run has failed.
    pub(super) fn run(self, kept: &mut File, last: Instant) -> Done {
        let (name, began) = (self.name.clone(), Instant::now());
        self.try_run(kept, last).unwrap_or_else(|error| Done {
            name,
            passed: false,
            time: began.elapsed(),
            tests: Vec::new(),
            failures: Vec::new(),
            end: vec![format!("{error:#}")],
        })
    }

    fn try_run(mut self, kept: &mut File, last: Instant) -> Result<Done> {
        let bound = BOUND.min(last.saturating_duration_since(Instant::now()));
        let order = self.order()?;
        if let Some(threads) = self.threads {
            self.command.arg(format!("--test-threads={threads}")).args(&self.chosen);
        }
        writeln!(kept, "\n==> {}", self.name)?;
        let began = Instant::now();
        let (reader, writer) = std::io::pipe()?;
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .spawn()
            .with_context(|| self.name.clone())?;
        // The command keeps its ends of the pipe open.
        self.command = Command::new("true");
        let said = lines_of(reader);
        let mut lines: Vec<Line> = Vec::new();
        let mut ended: Option<Instant> = None;
        loop {
            match said.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => {
                    if is_news(&line) {
                        println!("{}: {line}", self.name);
                    }
                    writeln!(kept, "{line}")?;
                    lines.push((began.elapsed(), line));
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if ended.is_none() && child.try_wait()?.is_some() {
                ended = Some(Instant::now());
            }
            if ended.is_some_and(|ended| ended.elapsed() > LAST_WORDS) {
                break;
            }
            if began.elapsed() > bound {
                lines.push((bound, format!("ended after {} s, its bound", bound.as_secs())));
                child.kill()?;
                break;
            }
        }
        let status = child.wait()?;
        // A program of tests that ends before it has a result has not run them all.
        let told = |line: &Line| line.1.starts_with("test result: ok.");
        let passed = status.success() && (self.threads.is_none() || lines.iter().any(told));
        if !passed {
            lines.push((began.elapsed(), format!("{}: {status}", self.name)));
        }
        let threads = self.threads.unwrap_or_default();
        let end = lines.get(lines.len().saturating_sub(60)..).unwrap_or_default();
        Ok(Done {
            name: self.name,
            passed,
            time: began.elapsed(),
            tests: libtest::times(&order, threads, &lines),
            failures: libtest::failures(&lines),
            end: end.iter().map(|(_, line)| line.clone()).collect(),
        })
    }

    /// The tests of the program, in the order in which it starts them.
    fn order(&self) -> Result<Vec<String>> {
        if self.threads.is_none() {
            return Ok(Vec::new());
        }
        let mut list = Command::new(self.command.get_program());
        let listed = list
            .args(["--list", "--format", "terse"])
            .args(&self.chosen)
            .stdin(Stdio::null())
            .output();
        let listed = listed.with_context(|| self.name.clone())?;
        anyhow::ensure!(listed.status.success(), "{} --list: {}", self.name, listed.status);
        Ok(libtest::names(&String::from_utf8_lossy(&listed.stdout)))
    }
}

/// True for what is printed while the step runs: a test that takes long, or failed. A run that is ended
/// from outside has no report.
fn is_news(line: &str) -> bool {
    line.ends_with("has been running for over 60 seconds")
        || (line.starts_with("test ") && line.ends_with(" ... FAILED"))
}

/// The lines of a pipe as they come, until all who write to it have ended.
fn lines_of(pipe: PipeReader) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while let Ok(1..) = pipe.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            line.clear();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    lines
}
