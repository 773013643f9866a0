//! The status of an InboundRoute, as far as later decisions depend on it. An entry that cannot be read
//! is left out: it can postpone a claim and never advance one.

use crate::inbound::{PathPrefix, Recorded};
use crate::kinds::route::host;
use crate::object::ObjectKey;
use policy_core::HostPattern;
use serde_json::Value;

/// The most entries of each list that are read.
const MAX_ENTRIES: usize = 4096;

/// Reads a status; `None` if it records nothing.
pub(crate) fn recorded(status: &Value) -> Option<Recorded> {
    let claims = list(status, "claims").filter_map(claim).collect();
    let states = || list(status, "delegationStatuses").filter_map(|entry| entry.get("state"));
    let connected = states().filter_map(|state| connected(state.get("connected")?)).collect();
    let orphaned = states().filter_map(|state| orphaned(state.get("orphaned")?)).collect();
    let recorded = Recorded { claims, connected, orphaned };
    (recorded != Recorded::default()).then_some(recorded)
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten().take(MAX_ENTRIES)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

fn time(value: &Value, name: &str) -> Option<i64> {
    let time: jiff::Timestamp = text(value, name)?.parse().ok()?;
    Some(time.as_second())
}

fn path(value: &Value, name: &str) -> Option<PathPrefix> {
    PathPrefix::parse(text(value, name)?).ok()
}

fn claim(value: &Value) -> Option<((HostPattern, PathPrefix), i64)> {
    let host = text(value, "host").filter(|host| host::check(host).is_ok())?;
    Some(((HostPattern::parse(host), path(value, "path")?), time(value, "claimedAt")?))
}

fn parent(value: &Value) -> Option<ObjectKey> {
    let (namespace, name) = (text(value, "namespace")?, text(value, "name")?);
    Some(Recorded::parent(namespace, name))
}

fn connected(value: &Value) -> Option<(ObjectKey, PathPrefix, i64)> {
    let from = value.get("parent")?;
    Some((parent(from)?, path(from, "prefix")?, time(value, "connectedAt")?))
}

fn orphaned(value: &Value) -> Option<(ObjectKey, i64)> {
    Some((parent(value.get("lastParent")?)?, time(value, "since")?))
}
