//! Refusals in logs of sidecars: the log of decisions, as text and as JSON, and both formats of the access
//! log. What stands before a line (`[pod/web-0/…]` of `kubectl logs --prefix`) is passed over.

use super::recorded::RecordedDecision;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// The longest line that is read, in bytes.
const MAX_LINE: usize = 64 * 1024;
/// The most kinds of refusals that are kept; further ones are counted.
const MAX_KINDS: usize = 10_000;

/// The refusals and audited permits of a log.
#[derive(Debug, Default)]
pub(crate) struct LogDecisions {
    /// Equal decisions once, with their number, the most frequent first.
    pub(crate) kinds: Vec<RecordedDecision>,
    /// Number of lines that begin as those of a sidecar and cannot be read.
    pub(crate) broken: u64,
    /// Number of lines of Apache's format, which names no workload.
    pub(crate) without_workload: u64,
    /// Number of refusals beyond the kinds that are kept.
    pub(crate) left_out: u64,
    /// Number of all lines.
    pub(crate) lines: u64,
}

/// One line.
enum LogLine {
    Decision(Box<RecordedDecision>),
    /// A line about something else.
    Other,
    Broken,
    WithoutWorkload,
}

/// Reads a log. `place`: the workload and port of lines that name none.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn read(mut log: impl BufRead, place: Option<(&str, u16)>) -> io::Result<LogDecisions> {
    let mut found = LogDecisions::default();
    let mut kinds: BTreeMap<[String; 8], RecordedDecision> = BTreeMap::new();
    loop {
        let mut line = Vec::new();
        let most = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        if log.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let is_cut = line.len() >= MAX_LINE && line.last() != Some(&b'\n');
        if is_cut {
            log.skip_until(b'\n')?;
        }
        found.lines = found.lines.saturating_add(1);
        match of_line(&String::from_utf8_lossy(&line), place) {
            LogLine::Broken => found.broken = found.broken.saturating_add(1),
            LogLine::WithoutWorkload => {
                found.without_workload = found.without_workload.saturating_add(1);
            }
            LogLine::Other if is_cut => found.broken = found.broken.saturating_add(1),
            LogLine::Other => {}
            LogLine::Decision(decision) => {
                let key = key(&decision);
                if let Some(known) = kinds.get_mut(&key) {
                    known.count = known.count.saturating_add(1);
                    known.last = decision.last;
                } else if kinds.len() < MAX_KINDS {
                    kinds.insert(key, *decision);
                } else {
                    found.left_out = found.left_out.saturating_add(1);
                }
            }
        }
    }
    found.kinds = kinds.into_values().collect();
    found.kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    Ok(found)
}

/// The facts by which decisions are equal.
fn key(decision: &RecordedDecision) -> [String; 8] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [
        decision.workload.clone(),
        decision.port.to_string(),
        decision.subject.clone(),
        decision.verdict(),
        text(&decision.method),
        text(&decision.host),
        text(&decision.path),
        text(&decision.route),
    ]
}

fn of_line(line: &str, place: Option<(&str, u16)>) -> LogLine {
    let line = line.trim_end();
    let json = line.find('{').and_then(|start| line.get(start..));
    match json.filter(|json| json.starts_with("{\"")) {
        Some(json) => of_json(json),
        None if is_text(line) => of_text(line),
        None => of_apache(line, place),
    }
}

fn of_json(line: &str) -> LogLine {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return LogLine::Broken };
    if let Some(fields) = value.get("fields").filter(|_| is_decisions(&value)) {
        let field = |name: &str| -> Option<String> {
            let field = fields.get(name)?;
            field.as_str().map_or_else(|| Some(field.to_string()), |text| Some(text.to_owned()))
        };
        let at = value.get("timestamp").and_then(Value::as_str);
        return of_fields(field, at.map(str::to_owned));
    }
    let field = |name: &str| -> Option<String> {
        let field = value.get(name)?;
        Some(field.as_str().map_or_else(|| field.to_string(), str::to_owned))
    };
    let Some(verdict) = field("verdict") else { return LogLine::Other };
    let audited = field("decision").is_some() && verdict == "allow";
    if verdict != "deny" && !audited {
        return LogLine::Other;
    }
    let facts = LogFacts {
        denied: verdict == "deny",
        at: field("timestamp"),
        client: field("client.addr"),
        identity: field("client.id").filter(|id| id != "-"),
        method: field("method"),
        path: field("uri"),
        host: field("host").filter(|host| !host.is_empty()),
    };
    let port = field("port").and_then(|port| port.parse().ok());
    match (field("workload"), port) {
        (Some(workload), Some(port)) => facts.decision((workload, port), field),
        (_, _) => LogLine::Broken,
    }
}

fn is_decisions(value: &Value) -> bool {
    value.get("target").and_then(Value::as_str) == Some("policy_proxy::decisions")
}

fn is_text(line: &str) -> bool {
    line.contains("policy_proxy::decisions")
}

/// A line of the log of decisions as text: `request denied workload="shop/web-0" port=8080 …`.
fn of_text(line: &str) -> LogLine {
    let line = without_colours(line);
    let Some((head, fields)) = line.split_once("policy_proxy::decisions:") else {
        return LogLine::Broken;
    };
    let fields = fields.trim_start();
    // The message is in front of the fields.
    let message: String =
        fields.split(' ').take_while(|word| !word.contains('=')).collect::<Vec<_>>().join(" ");
    let pairs = pairs(fields.get(message.len()..).unwrap_or_default());
    let at = head.split_whitespace().find(|word| word.contains('T') && word.contains(':'));
    let field = |name: &str| match name {
        "message" => Some(message.clone()),
        name => pairs.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone()),
    };
    of_fields(field, at.map(str::to_owned))
}

/// The fields of a line of the log of decisions.
fn of_fields(field: impl Fn(&str) -> Option<String>, at: Option<String>) -> LogLine {
    let message = field("message").unwrap_or_default();
    let denied = match message.as_str() {
        "request denied" | "connection denied" => true,
        "request audited" | "connection audited" => false,
        // Numbers of repeats have no request.
        _ => return LogLine::Other,
    };
    let facts = LogFacts {
        denied,
        at,
        client: field("client"),
        identity: field("client_id"),
        method: field("method"),
        path: field("path"),
        host: None,
    };
    let port = field("port").and_then(|port| port.parse().ok());
    match (field("workload"), port) {
        (Some(workload), Some(port)) => facts.decision((workload, port), field),
        (_, _) => LogLine::Broken,
    }
}

/// A line of Apache's format; what was decided stands behind the status.
fn of_apache(line: &str, place: Option<(&str, u16)>) -> LogLine {
    let Some((head, quoted)) = line.split_once('"') else { return LogLine::Other };
    // What a client sent may have quotes, behind backslashes.
    let (request, tail) = unquoted(quoted);
    let pairs = pairs(tail);
    let field =
        |name: &str| pairs.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
    let is_ours = field("reason").is_some() || field("decision").is_some();
    if !is_ours {
        return LogLine::Other;
    }
    let words: Vec<&str> = head.split_whitespace().collect();
    let [.., client, identity, "-", at] = words.as_slice() else { return LogLine::Broken };
    let mut request = request.split(' ');
    let (Some(method), Some(target)) = (request.next(), request.next()) else {
        return LogLine::Broken;
    };
    let Some((workload, port)) = place else { return LogLine::WithoutWorkload };
    let facts = LogFacts {
        denied: field("reason").is_some(),
        at: Some(at.trim_matches(['[', ']']).to_owned()),
        client: Some((*client).to_owned()),
        identity: Some((*identity).to_owned()).filter(|id| id != "-"),
        method: Some(method.to_owned()),
        path: Some(target.to_owned()),
        host: None,
    };
    facts.decision((workload.to_owned(), port), field)
}

/// The facts of a line that the formats name differently.
struct LogFacts {
    denied: bool,
    at: Option<String>,
    client: Option<String>,
    identity: Option<String>,
    method: Option<String>,
    path: Option<String>,
    host: Option<String>,
}

impl LogFacts {
    fn decision(
        self,
        (workload, port): (String, u16),
        field: impl Fn(&str) -> Option<String>,
    ) -> LogLine {
        let Self { denied, at, client, identity, method, path, host } = self;
        let Some(subject) = identity.clone().or_else(|| {
            super::recorded::ip(client.as_deref().unwrap_or_default()).map(|ip| ip.to_string())
        }) else {
            return LogLine::Broken;
        };
        LogLine::Decision(Box::new(RecordedDecision {
            id: field("decision"),
            workload,
            port,
            decision: if denied { "deny" } else { "audit" }.to_owned(),
            reason: field("reason"),
            subject,
            identity,
            address: client,
            connection: method.is_none(),
            method,
            host,
            path,
            route: field("route"),
            first: at.clone(),
            last: at,
            count: 1,
            ..RecordedDecision::default()
        }))
    }
}

/// The pairs `name=value` of a text, of which values may be quoted.
fn pairs(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.trim_start().split_once('=') {
        let name = name.rsplit(' ').next().unwrap_or_default().to_owned();
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let (value, after) = after.split_once(' ').unwrap_or((after, ""));
                (value.to_owned(), after)
            }
        };
        pairs.push((name, value));
        rest = after;
    }
    pairs
}

/// The text up to the closing quote without its escapes, and what follows the quote.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut escaped = false;
    for (place, c) in text.char_indices() {
        match (escaped, c) {
            (false, '\\') => escaped = true,
            (false, '"') => {
                let after = place.saturating_add(1);
                return (value, text.get(after..).unwrap_or_default());
            }
            (_, c) => {
                value.push(c);
                escaped = false;
            }
        }
    }
    (value, "")
}

/// The line without the escape sequences of a terminal's colours.
fn without_colours(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                let _ = chars.by_ref().find(char::is_ascii_alphabetic);
            }
            c => clean.push(c),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"client.addr":"10.1.0.9:40112","client.id":"-","timestamp":"2026-01-01T00:00:00Z","method":"GET","uri":"/a?b","host":"web","workload":"shop/web-0","port":80,"verdict":"deny","reason":"unauthorized","decision":"kwy4000001","status":403}"#;
    const TRACED: &str = r#"{"timestamp":"2026-01-01T00:00:00Z","level":"INFO","fields":{"message":"request denied","workload":"shop/web-0","port":80,"client":"10.1.0.9:1","method":"GET","path":"/a","reason":"unauthorized"},"target":"policy_proxy::decisions"}"#;
    const TEXT: &str = "2026-01-01T00:00:00.0Z  INFO policy_proxy::decisions: request denied workload=\"shop/web-0\" port=80 client=10.1.0.9:1 client_id=\"cart.shop\" method=\"GET\" path=\"/a \\\"b\" reason=\"unauthorized\" decision=kwy4000001";
    const APACHE: &str = "10.1.0.9:1 cart.shop - [2026-01-01T00:00:00Z] \"GET /a HTTP/1.1\" 403 reason=unauthorized decision=kwy4000001";

    fn one(line: &str, place: Option<(&str, u16)>) -> RecordedDecision {
        let mut found = read(line.as_bytes(), place).unwrap();
        assert_eq!((found.kinds.len(), found.broken), (1, 0), "{line}");
        found.kinds.remove(0)
    }

    #[test]
    fn refusals_of_every_format_are_read() {
        let prefixed = format!("[pod/web-0/portcullis-proxy] {JSON}");
        for line in [JSON, prefixed.as_str()] {
            let decision = one(line, None);
            let expected = ("shop/web-0", 80, "10.1.0.9", Some("/a?b"), Some("web"));
            let read = (&*decision.workload, decision.port, &*decision.subject);
            let (path, host) = (decision.path.as_deref(), decision.host.as_deref());
            assert_eq!((read.0, read.1, read.2, path, host), expected, "{line}");
            assert_eq!(decision.verdict(), "denied, unauthorized");
        }
        let decision = one(TRACED, None);
        assert_eq!((decision.port, decision.path.as_deref()), (80, Some("/a")));
        let decision = one(TEXT, None);
        assert_eq!(decision.identity.as_deref(), Some("cart.shop"));
        assert_eq!(decision.path.as_deref(), Some("/a \"b"));
        assert_eq!(decision.id.as_deref(), Some("kwy4000001"));
        assert_eq!(decision.first.as_deref(), Some("2026-01-01T00:00:00.0Z"));
        let decision = one(APACHE, Some(("shop/web-0", 80)));
        assert_eq!((&*decision.workload, &*decision.subject), ("shop/web-0", "cart.shop"));
    }

    #[test]
    fn a_quote_in_a_target_is_no_end_of_the_request() {
        let line = APACHE.replace("/a", r#"/\"reason=rate_limited"#);
        let decision = one(&line, Some(("shop/web-0", 80)));
        assert_eq!(decision.path.as_deref(), Some(r#"/"reason=rate_limited"#));
        assert_eq!(decision.reason.as_deref(), Some("unauthorized"));
    }

    #[test]
    fn equal_refusals_count_once_and_broken_lines_are_counted() {
        let cut = JSON.get(..90).unwrap();
        let other = r#"{"verdict":"allow","uri":"/"}"#;
        let log = format!("{JSON}\nstarted\n{cut}\n{JSON}\n{other}\n{APACHE}\n{TEXT}\n");
        let found = read(log.as_bytes(), None).unwrap();
        let counts: Vec<u64> = found.kinds.iter().map(|kind| kind.count).collect();
        assert_eq!(counts, [2, 1]);
        assert_eq!((found.lines, found.broken, found.without_workload), (7, 1, 1));
        let endless = "{\"a".repeat(MAX_LINE);
        let found = read(format!("{endless}\n{JSON}").as_bytes(), None).unwrap();
        assert_eq!((found.kinds.len(), found.broken), (1, 1));
    }
}
