//! The claims of an InboundRoute, its places in trees, and the state of its rules, in the form of its status.

use jiff::Timestamp;
use policy_engine::delegation::{ClaimEntry, DelegationEntry, DelegationState};
use serde::Serialize;
use serde_json::{Value, json};

/// The fields of the status of an InboundRoute besides its conditions. Empty for other objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delegation {
    /// The claims of a root.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) claims: Vec<Value>,
    /// The places of a vertex in trees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) delegation_statuses: Vec<Value>,
    /// The rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) routes: Vec<Value>,
}

impl Delegation {
    /// Reads the status of an object.
    pub(crate) fn of_status(object: &Value) -> Self {
        let list = |name: &str| {
            let list = object.get("status").and_then(|status| status.get(name));
            list.and_then(Value::as_array).cloned().unwrap_or_default()
        };
        Self {
            claims: list("claims"),
            delegation_statuses: list("delegationStatuses"),
            routes: list("routes"),
        }
    }

    /// Computes the status that an object would have.
    pub(crate) fn computed(state: &DelegationState) -> Self {
        let routes = state.routes.iter().map(|route| {
            let reason = route.reason.map(|reason| reason.as_str());
            let state = route.state.as_str();
            without_null(json!({"match": route.path.as_str(), "state": state, "reason": reason}))
        });
        Self {
            claims: state.claims.iter().map(|entry| claim(&entry)).collect(),
            delegation_statuses: state.delegations.iter().map(place).collect(),
            routes: routes.collect(),
        }
    }

    /// A line for each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let claims = self.claims.iter().map(|claim| {
            let since = text(claim, "claimedAt").map(|at| format!(" since {at}"));
            let named = format!("{} {}", or_dash(claim, "host"), or_dash(claim, "path"));
            format!("claim {named}: {}{}", outcome(claim, "state"), since.unwrap_or_default())
        });
        let places = self.delegation_statuses.iter().filter_map(|entry| {
            let (name, state) = entry.get("state")?.as_object()?.iter().next()?;
            let parent = state.get("parent").or_else(|| state.get("lastParent"));
            let parent = parent.map(|parent| {
                let prefix = text(parent, "prefix").map(|prefix| format!(" at {prefix}"));
                let (namespace, name) = (or_dash(parent, "namespace"), or_dash(parent, "name"));
                format!(" InboundRoute {namespace}/{name}{}", prefix.unwrap_or_default())
            });
            let word = match name.as_str() {
                "connected" => "connected by",
                "rejected" => "rejected from",
                _ => "orphaned, last of",
            };
            let why = reason(state);
            Some(format!("{word}{}{why}", parent.unwrap_or_else(|| " nobody".to_owned())))
        });
        let routes = self
            .routes
            .iter()
            .map(|route| format!("route {}: {}", or_dash(route, "match"), outcome(route, "state")));
        claims.chain(places).chain(routes).collect()
    }
}

fn claim(claim: &ClaimEntry) -> Value {
    without_null(json!({
        "host": claim.host.to_string(),
        "path": claim.path.as_str(),
        "state": if claim.active { "Active" } else { "Inactive" },
        "claimedAt": time(claim.claimed_at),
        "reason": claim.reason.map(|reason| reason.as_str()),
        "message": (!claim.message.is_empty()).then_some(&*claim.message),
    }))
}

fn place(entry: &DelegationEntry) -> Value {
    match entry {
        DelegationEntry::Connected { parent, prefix, fqdn, hosts, connected_at } => {
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            json!({"state": {"connected": without_null(json!({
                "parent": {"namespace": &*parent.namespace, "name": &*parent.name,
                           "prefix": prefix.as_str()},
                "fqdn": fqdn.to_string(), "hosts": hosts, "connectedAt": time(*connected_at),
            }))}})
        }
        DelegationEntry::Orphaned { last_parent, reason, since } => {
            let last = last_parent.as_ref();
            let last = last.map(|it| json!({"namespace": &*it.namespace, "name": &*it.name}));
            json!({"state": {"orphaned": without_null(json!({
                "lastParent": last, "reason": reason.as_str(), "since": time(*since),
            }))}})
        }
        DelegationEntry::Rejected { parent, prefix, reason, message } => {
            json!({"state": {"rejected": {
                "parent": {"namespace": &*parent.namespace, "name": &*parent.name,
                           "prefix": prefix.as_str()},
                "reason": reason.as_str(), "message": &**message,
            }}})
        }
    }
}

fn time(seconds: Option<i64>) -> Option<String> {
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok())?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn without_null(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

fn text<'v>(of: &'v Value, field: &str) -> Option<&'v str> {
    of.get(field).and_then(Value::as_str)
}

fn or_dash<'v>(of: &'v Value, field: &str) -> &'v str {
    text(of, field).unwrap_or("-")
}

fn outcome(of: &Value, field: &str) -> String {
    format!("{}{}", or_dash(of, field), reason(of))
}

/// The reason and the message of an entry, as far as it has them.
fn reason(of: &Value) -> String {
    let reason = text(of, "reason").map(|reason| format!(" ({reason})")).unwrap_or_default();
    let message = text(of, "message").map(|message| format!(": {message}")).unwrap_or_default();
    reason + &message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No command printed why a delegation is refused.
    #[test]
    fn what_a_status_says_of_trees_is_said_in_lines() {
        let object = json!({"status": {
            "claims": [
                {"host": "a.io", "path": "/", "state": "Active", "claimedAt": "2026-01-01T00:00:00Z"},
                {"host": "b.io", "path": "/", "state": "Inactive", "reason": "HostAlreadyClaimed",
                 "message": "another holds it"},
            ],
            "delegationStatuses": [
                {"state": {"connected": {"parent": {"namespace": "n", "name": "www", "prefix": "/f"}}}},
                {"state": {"rejected": {"parent": {"namespace": "n", "name": "x", "prefix": "/g"},
                           "reason": "PrefixNotContained", "message": "`/h` is outside"}}},
                {"state": {"orphaned": {"lastParent": {"namespace": "n", "name": "y"},
                           "reason": "GrantRevoked"}}},
                {"state": {"orphaned": {"reason": "NeverDelegated"}}},
            ],
            "routes": [{"match": "/f", "state": "Blackholed", "reason": "TooLarge"}],
        }});
        assert_eq!(
            Delegation::of_status(&object).lines(),
            [
                "claim a.io /: Active since 2026-01-01T00:00:00Z",
                "claim b.io /: Inactive (HostAlreadyClaimed): another holds it",
                "connected by InboundRoute n/www at /f",
                "rejected from InboundRoute n/x at /g (PrefixNotContained): `/h` is outside",
                "orphaned, last of InboundRoute n/y (GrantRevoked)",
                "orphaned, last of nobody (NeverDelegated)",
                "route /f: Blackholed (TooLarge)",
            ]
        );
        assert_eq!(Delegation::of_status(&json!({})), Delegation::default());
    }
}
