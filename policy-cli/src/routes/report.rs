//! Output of `portcullis routes`.

use crate::authz::ClientRequirement;
use crate::cluster::QuerySource;
use crate::cluster::permissions::ListFailure;
use crate::cluster::settings::Settings;
use crate::grants::NamedObject;
use serde::Serialize;
use serde_json::Value;

/// Result of `portcullis routes`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoutesReport {
    /// Source of the objects.
    #[serde(rename = "asked")]
    pub(crate) source: QuerySource,
    /// Settings that the objects are compiled with.
    pub(crate) settings: Settings,
    /// Kinds that could not be listed.
    #[serde(rename = "gaps")]
    pub(crate) list_failures: Vec<ListFailure>,
    /// Resources that decide hosts and delegations, and could not be listed.
    pub(crate) not_known: Vec<String>,
    /// The host that was asked for, or all hosts.
    pub(crate) hosts: Vec<HostItem>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostItem {
    /// The host in canonical form, or a wildcard.
    pub(crate) host: String,
    /// The wildcard that covers it, where it is not claimed itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) covered_by: Option<String>,
    /// The roots that hold it.
    pub(crate) owners: Vec<NamedObject>,
    /// Claims on it, and with HOST also those on hosts that overlap, in order of time.
    pub(crate) claims: Vec<ClaimItem>,
    /// Invalid InboundRoutes that name it; they claim nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) invalid: Vec<InvalidItem>,
    /// Number of rules, on every level.
    pub(crate) rules: usize,
    /// Number of those that are denied.
    pub(crate) denied: usize,
    /// The tree of each root; absent in the table of all hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trees: Option<Vec<TreeItem>>,
}

/// A claim of a root on a path of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimItem {
    /// The root.
    pub(crate) root: NamedObject,
    /// The host.
    pub(crate) host: String,
    /// The path.
    pub(crate) path: String,
    /// True if the root holds it.
    pub(crate) active: bool,
    /// Time from which it counts; absent: not recorded yet, after all claims that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claimed_at: Option<String>,
    /// Reason of an inactive claim, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// The same for people, or a remark on an active claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// An InboundRoute that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InvalidItem {
    /// The object.
    pub(crate) object: NamedObject,
    /// The rules that it breaks.
    pub(crate) errors: Vec<String>,
}

/// The tree of a root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TreeItem {
    /// Requirements of the root that every client must fulfil.
    pub(crate) requires: Vec<ClientRequirement>,
    /// The root.
    #[serde(flatten)]
    pub(crate) root: ObjectItem,
}

/// An object of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectItem {
    /// The object.
    pub(crate) object: NamedObject,
    /// Its rules; of an HTTPRoute or GRPCRoute one, at the path that is delegated to it.
    pub(crate) rules: Vec<RuleItem>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuleItem {
    /// Its path.
    pub(crate) path: String,
    /// Its effect.
    pub(crate) effect: RuleEffect,
    /// Requests that a route answers; everything else below the path is denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) matches: Vec<String>,
    /// The Servers that answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) servers: Vec<ServerItem>,
    /// The objects that the path is delegated to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) children: Vec<ObjectItem>,
    /// Delegations that are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<RefusedItem>,
    /// The rule or root that has the path instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// The effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RuleEffect {
    /// Servers answer.
    Serves,
    /// Others answer.
    Delegates,
    /// The path is denied.
    Denied,
    /// The path is denied unless what may not be listed completes a delegation.
    NotKnown,
    /// Another rule has the path.
    Shadowed,
    /// Another root holds the path.
    Inactive,
}

/// A Server that answers a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerItem {
    /// The Server.
    pub(crate) server: NamedObject,
    /// Reason why it denies everything, or is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// Grants, those of the object before those of the Server, as the root restricts them.
    pub(crate) grants: Vec<GrantItem>,
    /// Changes of requests and responses that it permits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) effects: Vec<String>,
    /// Grants without effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) withheld: Vec<WithheldItem>,
    /// Resources that may grant more, and may not be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_known: Vec<String>,
}

/// A grant on a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrantItem {
    /// The object that grants it.
    pub(crate) by: String,
    /// True if it is granted on the Server and inherited.
    pub(crate) inherited: bool,
    /// True if any client can be admitted.
    pub(crate) granted: bool,
    /// Requirements that a client must fulfil, all of them.
    pub(crate) requires: Vec<ClientRequirement>,
    /// The same in words.
    #[serde(skip)]
    pub(crate) who: String,
}

/// A grant without effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WithheldItem {
    /// The object that contains it.
    pub(crate) by: String,
    /// The reason.
    pub(crate) reason: String,
}

/// A delegation that is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusedItem {
    /// The object, if it has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<NamedObject>,
    /// The reason, for programs.
    pub(crate) reason: &'static str,
    /// The same for people.
    pub(crate) message: String,
    /// True if what may not be listed could complete it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) not_known: bool,
    /// Steps that would complete it.
    pub(crate) missing: Vec<MissingItem>,
}

/// One step that would complete a delegation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MissingItem {
    /// The step in words.
    pub(crate) what: String,
    /// An object to apply, or the fields to add to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) manifest: Option<Value>,
}

impl HostItem {
    /// Counts its rules and those that are denied.
    pub(super) fn count(&mut self, trees: &[TreeItem]) {
        for tree in trees {
            self.count_object(&tree.root);
        }
    }

    fn count_object(&mut self, object: &ObjectItem) {
        for rule in &object.rules {
            self.rules = self.rules.saturating_add(1);
            self.denied =
                self.denied.saturating_add(usize::from(rule.effect == RuleEffect::Denied));
            for child in &rule.children {
                self.count_object(child);
            }
        }
    }
}
