//! The stream of live decisions: each line is one decision, bounded in rate, with the number of those
//! that were left out.

mod filter;

pub use filter::{PARAMETERS, TapClient, TapDecision, TapFilter, TapReason};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use policy_enforce::record::{OutboundRecord, Record, Recorder, visible_path, visible_text};
use policy_tls::datetime::rfc3339;
use policy_tls::peer::PeerTls;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc;

/// Maximum number of streams at a time.
pub const MAX_STREAMS: usize = 4;
/// Default number of decisions per second of one stream.
pub const RATE: u32 = 100;
/// Maximum number of decisions per second of one stream.
pub const MAX_RATE: u32 = 1000;
/// Lines that wait for a reader.
const WAITING: usize = 256;
const SECOND: Duration = Duration::from_secs(1);

/// The message where no further stream is possible.
pub fn too_many() -> String {
    format!("{MAX_STREAMS} streams of decisions are open, which is the maximum")
}

/// Receives every decision of a sidecar, and passes those on that somebody asks for.
#[derive(Debug, Default)]
pub struct Tap {
    is_open: AtomicBool,
    streams: RwLock<Vec<Arc<TapStream>>>,
}

/// One stream.
#[derive(Debug)]
struct TapStream {
    filter: TapFilter,
    lines: mpsc::Sender<Bytes>,
    left_out: AtomicU64,
    second: Mutex<(Option<Instant>, u32)>,
}

/// The reader's end of a stream; dropping it ends the stream.
#[derive(Debug)]
pub struct TapReader {
    tap: Arc<Tap>,
    stream: Arc<TapStream>,
    lines: mpsc::Receiver<Bytes>,
    begun: bool,
    /// Time of the last look at what was left out.
    reported: Option<Instant>,
}

impl Tap {
    /// Opens a stream of the decisions that pass `filter`; `None` beyond the number of streams.
    pub fn subscribe(self: &Arc<Self>, filter: TapFilter) -> Option<TapReader> {
        let mut streams = self.streams.write();
        if streams.len() >= MAX_STREAMS {
            return None;
        }
        let (sender, lines) = mpsc::channel(WAITING);
        let (left_out, second) = (AtomicU64::new(0), Mutex::new((None, 0)));
        let stream = Arc::new(TapStream { filter, lines: sender, left_out, second });
        streams.push(Arc::clone(&stream));
        self.is_open.store(true, Ordering::Relaxed);
        Some(TapReader { tap: Arc::clone(self), stream, lines, begun: false, reported: None })
    }
}

impl Recorder for Tap {
    fn is_recording(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    fn record(&self, record: &Record<'_>) {
        if !self.is_recording() {
            return;
        }
        for stream in self.streams.read().iter() {
            if stream.filter.passes(record) {
                stream.send(|| line(record));
            }
        }
    }

    fn record_outbound(&self, record: &OutboundRecord<'_>) {
        if !self.is_recording() {
            return;
        }
        for stream in self.streams.read().iter() {
            if stream.filter.passes_outbound(record) {
                stream.send(|| outbound_line(record));
            }
        }
    }
}

impl TapStream {
    fn send(&self, line: impl FnOnce() -> Bytes) {
        let sent = self.has_room(Instant::now()) && self.lines.try_send(line()).is_ok();
        if !sent {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn has_room(&self, now: Instant) -> bool {
        let mut second = self.second.lock();
        let (begun, sent) = &mut *second;
        let over = |begun: Instant| now.saturating_duration_since(begun) >= SECOND;
        if begun.is_none_or(over) {
            (*begun, *sent) = (Some(now), 0);
        }
        *sent = sent.saturating_add(1);
        *sent <= self.filter.rate
    }
}

impl TapReader {
    /// The next line: first one that says that the stream has begun, then decisions, and once a second
    /// how many were left out, if any were.
    pub async fn next(&mut self) -> Bytes {
        if !std::mem::replace(&mut self.begun, true) {
            let (at, rate) = (rfc3339(SystemTime::now()), self.stream.filter.rate);
            return end(&json!({ "begun": { "at": at, "rate": rate } }));
        }
        loop {
            if self.reported.is_none_or(|reported| reported.elapsed() >= SECOND) {
                self.reported = Some(Instant::now());
                if let Some(line) = self.left_out() {
                    return line;
                }
            }
            tokio::select! {
                biased;
                Some(line) = self.lines.recv() => return line,
                () = tokio::time::sleep(SECOND) => {}
            }
        }
    }

    fn left_out(&self) -> Option<Bytes> {
        let left_out = self.stream.left_out.swap(0, Ordering::Relaxed);
        let at = rfc3339(SystemTime::now());
        (left_out > 0).then(|| end(&json!({ "leftOut": { "at": at, "decisions": left_out } })))
    }
}

impl Drop for TapReader {
    fn drop(&mut self) {
        let mut streams = self.tap.streams.write();
        streams.retain(|own| !Arc::ptr_eq(own, &self.stream));
        self.tap.is_open.store(!streams.is_empty(), Ordering::Relaxed);
    }
}

fn line(record: &Record<'_>) -> Bytes {
    let request = record.request.as_ref().map(|request| {
        json!({
            "method": visible_text(request.method.as_str()),
            "host": request.host.map(visible_text),
            "path": visible_path(request.target),
            "version": format!("{:?}", request.version),
            "status": request.status.as_u16(),
            "totalNs": u64::try_from(request.total.as_nanos()).unwrap_or(u64::MAX),
        })
    });
    end(&json!({
        "at": rfc3339(record.at),
        "workload": record.workload,
        "side": "inbound",
        "port": record.port,
        "client": {
            "address": record.client().to_string(),
            "identity": record.client_id(),
            "tls": match record.peer.tls() {
                PeerTls::Absent => "none",
                PeerTls::Passthrough => "passthrough",
                PeerTls::Terminated(_) => "mesh",
            },
        },
        "decision": TapDecision::of(record).as_str(),
        "reason": record.verdict.reason().map(policy_core::Denied::as_str),
        "route": record.route.map(ToString::to_string),
        "httpRoute": record.http_route,
        "authorization": record.authorization.map(ToString::to_string),
        "id": record.id.map(|id| id.to_string()),
        "request": request,
    }))
}

/// The line of a connection of the workload itself, whose other end is a Service or an address.
fn outbound_line(record: &OutboundRecord<'_>) -> Bytes {
    let OutboundRecord { at, workload, refused, id } = record;
    let address = refused.address;
    end(&json!({
        "at": rfc3339(*at),
        "workload": workload,
        "side": "outbound",
        "dialled": {
            "service": refused.service.map(|(namespace, name)| format!("{name}.{namespace}")),
            "address": address.map(|address| address.to_string()),
        },
        "decision": TapDecision::Deny.as_str(),
        "reason": refused.reason,
        "id": id.map(|id| id.to_string()),
    }))
}

fn end(value: &serde_json::Value) -> Bytes {
    format!("{value}\n").into()
}

/// Passes each record on to several recorders.
pub struct Recorders(pub Vec<Arc<dyn Recorder>>);

impl Recorder for Recorders {
    fn is_recording(&self) -> bool {
        self.0.iter().any(|recorder| recorder.is_recording())
    }

    fn record(&self, record: &Record<'_>) {
        self.0.iter().for_each(|recorder| recorder.record(record));
    }

    fn record_outbound(&self, record: &OutboundRecord<'_>) {
        self.0.iter().for_each(|recorder| recorder.record_outbound(record));
    }
}
