//! The times that the status of an InboundRoute or a route records.
//!
//! The status is read leniently: an entry that cannot be read counts as if it were not there, so that
//! a damaged status can postpone a claim and never advance it.

use super::attachment_times::{AttachmentTimes, HOSTNAMES_ATTACHED};
use super::host;
use super::name::{is_dns_label, is_dns_name};
use crate::kind::Kind;
use crate::object::ObjectKey;
use crate::resource::{PathPrefix, Recorded, RecordedConnection, RecordedOrphan};
use policy_core::HostPattern;
use serde_json::Value;
use std::sync::Arc;

/// The most claims that a status can have: 64 paths on 17 hosts. Further ones are nobody's.
const MAX_CLAIMS: usize = 1088;

/// The most parents in the status of a route (Gateway API, `RouteStatus`).
const MAX_PARENTS: usize = 32;

/// Reads the `status` of an object; `None` if it records nothing.
pub(super) fn read(of: &ObjectKey, status: &Value) -> Option<Arc<Recorded>> {
    let recorded = if of.kind == Kind::InboundRoute {
        of_inbound_route(status)
    } else if of.kind.is_route() {
        of_route(of, status)
    } else {
        return None;
    };
    (recorded != Recorded::default()).then(|| Arc::new(recorded))
}

/// The hostnames with which a route is attached to Servers of its namespace.
fn of_route(route: &ObjectKey, status: &Value) -> Recorded {
    let mut recorded = Recorded::default();
    for entry in entries(status, "parents").take(MAX_PARENTS) {
        let Some(server) = entry.get("parentRef").and_then(|parent| server(route, parent)) else {
            continue;
        };
        let Some(controller) = text(entry, "controllerName") else { continue };
        let of_server = recorded.attached.entry((controller.into(), server)).or_default();
        let is_record = |one: &&Value| text(one, "type") == Some(HOSTNAMES_ATTACHED);
        let record = entries(entry, "conditions").find(is_record);
        let Some(message) = record.and_then(|record| text(record, "message")) else { continue };
        for (host, time) in AttachmentTimes::read(message).iter() {
            of_server.entry(host.clone()).or_insert(time);
        }
    }
    recorded
}

/// The name of the Server of the route's namespace that a reference names as a whole.
fn server(route: &ObjectKey, parent: &Value) -> Option<Arc<str>> {
    let group = text(parent, "group").unwrap_or(route.kind.group());
    let whole = ["port", "sectionName"].iter().all(|name| parent.get(name).is_none());
    let local = text(parent, "namespace").is_none_or(|namespace| *namespace == *route.namespace);
    let server = Kind::Server;
    let is_server = group == server.group() && text(parent, "kind") == Some(server.as_str());
    let name = text(parent, "name").filter(|text| is_dns_name(text))?;
    (is_server && local && whole).then(|| name.into())
}

fn of_inbound_route(status: &Value) -> Recorded {
    let mut recorded = Recorded::default();
    for entry in entries(status, "claims").take(MAX_CLAIMS) {
        let Some(claim) = claim(entry) else { continue };
        match entry.get("claimedAt").filter(|time| !time.is_null()) {
            Some(_) => recorded.claims.extend(time(entry, "claimedAt").map(|time| (claim, time))),
            None => recorded.postponed = true,
        }
    }
    recorded.postponed |= entries(status, "conditions").any(is_invalid);
    for entry in entries(status, "delegationStatuses") {
        let Some(state) = entry.get("state") else { continue };
        recorded.connected.extend(state.get("connected").and_then(connection));
        recorded.orphaned.extend(state.get("orphaned").and_then(orphan));
    }
    recorded
}

fn entries<'a>(status: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    status.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// True for the condition of an object that breaks a rule of its kind.
fn is_invalid(condition: &Value) -> bool {
    let is = |name: &str, value: &str| text(condition, name) == Some(value);
    is("type", "Accepted") && is("status", "False") && is("reason", "Invalid")
}

fn claim(entry: &Value) -> Option<(HostPattern, PathPrefix)> {
    let host = host::pattern(text(entry, "host")?).ok()?;
    let path = PathPrefix::parse(text(entry, "path")?).ok()?;
    Some((host, path))
}

fn connection(entry: &Value) -> Option<RecordedConnection> {
    let parent = entry.get("parent")?;
    let prefix = PathPrefix::parse(text(parent, "prefix")?).ok()?;
    Some(RecordedConnection { parent: key(parent)?, prefix, since: time(entry, "connectedAt")? })
}

fn orphan(entry: &Value) -> Option<RecordedOrphan> {
    let last_parent = key(entry.get("lastParent")?)?;
    Some(RecordedOrphan { last_parent, since: time(entry, "since") })
}

/// The InboundRoute of a `namespace` and a `name`.
fn key(parent: &Value) -> Option<ObjectKey> {
    let namespace = text(parent, "namespace").filter(|text| is_dns_label(text))?;
    let name = text(parent, "name").filter(|text| is_dns_name(text))?;
    Some(ObjectKey { kind: Kind::InboundRoute, namespace: namespace.into(), name: name.into() })
}

fn text<'a>(entry: &'a Value, name: &str) -> Option<&'a str> {
    entry.get(name)?.as_str()
}

fn time(entry: &Value, name: &str) -> Option<i64> {
    text(entry, name)?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}
