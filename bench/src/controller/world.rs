//! The controller that is measured, and what tells it of objects.

use crate::cluster::{Cluster, Controller};
use crate::fixture::{self, Scale};
use crate::script::said;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Most that an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Origin of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let script = Script::start(scale, 1, under)?;
        let (pid, grpc, ready) = (script.child.id(), script.grpc, script.ready);
        Ok(World { pid, grpc, ready, feed: Feed::Script(script) })
    }

    /// Starts a controller on a cluster, which is filled first.
    pub(crate) async fn cluster(cluster: &'a mut Cluster, scale: Scale) -> anyhow::Result<Self> {
        cluster.fill(scale).await?;
        let cluster = &*cluster;
        let controller = cluster.controller(scale).await?;
        let (pid, grpc, ready) = (controller.pid(), controller.grpc, controller.ready);
        Ok(Self { pid, grpc, ready, feed: Feed::Cluster(cluster, controller) })
    }

    /// Ends the controller and starts another, which finds everything as it was.
    pub(crate) async fn restart(self, scale: Scale) -> anyhow::Result<Self> {
        match self.feed {
            Feed::Script(script) => {
                let (version, under) = (script.version, script.under.clone());
                drop(script);
                let script = Script::start(scale, version, &under)?;
                let (pid, grpc, ready) = (script.child.id(), script.grpc, script.ready);
                Ok(Self { pid, grpc, ready, feed: Feed::Script(script) })
            }
            Feed::Cluster(cluster, controller) => {
                drop(controller);
                let controller = cluster.controller(scale).await?;
                let (pid, grpc, ready) = (controller.pid(), controller.grpc, controller.ready);
                Ok(Self { pid, grpc, ready, feed: Feed::Cluster(cluster, controller) })
            }
        }
    }

    /// Follows these ports of every pod within the controller, without connections. On an API server
    /// that cannot be: the program as it is shipped follows for its clients alone.
    pub(crate) async fn follow(&mut self, ports: &[u16]) -> anyhow::Result<()> {
        let Feed::Script(script) = &mut self.feed else { bail!("only a script can follow") };
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        script.say(&format!("{}{}", said::FOLLOW, ports.join(",")))?;
        script.answer().await?;
        Ok(())
    }

    /// Waits until the controller has read `count` acknowledgements since its start, and returns their
    /// number. None on an API server, where it is not reported.
    pub(crate) async fn acknowledged(
        &mut self,
        count: usize,
    ) -> anyhow::Result<Option<(usize, Instant)>> {
        let Feed::Script(script) = &mut self.feed else { return Ok(None) };
        script.say(&format!("{}{count}", said::ACKED))?;
        Ok(Some(script.answer().await?))
    }

    /// Creates an object.
    pub(crate) async fn create(&mut self, object: &Value) -> anyhow::Result<()> {
        match &mut self.feed {
            Feed::Script(script) => script.change("", object),
            Feed::Cluster(cluster, _) => cluster.create(object).await,
        }
    }

    /// Deletes an object.
    pub(crate) async fn delete(&mut self, object: &Value) -> anyhow::Result<()> {
        match &mut self.feed {
            Feed::Script(script) => script.change(&said::DELETE.to_string(), object),
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
                script.change("", &object)
            }
            Feed::Cluster(cluster, _) => cluster.label(&object, &json!({"touch": value})).await,
        }
    }
}

struct Script {
    child: Child,
    input: Option<ChildStdin>,
    answers: mpsc::UnboundedReceiver<(String, Instant)>,
    grpc: SocketAddr,
    ready: Duration,
    /// Of the newest object.
    version: u64,
    under: String,
}

impl Script {
    fn start(scale: Scale, version: u64, under: &str) -> anyhow::Result<Self> {
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
        let Scale { pods, apps, policies } = scale;
        let numbers = [pods, apps, policies].map(|number| number.to_string());
        let mut child = command
            .arg("script")
            .args(numbers)
            .arg(version.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("the controller has no standard input")?;
        let output = child.stdout.take().context("the controller has no standard output")?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let grpc = line.trim().parse().with_context(|| format!("the controller said `{line}`"))?;
        let ready = began.elapsed();
        let (send, answers) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                _ = send.send((line, Instant::now()));
            }
        });
        let under = under.to_owned();
        Ok(Self { child, input: Some(input), answers, grpc, ready, version, under })
    }

    fn change(&mut self, prefix: &str, object: &Value) -> anyhow::Result<()> {
        self.version += 1;
        self.say(&format!("{prefix}{object}"))
    }

    fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the script has ended")?;
        input.write_all(format!("{line}\n").as_bytes())?;
        Ok(input.flush()?)
    }

    async fn answer(&mut self) -> anyhow::Result<(usize, Instant)> {
        let answer = timeout(PATIENCE, self.answers.recv()).await;
        let (line, at) = answer.context("no answer in time")?.context("the script has ended")?;
        Ok((line.parse()?, at))
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
