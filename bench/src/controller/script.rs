//! A controller whose objects come from a script instead of an API server: everything after the
//! source is what the real one runs, in a process of its own with the real one's threads.

use crate::fixture::{self, Scale};
use anyhow::Context;
use policy_core::WorkloadKey;
use policy_crds::Kind;
use policy_discovery::serve::{Feed, ServeConfig, Server};
use policy_engine::source::Diagnostic;
use policy_engine::source::{Batch, Change, Health, Source, SourceContext, SourceError};
use policy_engine::{
    ControllerConfig, Destinations, Latest, Policies, PortPolicy, PublishedWorkload, start,
};
use policy_proto::compat::EncodeOptions;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Commands of the parent, one a line, beside objects.
pub(crate) mod said {
    /// Followed by a number: say when clients have acknowledged so many policies since the start.
    pub(crate) const ACKED: char = '?';
    /// Followed by port numbers: follow these of every pod, as a watch would, without a connection.
    pub(crate) const FOLLOW: char = '=';
    /// Followed by an object: delete it.
    pub(crate) const DELETE: char = '-';
}

/// Policies that are followed without a connection; dropping it ends that.
type Followed = Vec<(Latest<Arc<PublishedWorkload>>, Vec<Latest<Arc<PortPolicy>>>)>;

/// Runs it until standard input ends. A line is an object that is applied, or one of [`said`]. The
/// first line of standard output is the address; every later one answers a question, with its number.
pub(crate) fn run(scale: Scale, version: u64) -> anyhow::Result<()> {
    let (objects, script) = mpsc::unbounded_channel();
    let (questions, asked) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let ended = stop.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let question = line.starts_with([said::ACKED, said::FOLLOW]);
            let to = if question { &questions } else { &objects };
            if to.send(line).is_err() {
                break;
            }
        }
        ended.cancel();
    });
    let (send, started) = std::sync::mpsc::channel();
    let index_stop = stop.clone();
    std::thread::Builder::new().name("index".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async move {
            let source = Script { scale, version, script };
            let controller = start(ControllerConfig::default(), source);
            _ = send.send((controller.policies.clone(), controller.destinations.clone()));
            index_stop.cancelled().await;
        });
    })?;
    let (policies, destinations) = started.recv().context("the index did not start")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(policies, destinations, scale, asked, stop))
}

async fn serve(
    policies: Policies,
    destinations: Destinations,
    scale: Scale,
    asked: mpsc::UnboundedReceiver<String>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    policies.synced().wait_for(|synced| *synced).await?;
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    println!("{}", listener.local_addr()?);
    let many = u32::try_from(scale.pods)?.saturating_mul(2).max(1024);
    let config = ServeConfig {
        max_streams_per_peer: many,
        max_connections_per_peer: many,
        drain_timeout: Duration::ZERO,
        ..ServeConfig::default()
    };
    let server = Server::new(policies.clone(), config, EncodeOptions::default())
        .with_destinations(destinations);
    let feed = server.applied().follow();
    tokio::spawn(async move {
        if let Err(error) = answer(policies, scale, feed, asked).await {
            eprintln!("the script's controller does not answer any more: {error:#}");
        }
    });
    server.serve(listener, stop).await;
    Ok(())
}

/// Answers questions. What is in force is counted as the replica that leads counts it.
async fn answer(
    policies: Policies,
    scale: Scale,
    feed: Feed,
    mut asked: mpsc::UnboundedReceiver<String>,
) -> anyhow::Result<()> {
    let (mut acked, mut wanted, mut followed) = (0, None, Followed::new());
    loop {
        if wanted.is_some_and(|wanted| acked >= wanted) {
            println!("{acked}");
            wanted = None;
        }
        tokio::select! {
            () = feed.changed() => loop {
                let (changes, more) = feed.take(1000);
                let known = changes.iter().flat_map(|(_, in_force)| in_force);
                acked += known.filter(|in_force| in_force.content != 0).count();
                if !more {
                    break;
                }
            },
            question = asked.recv() => {
                let Some(question) = question else { return Ok(()) };
                match question.strip_prefix(said::FOLLOW) {
                    Some(ports) => {
                        let ports: Result<Vec<NonZeroU16>, _> =
                            ports.split(',').map(str::parse).collect();
                        followed.extend(follow(&policies, scale, &ports?).await?);
                        println!("{}", followed.len());
                    }
                    None => wanted = Some(question.trim_start_matches(said::ACKED).parse()?),
                }
            }
        }
    }
}

async fn follow(
    policies: &Policies,
    scale: Scale,
    ports: &[NonZeroU16],
) -> anyhow::Result<Followed> {
    let mut all = Followed::with_capacity(scale.pods);
    for pod in 0..scale.pods {
        let key = WorkloadKey::pod(fixture::NAMESPACE, &fixture::name(pod));
        let state = policies.workload(&key).await?;
        let mut watched = Vec::with_capacity(ports.len());
        for port in ports {
            watched.push(policies.port(&key, *port).await?);
        }
        all.push((state, watched));
    }
    Ok(all)
}

struct Script {
    scale: Scale,
    /// The version of everything listed: of a replica that starts again no less than clients have.
    version: u64,
    script: mpsc::UnboundedReceiver<String>,
}

impl Source for Script {
    fn epoch(&self) -> Arc<str> {
        "script".into()
    }

    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>> {
        watch::channel(Arc::from([])).1
    }

    fn health(&self) -> watch::Receiver<Arc<Health>> {
        watch::channel(Arc::default()).1
    }

    async fn run(mut self, context: SourceContext) -> Result<(), SourceError> {
        let mut version = self.version;
        let versions: BTreeMap<Kind, u64> = Kind::ALL.into_iter().map(|k| (k, version)).collect();
        let mut changes: Vec<Change> =
            fixture::frame(self.scale).iter().flat_map(applied).collect();
        for pod in 0..self.scale.pods {
            changes.extend(applied(&fixture::pod(self.scale, pod)));
            // As an API server lists them.
            if changes.len() >= 500 {
                let changes = std::mem::take(&mut changes);
                send(&context, Batch { changes, versions: BTreeMap::new(), ..Batch::default() })
                    .await?;
            }
        }
        changes.push(Change::Synced);
        send(&context, Batch { changes, versions, ..Batch::default() }).await?;
        while let Some(line) = self.script.recv().await {
            version += 1;
            let (deleted, text) = match line.strip_prefix(said::DELETE) {
                Some(rest) => (true, rest),
                None => (false, line.as_str()),
            };
            let Ok(value) = serde_json::from_str::<Value>(text) else {
                return Err(SourceError::Failed);
            };
            let mut batch = Batch::default();
            for change in applied(&value) {
                if let Change::Apply(object) = &change {
                    let key = object.meta.key.clone();
                    batch.versions.insert(key.kind, version);
                    batch.changes.push(if deleted { Change::Delete(key) } else { change });
                }
            }
            send(&context, batch).await?;
        }
        Ok(())
    }
}

fn applied(value: &Value) -> Vec<Change> {
    let objects = policy_crds::parse_all(value).into_iter().filter_map(Result::ok);
    objects.map(|object| Change::Apply(Arc::new(object))).collect()
}

async fn send(context: &SourceContext, batch: Batch) -> Result<(), SourceError> {
    context.sink.send(batch).await.map_err(|_| SourceError::Failed)
}
