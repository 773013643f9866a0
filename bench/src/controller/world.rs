//! The controller that is measured, and what tells it of objects.

use crate::cluster::{Cluster, Controller};
use crate::fixture::{self, Scale};
use anyhow::Context;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Where objects come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Origin {
    /// A script in the controller's own process: the engine and the server alone.
    Script,
    /// A real API server, and the program as it is shipped.
    Cluster,
}

impl Origin {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Cluster => "API server",
        }
    }
}

/// A running controller with every object of a scale.
pub(crate) struct World<'a> {
    pub(crate) pid: u32,
    pub(crate) grpc: SocketAddr,
    /// From the start of the process until it answered.
    pub(crate) ready: Duration,
    feed: Feed<'a>,
}

enum Feed<'a> {
    Script(Script),
    Cluster(&'a Cluster, #[allow(dead_code, reason = "ends when dropped")] Controller),
}

impl<'a> World<'a> {
    /// Starts a controller that is told by a script, under another command if one is given.
    pub(crate) fn script(scale: Scale, under: &str) -> anyhow::Result<World<'static>> {
        let began = Instant::now();
        let own = std::env::current_exe()?;
        let mut words = under.split_whitespace();
        let mut command = match words.next() {
            Some(program) => {
                let mut command = Command::new(program);
                command.args(words).arg(own);
                command
            }
            None => Command::new(own),
        };
        let mut child = command
            .args(["script", &scale.pods.to_string(), &scale.apps.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("the controller has no standard input")?;
        let output = child.stdout.take().context("the controller has no standard output")?;
        let pid = child.id();
        let script = Script { child, input: Some(input) };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let grpc = line.trim().parse().with_context(|| format!("the controller said `{line}`"))?;
        Ok(World { pid, grpc, ready: began.elapsed(), feed: Feed::Script(script) })
    }

    /// Starts a controller on a cluster, which is filled first.
    pub(crate) async fn cluster(cluster: &'a mut Cluster, scale: Scale) -> anyhow::Result<Self> {
        cluster.fill(scale).await?;
        let cluster = &*cluster;
        let controller = cluster.controller(scale).await?;
        let (pid, grpc, ready) = (controller.pid(), controller.grpc, controller.ready);
        Ok(Self { pid, grpc, ready, feed: Feed::Cluster(cluster, controller) })
    }

    /// Creates an object.
    pub(crate) async fn create(&mut self, object: &Value) -> anyhow::Result<()> {
        match &mut self.feed {
            Feed::Script(script) => script.say("", object),
            Feed::Cluster(cluster, _) => cluster.create(object).await,
        }
    }

    /// Deletes an object.
    pub(crate) async fn delete(&mut self, object: &Value) -> anyhow::Result<()> {
        match &mut self.feed {
            Feed::Script(script) => script.say("-", object),
            Feed::Cluster(cluster, _) => cluster.delete(object).await,
        }
    }

    /// Gives a pod a label that no Server asks about.
    pub(crate) async fn touch(
        &mut self,
        scale: Scale,
        pod: usize,
        value: &str,
    ) -> anyhow::Result<()> {
        let mut object = fixture::pod(scale, pod);
        match &mut self.feed {
            Feed::Script(script) => {
                let labels = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
                labels.context("a pod has labels")?.insert("touch".to_owned(), value.into());
                script.say("", &object)
            }
            Feed::Cluster(cluster, _) => cluster.label(&object, &json!({"touch": value})).await,
        }
    }
}

struct Script {
    child: Child,
    input: Option<ChildStdin>,
}

impl Script {
    fn say(&mut self, prefix: &str, object: &Value) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the script has ended")?;
        input.write_all(format!("{prefix}{object}\n").as_bytes())?;
        Ok(input.flush()?)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.input = None;
        // The end of its script ends it; what it runs under may need a moment to write its report.
        for _ in 0..500 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
