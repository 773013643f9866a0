//! A shell as the page's reader has it: a checkout to stand in, kubectl, helm and portcullis, a cluster.

use super::page::Step;
use super::prints::fits;
use policy_tests::cluster::node::Node;
use policy_tests::cluster::{helm_or_skip, kubectl};
use policy_tests::sources::root;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Most seconds that one block of commands may take.
const LONGEST: &str = "300";

/// Time within which an output becomes what the page says: changes take a moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// Commands that change nothing, so that they can be given again.
const READ: [&str; 10] = [
    "portcullis status",
    "portcullis authz",
    "portcullis check",
    "portcullis health",
    "portcullis version",
    "kubectl get",
    "kubectl logs",
    "kubectl exec",
    "kubectl describe",
    "kubectl wait",
];

/// The shell, and what the pages name that cannot be reached from here.
pub(crate) struct Shell {
    folder: TempDir,
    kubeconfig: PathBuf,
    /// Text of a page, and what is there in its place.
    instead: Vec<(&'static str, String)>,
}

/// Result of a step.
struct Ended {
    exit: Option<i32>,
    printed: String,
    errors: String,
}

impl Shell {
    /// A shell for this cluster; absent: the test is to return, it has been counted as skipped.
    pub(crate) fn on(node: &Node, instead: Vec<(&'static str, String)>) -> Option<Self> {
        let helm = helm_or_skip()?;
        let folder = tempfile::tempdir().unwrap();
        for part in ["charts", "examples"] {
            symlink(root().join(part), folder.path().join(part)).unwrap();
        }
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        let cli = Path::new(env!("CARGO_BIN_EXE_portcullis-under-test"));
        let kubectl = kubectl().unwrap();
        for (name, program) in
            [("helm", helm.as_path()), ("kubectl", &kubectl), ("portcullis", cli)]
        {
            symlink(program, programs.join(name)).unwrap();
        }
        Some(Self { folder, kubeconfig: node.kubeconfig().to_owned(), instead })
    }

    /// Runs the steps one after the other; the first that does something else than its page says is the
    /// panic.
    pub(crate) async fn walk(&self, steps: &[Step]) {
        for step in steps {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let ended = self.run(step).await;
                println!("{}\n$ {}\n{}{}", step.place, step.commands, ended.printed, ended.errors);
                let Err(instead) = as_said(step, &ended) else { break };
                let again = only_reads(&step.commands) && Instant::now() < deadline;
                assert!(again, "{}, `{}`: {instead}", step.place, step.commands);
                sleep(Duration::from_millis(500)).await;
            }
        }
    }

    async fn run(&self, step: &Step) -> Ended {
        let mut commands = step.commands.clone();
        for (named, reached) in &self.instead {
            commands = commands.replace(named, reached);
        }
        let programs = self.folder.path().join("bin");
        let system = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("timeout");
        shell
            .args([LONGEST, "bash", "-e", "-o", "pipefail", "-c", &commands])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{system}", programs.display()))
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || shell.output()).await.unwrap().unwrap();
        Ended {
            exit: output.status.code(),
            printed: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Otherwise: what the step did instead.
fn as_said(step: &Step, ended: &Ended) -> Result<(), String> {
    let Ended { exit, printed, errors } = ended;
    if *exit != Some(step.exit) {
        return Err(format!("exit {exit:?} and not {}\n{printed}{errors}", step.exit));
    }
    match &step.prints {
        Some(said) if !fits(said, printed) => {
            Err(format!("prints\n{printed}{errors}\nand not\n{said}"))
        }
        _ => Ok(()),
    }
}

/// True if every command of the block only reads.
fn only_reads(commands: &str) -> bool {
    let commands = commands.replace("\\\n", " ");
    let lines = commands.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(' '));
    let mut lines = lines.peekable();
    lines.peek().is_some() && lines.all(|line| READ.iter().any(|read| line.starts_with(read)))
}

#[test]
fn what_changes_something_is_not_done_again() {
    for (commands, again) in [
        ("kubectl get pods", true),
        ("kubectl get pods\nkubectl delete pods", false),
        ("portcullis status \\\n  -n shop", true),
        ("kubectl get crd x ||\n  kubectl apply -f y", true),
        ("helm upgrade x", false),
        ("", false),
    ] {
        assert_eq!(only_reads(commands), again, "{commands:?}");
    }
}
