//! Ports of rules, with the requests that are allowed there.

use super::request::requests;
use crate::file::SourceNode;
use crate::mesh::{PortChoice, RequestCondition};
use policy_crds::quote;

/// The note of ports of other protocols than TCP.
pub(super) const OTHER_PROTOCOLS: &str = "protocols other than TCP pass no sidecar";

/// The note of ports of any protocol.
pub(super) const ANY_PROTOCOL: &str =
    "without a protocol it is for UDP, SCTP and ICMP too, which pass no sidecar";

/// Ports and requests; absent: every one.
type PortRequests = (Option<Vec<PortChoice>>, Option<Vec<RequestCondition>>);

/// The ports of a rule, with what is lost.
#[derive(Debug, Default)]
pub(super) struct CiliumPorts {
    /// The ports with their requests; without one nothing can be said.
    pub(super) ports: Vec<PortRequests>,
    /// The differences.
    pub(super) notes: Vec<String>,
}

/// Reads `toPorts`; without it, every port is meant.
///
/// # Errors
/// It has another form.
pub(super) fn ports(rule: &SourceNode<'_>) -> Result<CiliumPorts, String> {
    let mut found = CiliumPorts::default();
    if rule.get("toPorts").is_none() {
        found.ports.push((None, None));
        found.notes.push(ANY_PROTOCOL.to_owned());
        return Ok(found);
    }
    for node in rule.list_of("toPorts")? {
        node.entries()?;
        if let Some((_, message)) = node.unknown(&["ports", "rules"]) {
            found.notes.push(message);
            continue;
        }
        let (stated, mut choices) = (node.list_of("ports")?, Vec::new());
        for port in &stated {
            match choice(port)? {
                Ok(choice) => {
                    let is_any = protocol(port)? == "ANY" && node.get("rules").is_none();
                    found.notes.extend(is_any.then(|| ANY_PROTOCOL.to_owned()));
                    choices.push(choice);
                }
                Err(reason) => found.notes.push(reason),
            }
        }
        if stated.is_empty() {
            found.notes.push("toPorts without ports".to_owned());
        }
        if choices.is_empty() {
            continue;
        }
        let Some(rules) = node.get("rules") else {
            found.ports.push((Some(choices), None));
            continue;
        };
        let (requests, notes) = requests(&rules)?;
        found.notes.extend(notes);
        if !requests.is_empty() {
            found.ports.push((Some(choices), Some(requests)));
        }
    }
    Ok(found)
}

fn protocol<'a>(node: &SourceNode<'a>) -> Result<&'a str, String> {
    Ok(node.get("protocol").map(|it| it.text()).transpose()?.unwrap_or("ANY"))
}

/// A port; or why it is none of TCP.
fn choice(node: &SourceNode<'_>) -> Result<Result<PortChoice, String>, String> {
    node.entries()?;
    if let Some((_, message)) = node.unknown(&["port", "protocol", "endPort"]) {
        return Ok(Err(message));
    }
    match protocol(node)? {
        "TCP" | "ANY" => {}
        _ => return Ok(Err(OTHER_PROTOCOLS.to_owned())),
    }
    let port = node.require("port")?;
    let text = port.scalar().unwrap_or_default();
    let wrong =
        || port.error(format!("{}: a port from 0 to 65535 or a name is expected", quote(&text)));
    if text.is_empty() {
        return Err(wrong());
    }
    if text.contains(|c: char| !c.is_ascii_digit()) {
        return Ok(Ok(PortChoice::Name(text)));
    }
    let first: u16 = text.parse().map_err(|_| wrong())?;
    if first == 0 {
        return Ok(Ok(PortChoice::Range(1, u16::MAX)));
    }
    let last = match node.get("endPort") {
        Some(end) => {
            let number = end.value().as_u64().and_then(|it| u16::try_from(it).ok());
            number.ok_or_else(|| end.error("a port from 0 to 65535 is expected"))?
        }
        None => 0,
    };
    Ok(Ok(PortChoice::Range(first, if last == 0 { first } else { last })))
}
