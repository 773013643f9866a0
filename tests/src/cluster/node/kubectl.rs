//! kubectl, as a user runs it.

use super::super::programs;
use anyhow::{Context as _, Result, bail};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Exit status and output of a program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ended {
    /// Its exit code; absent: a signal ended it.
    pub code: Option<i32>,
    /// Text on standard output.
    pub stdout: String,
    /// Text on standard error.
    pub stderr: String,
}

impl Ended {
    /// Returns standard output if the program succeeded.
    ///
    /// # Errors
    /// How it ended, with all it said.
    pub fn output(self) -> Result<String> {
        if self.code != Some(0) {
            bail!("exit code {:?}\n{}{}", self.code, self.stdout, self.stderr);
        }
        Ok(self.stdout)
    }
}

/// Runs a command with `input`, to its end.
pub(super) async fn finish(mut command: Command, input: &str) -> Result<Ended> {
    let input = input.as_bytes().to_vec();
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let stdin = child.stdin.take();
        let writer = std::thread::spawn(move || {
            if let Some(mut stdin) = stdin {
                // Whoever does not want it ends early.
                _ = stdin.write_all(&input);
            }
        });
        let output = child.wait_with_output()?;
        _ = writer.join();
        anyhow::Ok(output)
    })
    .await??;
    Ok(Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// kubectl and whom it acts for.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub(super) fn new(kubeconfig: &Path) -> Result<Self> {
        Ok(Self { program: programs::kubectl()?, kubeconfig: kubeconfig.to_owned() })
    }

    /// `kubectl ARGUMENTS`, to be started by the caller.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env("KUBECONFIG", &self.kubeconfig).args(arguments);
        command
    }

    /// `kubectl ARGUMENTS`, to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn ended(&self, arguments: &[&str]) -> Result<Ended> {
        finish(self.command(arguments), "").await
    }

    /// Returns the output of `kubectl ARGUMENTS`.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let ended = self.ended(arguments).await?;
        ended.output().with_context(|| format!("kubectl {}", arguments.join(" ")))
    }

    /// Returns the output of `kubectl ARGUMENTS` with `input` on its standard input.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub async fn run_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let ended = finish(self.command(arguments), input).await?;
        ended.output().with_context(|| format!("kubectl {}", arguments.join(" ")))
    }

    /// Runs a command in a container, to its end.
    ///
    /// # Errors
    /// If kubectl cannot be started.
    pub async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        command: &[&str],
    ) -> Result<Ended> {
        let mut arguments = vec!["exec", "-n", namespace, pod, "-c", container, "--"];
        arguments.extend(command);
        self.ended(&arguments).await
    }

    /// All that a container logged.
    ///
    /// # Errors
    /// If there is no such container, or it has no log yet.
    pub async fn logs(&self, namespace: &str, pod: &str, container: &str) -> Result<String> {
        self.run(&["logs", "-n", namespace, pod, "-c", container]).await
    }
}
