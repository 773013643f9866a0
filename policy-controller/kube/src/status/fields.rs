//! The fields of a status besides its conditions: the claims and delegations of an InboundRoute, and
//! the rules in effect of a RouteAdmissionPolicy.
//!
//! The time of a claim decides who holds a host. A time that the status has is kept for as long as
//! the claim or the connection lasts, and a new one is recorded once, by the leader's clock. A claim
//! that is not admitted has no time.

use super::item::Item;
use super::message::bounded;
use jiff::Timestamp;
use policy_crds::ObjectKey;
use policy_engine::delegation::{ClaimEntry, DelegationEntry, DelegationState};
use policy_engine::desired_conditions::StatusFields;
use serde_json::{Map, Value, json};

/// The most claims that a status has: of 64 paths on 17 hosts, which is all that an object may have. A
/// claim without a recorded time is behind all others once its object is edited.
const MAX_CLAIMS: usize = 1088;
/// The most delegations that a status has.
const MAX_DELEGATIONS: usize = 64;
/// The size of the claims of a status at most, because etcd limits that of an object to 1.5 MiB.
const MAX_CLAIM_BYTES: usize = 512 * 1024;
/// The size of a claim without its texts.
const CLAIM_BYTES: usize = 160;
/// The time by which the clocks of two leaders may differ. A recorded time further in the future was
/// not written by this project.
const MAX_SKEW_SECONDS: i64 = 3600;

/// The fields to write, and whether one of them differs from the current status.
pub(super) fn fields(
    item: &Item,
    desired: &StatusFields,
    now: Timestamp,
) -> (Map<String, Value>, bool) {
    let lists = match desired {
        StatusFields::Admission { ownership, wildcards } => {
            let rules = json!({"namespaceOwnership": ownership, "wildcardPolicy": wildcards});
            let differs = item.status.get("routeAdmission") != Some(&rules);
            return (Map::from_iter([("routeAdmission".to_owned(), rules)]), differs);
        }
        StatusFields::Group(size) => {
            let differs = item.status.get("routes").and_then(Value::as_u64)
                != size.and_then(|size| u64::try_from(size).ok());
            let fields = size.map(|size| ("routes".to_owned(), json!(size)));
            return (fields.into_iter().collect(), differs);
        }
        // An invalid object that keeps no claim. One that does has a state.
        StatusFields::Delegation(None) => {
            [("claims", vec![]), ("delegationStatuses", vec![]), ("routes", vec![])]
        }
        StatusFields::Delegation(Some(state)) => delegation(item, state, now),
    };
    let mut fields = Map::new();
    let mut differs = false;
    for (name, entries) in lists {
        let current = list(&item.status, name);
        differs |= current != entries.as_slice();
        // An empty list replaces one of another client, which leaving the field out would not.
        if !entries.is_empty() || !current.is_empty() {
            fields.insert(name.to_owned(), entries.into());
        }
    }
    (fields, differs)
}

/// The remark on what a status does not show; `None` if it shows all.
pub(super) fn omissions(fields: &StatusFields) -> Option<String> {
    let StatusFields::Delegation(Some(state)) = fields else { return None };
    let (claims, delegations) = (state.claims.len(), state.delegations.len());
    let mut words = Vec::new();
    let shown = shown(state).len();
    if shown < claims {
        words.push(format!("the status has only {shown} of {claims} claims and their times"));
    }
    if delegations > MAX_DELEGATIONS {
        words.push(format!("the status has only {MAX_DELEGATIONS} of {delegations} delegations"));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

/// The claims that the status has. Their messages do not count: they must not push a recorded time
/// out.
fn shown(state: &DelegationState) -> Vec<ClaimEntry> {
    let mut bytes = 0_usize;
    let fits = |claim: &ClaimEntry| {
        let texts = [claim.host.name().len(), encoded(claim.path.as_str())];
        bytes = texts.into_iter().chain([CLAIM_BYTES, bytes]).fold(0, usize::saturating_add);
        bytes <= MAX_CLAIM_BYTES
    };
    state.claims.iter().take(MAX_CLAIMS).take_while(fits).collect()
}

/// The length of a text as the API server stores it: it writes `&`, `<` and `>` as six bytes.
fn encoded(text: &str) -> usize {
    let escaped = text.bytes().filter(|byte| matches!(byte, b'&' | b'<' | b'>')).count();
    text.len().saturating_add(escaped.saturating_mul(5))
}

type Lists = [(&'static str, Vec<Value>); 3];

fn delegation(item: &Item, state: &DelegationState, now: Timestamp) -> Lists {
    let times = Times::of(item, now);
    let current = list(&item.status, "claims");
    let claims = shown(state);
    let claims = claims.iter().map(|entry| claim(&times, current, entry));
    let current = list(&item.status, "delegationStatuses");
    let delegations = state.delegations.iter().take(MAX_DELEGATIONS);
    let delegations = delegations.map(|entry| json!({"state": place(&times, current, entry)}));
    let routes = state.routes.iter().map(|route| {
        let mut entry = json!({"match": route.path.as_str(), "state": route.state.as_str()});
        set(&mut entry, "reason", route.reason.map(|reason| reason.as_str()));
        entry
    });
    [
        ("claims", claims.collect()),
        ("delegationStatuses", delegations.collect()),
        ("routes", routes.collect()),
    ]
}

fn claim(times: &Times, current: &[Value], claim: &ClaimEntry) -> Value {
    let (host, path) = (claim.host.to_string(), claim.path.as_str());
    let same = |entry: &&Value| text(entry, "host") == host && text(entry, "path") == path;
    let written = current.iter().find(same);
    let recorded = written.and_then(|entry| entry.get("claimedAt"));
    // One that was written without a time begins now, whatever the index knows.
    let known = claim.claimed_at.filter(|_| written.is_none() || recorded.is_some());
    let mut entry = json!({
        "host": host,
        "path": path,
        "state": if claim.active { "Active" } else { "Inactive" },
    });
    if let (true, Some(fields)) = (claim.admitted, entry.as_object_mut()) {
        fields.insert("claimedAt".to_owned(), times.of_claim(recorded, known, claim.after));
    }
    set(&mut entry, "reason", claim.reason.map(|reason| reason.as_str()));
    set(&mut entry, "message", Some(&*bounded(&claim.message)));
    entry
}

/// The `state` of an entry of `delegationStatuses`.
fn place(times: &Times, current: &[Value], entry: &DelegationEntry) -> Value {
    let states = || current.iter().filter_map(|entry| entry.get("state"));
    match entry {
        DelegationEntry::Connected { parent, prefix, fqdn, hosts, connected_at } => {
            let parent = delegator(parent, Some(prefix.as_str()));
            let fqdn = fqdn.to_string();
            let mut connections = states().filter_map(|state| state.get("connected"));
            let same = connections
                .find(|state| state.get("parent") == Some(&parent) && text(state, "fqdn") == fqdn);
            let since = same.and_then(|state| state.get("connectedAt"));
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            json!({"connected": {
                "parent": parent,
                "fqdn": fqdn,
                "hosts": hosts,
                "connectedAt": times.kept_or_new(since, *connected_at),
            }})
        }
        DelegationEntry::Orphaned { last_parent, reason, since } => {
            let last = last_parent.as_ref().map(|parent| delegator(parent, None));
            let mut orphaned = states().filter_map(|state| state.get("orphaned"));
            let same = orphaned.find(|state| state.get("lastParent") == last.as_ref());
            let recorded = same.and_then(|state| state.get("since"));
            let mut orphaned = json!({
                "reason": reason.as_str(),
                "since": times.kept_or_new(recorded, *since),
            });
            if let (Some(last), Some(fields)) = (last, orphaned.as_object_mut()) {
                fields.insert("lastParent".to_owned(), last);
            }
            json!({"orphaned": orphaned})
        }
        DelegationEntry::Rejected { parent, prefix, reason, message } => {
            let parent = delegator(parent, Some(prefix.as_str()));
            let mut rejected = json!({"parent": parent, "reason": reason.as_str()});
            set(&mut rejected, "message", Some(&*bounded(message)));
            json!({"rejected": rejected})
        }
    }
}

fn delegator(parent: &ObjectKey, prefix: Option<&str>) -> Value {
    let mut value = json!({"namespace": &*parent.namespace, "name": &*parent.name});
    set(&mut value, "prefix", prefix);
    value
}

/// The limits of times that count.
pub(super) struct Times {
    created: Option<i64>,
    now: Timestamp,
}

impl Times {
    /// The limits for an object.
    pub(super) fn of(item: &Item, now: Timestamp) -> Self {
        let created = item.metadata.creation_timestamp.as_deref();
        let created = created.and_then(|created| created.parse::<Timestamp>().ok());
        Self { created: created.map(Timestamp::as_second), now }
    }

    /// The time that the status has, or else the one that the index knows, or else now. The status
    /// is newer than the index. Nothing begins before the object exists.
    fn kept_or_new(&self, recorded: Option<&Value>, known: Option<i64>) -> Value {
        self.of_claim(recorded, known, None)
    }

    /// True if a time can be one that this project wrote.
    fn counts(&self, time: i64) -> bool {
        let latest = self.now.as_second().saturating_add(MAX_SKEW_SECONDS);
        time <= latest && self.created.is_none_or(|created| time >= created)
    }

    /// The time since which a route has a hostname, of which the status may have one. One that begins now is
    /// no earlier than the claims that it is behind, whatever the clock of this leader says.
    pub(super) fn of_hostname(
        &self,
        recorded: Option<i64>,
        since_created: bool,
        after: Option<i64>,
    ) -> i64 {
        let recorded = recorded.filter(|time| self.counts(*time));
        let created = self.created.filter(|_| since_created);
        let now = self.now.as_second();
        let begun = || self.created.max(after).map_or(now, |floor| floor.max(now));
        recorded.or(created).unwrap_or_else(begun)
    }

    /// The same of a claim. One that begins now is later than those that are in force: the clock of
    /// this leader may be behind that of the one before, and would give it a host that others hold.
    fn of_claim(&self, recorded: Option<&Value>, known: Option<i64>, after: Option<i64>) -> Value {
        let counts = |time: i64| self.counts(time);
        let time = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_second);
        if let Some(recorded) = recorded
            && recorded.as_str().and_then(time).is_some_and(counts)
        {
            return recorded.clone();
        }
        let known = known.filter(|time| counts(*time));
        let known = known.and_then(|time| Timestamp::from_second(time).ok());
        let after = after.map(|time| time.saturating_add(1));
        let floor = self.created.max(after).and_then(|at| Timestamp::from_second(at).ok());
        let now = self.now.max(floor.unwrap_or(self.now));
        json!(known.unwrap_or(now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

/// Sets a field to a text that is not empty.
fn set(entry: &mut Value, name: &str, text: Option<&str>) {
    let text = text.filter(|text| !text.is_empty());
    if let (Some(text), Some(fields)) = (text, entry.as_object_mut()) {
        fields.insert(name.to_owned(), json!(text));
    }
}

fn list<'a>(status: &'a Value, name: &str) -> &'a [Value] {
    status.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod over_time;
