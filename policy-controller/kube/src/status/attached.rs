//! The condition that records since when a route is attached to a Server of its namespace with its hostnames.
//!
//! A claim of another namespace closes only what is younger, so the times count as those of claims do: a time
//! that the status has stays for as long as the route has the hostname there, and a new one is recorded once,
//! by the leader's clock.

use super::desired::{DesiredCondition, ParentStatus, RECORDED};
use super::fields::Times;
use super::item::Item;
use policy_core::HostPattern;
use policy_crds::{AttachmentTimes, HOSTNAMES_ATTACHED, Kind, hostname};
use policy_engine::conditions::AttachedHostname;
use serde_json::Value;
use std::collections::BTreeSet;

/// The status about a parent with the record of its hostnames, if it is a Server of the namespace. `current`:
/// the conditions of the entry that the status has about it. While the route is invalid, what was recorded stays
/// for the hostnames that it may still have.
pub(super) fn with_record(
    item: &Item,
    about: &ParentStatus,
    current: Option<&[Value]>,
    now: jiff::Timestamp,
) -> ParentStatus {
    let mut about = about.clone();
    let own =
        about.server.kind == Kind::Server && *about.server.namespace == *item.metadata.namespace;
    if own && about.section.is_none() && about.port.is_none() {
        let former = current.map(former);
        let is_invalid =
            |one: &DesiredCondition| one.kind == "Accepted" && &*one.reason == "Invalid";
        let record = match about.conditions.iter().any(is_invalid) {
            true => listed(item, &former.unwrap_or_default()),
            false => recorded(item, &about.hostnames, former.as_ref(), now),
        };
        about.conditions.extend((!record.is_empty()).then(|| DesiredCondition {
            kind: HOSTNAMES_ATTACHED,
            status: "True",
            reason: RECORDED.into(),
            message: record.message().into(),
        }));
    }
    about
}

/// The times that these conditions record.
fn former(conditions: &[Value]) -> AttachmentTimes {
    let is_record =
        |one: &&Value| one.get("type").and_then(Value::as_str) == Some(HOSTNAMES_ATTACHED);
    let message = conditions.iter().find(is_record).and_then(|one| one.get("message")?.as_str());
    AttachmentTimes::read(message.unwrap_or_default())
}

/// The hostnames of an object; `None` if not all of them can be read.
fn hostnames(item: &Item) -> Option<BTreeSet<HostPattern>> {
    match item.spec.get("hostnames") {
        None | Some(Value::Null) => Some(BTreeSet::new()),
        Some(list) => list.as_array()?.iter().map(|host| hostname(host.as_str()?)).collect(),
    }
}

/// The recorded times of an invalid route, without those of hostnames that it certainly has no more.
fn listed(item: &Item, former: &AttachmentTimes) -> AttachmentTimes {
    let own = hostnames(item);
    let may_have = |host: &HostPattern| own.as_ref().is_none_or(|own| own.contains(host));
    former.iter().filter(|(host, _)| may_have(host)).map(|(host, at)| (host.clone(), at)).collect()
}

/// The time of each attached hostname: the one that is recorded, or else that of the creation of a route that was
/// never edited and has no status about the Server yet, or else now.
fn recorded(
    item: &Item,
    attached: &[AttachedHostname],
    former: Option<&AttachmentTimes>,
    now: jiff::Timestamp,
) -> AttachmentTimes {
    let times = Times::of(item, now);
    let own = hostnames(item).unwrap_or_default();
    let unedited = item.metadata.generation.is_none_or(|generation| generation == 1);
    let since_created = unedited && former.is_none();
    let attached = attached.iter().filter(|one| own.contains(&one.host));
    attached
        .map(|AttachedHostname { host, after }| {
            let recorded = former.and_then(|former| former.of(host));
            (host.clone(), times.of_hostname(recorded, since_created, *after))
        })
        .collect()
}
