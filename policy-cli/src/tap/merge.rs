//! Reads the streams of several sidecars at the same time.

use crate::admin_port::{AdminQuery, MAX_LINE, SidecarAdmin, open, refusal};
use anyhow::{Context, anyhow, bail};
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Lines that wait to be printed.
const WAITING: usize = 1024;

/// An event of one of the streams.
#[derive(Debug)]
pub(crate) struct TapEvent {
    /// The sidecar's name.
    pub(crate) source: String,
    /// A line, or the reason why there will be none any more.
    pub(crate) line: anyhow::Result<Value>,
}

/// The streams; they end when this is dropped.
pub(crate) struct Merged {
    events: mpsc::Receiver<TapEvent>,
    _tasks: JoinSet<()>,
}

impl Merged {
    /// Asks each of the sidecars.
    pub(crate) fn open(sources: Vec<SidecarAdmin>, query: &AdminQuery) -> Self {
        let (sender, events) = mpsc::channel(WAITING);
        let mut tasks = JoinSet::new();
        for source in sources {
            let (sender, query) = (sender.clone(), query.clone());
            tasks.spawn(async move {
                let error = match follow(&source, &query, &sender).await {
                    Ok(()) => anyhow!("the stream ended"),
                    Err(error) => error,
                };
                let _ = sender.send(TapEvent { source: source.name(), line: Err(error) }).await;
            });
        }
        Self { events, _tasks: tasks }
    }

    /// The next event; `None` once all streams have ended.
    pub(crate) async fn next(&mut self) -> Option<TapEvent> {
        self.events.recv().await
    }
}

/// Passes on the lines of one sidecar, until its stream ends or nobody reads any more.
async fn follow(
    source: &SidecarAdmin,
    query: &AdminQuery,
    events: &mpsc::Sender<TapEvent>,
) -> anyhow::Result<()> {
    let response = open(source, query).await?;
    let status = response.status();
    if status != StatusCode::OK {
        let body = Limited::new(response.into_body(), MAX_LINE).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        bail!("{}", refusal(status, &body, "stream decisions"));
    }
    let (mut body, mut waiting) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        for byte in data {
            if byte != b'\n' {
                if waiting.len() >= MAX_LINE {
                    bail!("the sidecar sent a line of more than {MAX_LINE} bytes");
                }
                waiting.push(byte);
                continue;
            }
            let line = serde_json::from_slice(&waiting).context("the sidecar sent no JSON")?;
            waiting.clear();
            let event = TapEvent { source: source.name(), line: Ok(line) };
            if events.send(event).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
