//! One line per request, in Linkerd's two formats (docs/spec/proxy.md 4.5).

use super::entry::{Record, Recorder, RequestRecord};
use parking_lot::Mutex;
use policy_tls::datetime::rfc3339;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};

/// Format of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object.
    Json,
    /// Like Apache's common log, with the client's identity as the user.
    Apache,
}

/// Writes one line per request while it is enabled. Connections that are not HTTP are left out, as
/// in Linkerd.
pub struct AccessLog {
    /// Index in [`FORMATS`] plus one; 0 if disabled.
    format: AtomicU8,
    out: Mutex<Box<dyn Write + Send>>,
}

impl AccessLog {
    /// Creates a log to `out`, with one write per line. A line that cannot be written is lost.
    pub fn new(format: Format, out: Box<dyn Write + Send>) -> Self {
        Self::switched(Some(format), out)
    }

    /// Creates a log that may be disabled.
    pub fn switched(format: Option<Format>, out: Box<dyn Write + Send>) -> Self {
        let log = Self { format: AtomicU8::new(0), out: Mutex::new(out) };
        log.set(format);
        log
    }

    /// Sets the format; `None` disables the log.
    pub fn set(&self, format: Option<Format>) {
        let place = FORMATS.iter().position(|known| Some(*known) == format);
        let place = place.and_then(|place| u8::try_from(place).ok());
        let number = place.map_or(0, |place| place.saturating_add(1));
        self.format.store(number, Ordering::Relaxed);
    }

    /// Returns the format; `None` if disabled.
    pub fn format(&self) -> Option<Format> {
        let number = usize::from(self.format.load(Ordering::Relaxed));
        FORMATS.get(number.checked_sub(1)?).copied()
    }

    /// Creates a log to standard error.
    pub fn to_stderr(format: Format) -> Self {
        Self::new(format, Box::new(std::io::stderr()))
    }
}

const FORMATS: [Format; 2] = [Format::Json, Format::Apache];

impl std::fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessLog").field("format", &self.format()).finish_non_exhaustive()
    }
}

impl Recorder for AccessLog {
    fn is_recording(&self) -> bool {
        self.format.load(Ordering::Relaxed) != 0
    }

    fn record(&self, record: &Record<'_>) {
        let (Some(request), Some(format)) = (&record.request, self.format()) else { return };
        let line = match format {
            Format::Json => json(record, request),
            Format::Apache => apache(record, request),
        };
        // A log that cannot be written must not stop traffic.
        let _ = self.out.lock().write_all(line.as_bytes());
    }
}

fn json(record: &Record<'_>, request: &RequestRecord<'_>) -> String {
    let mut line = json!({
        "client.addr": record.client().to_string(),
        "client.id": record.client_id().unwrap_or("-"),
        "timestamp": rfc3339(record.at),
        "method": request.method.as_str(),
        "uri": request.target,
        "version": format!("{:?}", request.version),
        "trace_id": request.trace_id.unwrap_or(""),
        "request_bytes": request.request_bytes.map_or(String::new(), |n| n.to_string()),
        "status": request.status.as_u16(),
        "response_bytes": request.response_bytes.map_or(String::new(), |n| n.to_string()),
        "total_ns": u64::try_from(request.total.as_nanos()).unwrap_or(u64::MAX),
        "processing_ns": u64::try_from(request.processing.as_nanos()).unwrap_or(u64::MAX),
        "user_agent": request.user_agent.unwrap_or(""),
        "host": request.host.unwrap_or(""),
        "workload": record.workload,
        "port": record.port,
        "verdict": record.verdict.as_str(),
    });
    if let Some(fields) = line.as_object_mut() {
        for (name, value) in facts(record) {
            fields.extend(value.map(|value| (name.to_owned(), value.into())));
        }
    }
    format!("{line}\n")
}

/// A decision, the objects by which it was made, and the id of its record.
fn facts(record: &Record<'_>) -> [(&'static str, Option<String>); 5] {
    let reason = record.verdict.reason().map(policy_core::Denied::as_str);
    [
        ("reason", reason.map(ToOwned::to_owned)),
        ("route", record.route.map(ToString::to_string)),
        ("http_route", record.http_route.map(ToOwned::to_owned)),
        ("authorization", record.authorization.map(ToString::to_string)),
        ("decision", record.id.map(|id| id.to_string())),
    ]
}

/// The line of a request. What was refused or audited has fields behind Apache's.
fn apache(record: &Record<'_>, request: &RequestRecord<'_>) -> String {
    let mut line = common(record, request);
    if record.verdict.reason().is_some() || record.audited {
        for (name, value) in facts(record) {
            if let Some(value) = value {
                let quoted = value.contains(|c: char| !c.is_ascii_graphic() || c == '"');
                let value = if quoted { format!("\"{}\"", value.escape_default()) } else { value };
                // Writing to a string cannot fail.
                let _ = write!(line, " {name}={value}");
            }
        }
    }
    line.push('\n');
    line
}

fn common(record: &Record<'_>, request: &RequestRecord<'_>) -> String {
    format!(
        "{} {} - [{}] \"{} {} {:?}\" {}",
        record.client(),
        record.client_id().unwrap_or("-"),
        rfc3339(record.at),
        request.method,
        // A quote or control byte in a target that has no canonical form must not end the field.
        request.target.escape_default(),
        request.version,
        request.status.as_u16(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "tests")]
    use super::*;
    use crate::record::Verdict;
    use policy_core::{DecisionId, Denied, Identity, PodPart};
    use policy_tls::peer::{Peer, PeerTls};
    use std::num::NonZeroU16;
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn line(format: Format, target: &str) -> String {
        let tls = PeerTls::Terminated(Some(Identity::Dns("a.b.example".into())));
        let peer = Peer::new("10.1.0.9:40112".parse().unwrap(), tls);
        let request = RequestRecord {
            method: &http::Method::GET,
            host: Some("web"),
            target,
            version: http::Version::HTTP_11,
            status: http::StatusCode::FORBIDDEN,
            request_bytes: None,
            response_bytes: Some(0),
            user_agent: Some("curl"),
            trace_id: None,
            total: Duration::from_micros(5),
            processing: Duration::from_micros(5),
        };
        let record = Record {
            at: UNIX_EPOCH + Duration::from_millis(1_709_210_096_789),
            workload: "ns/web-0",
            port: NonZeroU16::new(80).unwrap(),
            peer: &peer,
            verdict: Verdict::Denied(Denied::Unauthorized),
            route: None,
            http_route: Some("/books/:id"),
            authorization: None,
            id: Some(DecisionId::new(PodPart::of("9f3c4"), 0, 1)),
            audited: false,
            request: Some(request),
        };
        let sink = Sink::default();
        AccessLog::new(format, Box::new(sink.clone())).record(&record);
        String::from_utf8(sink.0.lock().clone()).unwrap()
    }

    #[test]
    fn apache_lines_name_client_identity_status_and_what_was_decided() {
        assert_eq!(
            line(Format::Apache, "/a?b"),
            "10.1.0.9:40112 a.b.example - [2024-02-29T12:34:56.789Z] \"GET /a?b HTTP/1.1\" 403 \
             reason=unauthorized http_route=/books/:id decision=kwy4000001\n"
        );
    }

    #[test]
    fn a_hostile_target_cannot_forge_a_line() {
        assert_eq!(line(Format::Apache, "/\"\n10.0.0.1 - -").lines().count(), 1);
        assert_eq!(line(Format::Json, "/\"\n").lines().count(), 1);
    }

    #[test]
    fn json_lines_carry_the_decision() {
        let value: serde_json::Value = serde_json::from_str(&line(Format::Json, "/a")).unwrap();
        let expected = json!({
            "client.addr": "10.1.0.9:40112",
            "client.id": "a.b.example",
            "timestamp": "2024-02-29T12:34:56.789Z",
            "method": "GET",
            "uri": "/a",
            "version": "HTTP/1.1",
            "trace_id": "",
            "request_bytes": "",
            "status": 403,
            "response_bytes": "0",
            "total_ns": 5_000,
            "processing_ns": 5_000,
            "user_agent": "curl",
            "host": "web",
            "workload": "ns/web-0",
            "port": 80,
            "verdict": "deny",
            "reason": "unauthorized",
            "http_route": "/books/:id",
            "decision": "kwy4000001",
        });
        assert_eq!(value, expected);
    }
}
