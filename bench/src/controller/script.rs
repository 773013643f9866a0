//! A controller whose objects come from a script instead of an API server: everything after the
//! source is what the real one runs, in a process of its own with the real one's threads.

use crate::fixture::{self, Scale};
use anyhow::Context;
use policy_controller::serve::{ServeConfig, Server};
use policy_controller::source::directory::Diagnostic;
use policy_controller::source::{Batch, Change, Health, Source, SourceContext, SourceError};
use policy_controller::{ControllerConfig, start};
use policy_crds::Kind;
use policy_proto::compat::EncodeOptions;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Runs it until standard input ends. Each line is an object that is applied, or, after a minus, an
/// object that is deleted. The first line of standard output is the address.
pub(crate) fn run(scale: Scale) -> anyhow::Result<()> {
    let (lines, script) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let ended = stop.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
        ended.cancel();
    });
    let (send, policies) = std::sync::mpsc::channel();
    let index_stop = stop.clone();
    std::thread::Builder::new().name("index".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async move {
            let controller = start(ControllerConfig::default(), Script { scale, script });
            _ = send.send(controller.policies.clone());
            index_stop.cancelled().await;
        });
    })?;
    let policies = policies.recv().context("the index did not start")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let mut synced = policies.synced();
        synced.wait_for(|synced| *synced).await?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        println!("{}", listener.local_addr()?);
        let many = u32::try_from(scale.pods)?.saturating_mul(2).max(1024);
        let config = ServeConfig {
            max_streams_per_peer: many,
            max_connections_per_peer: many,
            drain_timeout: Duration::ZERO,
            ..ServeConfig::default()
        };
        let server = Server::new(policies, config, EncodeOptions::default());
        server.serve(listener, stop).await;
        Ok(())
    })
}

struct Script {
    scale: Scale,
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
        let mut version = 1;
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
            let (deleted, text) = match line.strip_prefix('-') {
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
