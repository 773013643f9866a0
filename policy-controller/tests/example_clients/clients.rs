//! The example clients, one a language.

use crate::process::Program;
use policy_testkit::{node_modules, python};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A language with an example client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
    Go,
}

impl Language {
    pub(crate) const ALL: [Self; 3] = [Self::Python, Self::Node, Self::Go];

    /// The client, with the address of the controller and further arguments.
    pub(crate) fn client(self, controller: &str, arguments: &[&str]) -> Command {
        let examples = root().join("docs/examples");
        let mut command = match self {
            Self::Python => {
                let mut command = Command::new(python());
                command.arg(examples.join("python/watch.py")).env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            Self::Node => {
                let mut command = Command::new("node");
                command.arg(examples.join("node/watch.js")).env("NODE_PATH", node_modules());
                command
            }
            Self::Go => Command::new(built()),
        };
        let proto = root().join("proto");
        command.args(["--controller", controller, "--proto"]).arg(proto).args(arguments);
        command
    }

    /// The client, running.
    pub(crate) fn watch(self, controller: impl ToString, arguments: &[&str]) -> Program {
        let mut command = self.client(&controller.to_string(), arguments);
        Program::start(command.stderr(Stdio::inherit()))
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The client in Go, built once.
fn built() -> &'static Path {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(folder.path().join("watch")).arg(".");
        let built = build.current_dir(root().join("docs/examples/go")).status();
        assert!(built.expect("Go is needed for the example client").success());
        folder
    });
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| folder.path().join("watch"))
}

/// The next event of this name.
pub(crate) fn event(watch: &Program, name: &str) -> Value {
    watch.find(name, |line| {
        let event: Value = serde_json::from_str(line).unwrap();
        (event["event"] == name).then_some(event)
    })
}
