//! Permissions to list, and what is unknown without them.

use policy_crds::Kind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

/// Extent to which a kind could be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListScope {
    /// In the whole cluster.
    Everywhere,
    /// The cluster does not serve the kind, so there are no objects.
    Absent,
    /// In this namespace only, because listing the whole cluster was forbidden with this message.
    Namespace {
        /// The namespace.
        namespace: Arc<str>,
        /// The API server's message.
        refusal: Arc<str>,
    },
    /// Not at all, as far as it was attempted.
    Denied {
        /// The API server's message.
        refusal: Arc<str>,
    },
}

/// Extent to which each kind could be listed. Kinds without an entry were not requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListPermissions(BTreeMap<Kind, ListScope>);

/// A kind that could not be listed, as printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ListFailure {
    /// `servers.policy.linkerd.io`.
    pub(crate) resource: String,
    /// Scope in which it cannot be listed.
    pub(crate) r#where: String,
    /// `forbidden` or `absent`.
    pub(crate) why: &'static str,
    /// The API server's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

impl ListFailure {
    /// True if only namespaces other than the selected one cannot be listed.
    pub(crate) fn is_in_other_namespaces(&self) -> bool {
        self.r#where.starts_with(OTHER_NAMESPACES)
    }
}

/// Prefix of a scope that excludes only the selected namespace.
const OTHER_NAMESPACES: &str = "namespaces other than";

/// The reason of lists that the API server refuses.
pub(crate) const FORBIDDEN: &str = "forbidden";

/// The first resources by name, and the number of the others.
fn shortened(resources: &[String]) -> Option<String> {
    let (first, more) = resources.split_first()?;
    Some(match more {
        [] => first.clone(),
        [second] => format!("{first} and {second}"),
        more => format!("{first} and {} more kinds", more.len()),
    })
}

/// The resource as the API server names it: `servers.policy.linkerd.io`.
pub(crate) fn resource(kind: Kind) -> String {
    match kind.group() {
        "" => kind.plural().to_owned(),
        group => format!("{}.{group}", kind.plural()),
    }
}

impl ListPermissions {
    /// Records the extent to which a kind could be listed.
    pub(crate) fn record(&mut self, kind: Kind, scope: ListScope) {
        self.0.insert(kind, scope);
    }

    /// True if all objects of this kind in this namespace were listed.
    pub(crate) fn can_list(&self, kind: Kind, namespace: &str) -> bool {
        match self.0.get(&kind) {
            None | Some(ListScope::Everywhere | ListScope::Absent) => true,
            Some(ListScope::Namespace { namespace: only, .. }) => **only == *namespace,
            Some(ListScope::Denied { .. }) => false,
        }
    }

    /// True if all objects of this kind were listed, in every namespace.
    pub(crate) fn can_list_everywhere(&self, kind: Kind) -> bool {
        matches!(self.0.get(&kind), None | Some(ListScope::Everywhere | ListScope::Absent))
    }

    /// True if nothing could be listed of all that the cluster serves.
    pub(crate) fn can_list_nothing(&self) -> bool {
        let mut served = self.0.values().filter(|scope| !matches!(scope, ListScope::Absent));
        served.clone().next().is_some() && served.all(|e| matches!(e, ListScope::Denied { .. }))
    }

    /// All lists that failed, including kinds that the cluster does not serve, except those of SMI, which is
    /// archived: hardly any cluster has them.
    pub(crate) fn failures(&self) -> Vec<ListFailure> {
        let failure = |(kind, scope): (&Kind, &ListScope)| {
            let (place, why, message) = match scope {
                ListScope::Everywhere => return None,
                ListScope::Absent if kind.group().ends_with(".smi-spec.io") => return None,
                ListScope::Absent => ("the cluster".to_owned(), "absent", None),
                ListScope::Namespace { namespace, refusal } => {
                    let place = format!("{OTHER_NAMESPACES} {namespace}");
                    (place, FORBIDDEN, Some(refusal.to_string()))
                }
                ListScope::Denied { refusal } => {
                    let place = if kind.is_namespaced() { "any namespace" } else { "the cluster" };
                    (place.to_owned(), FORBIDDEN, Some(refusal.to_string()))
                }
            };
            Some(ListFailure { resource: resource(*kind), r#where: place, why, message })
        };
        self.0.iter().filter_map(failure).collect()
    }

    /// Summary of the forbidden lists for people, in one line; `None` if there are none.
    pub(crate) fn summary(&self) -> Option<String> {
        let mut by_place: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for failure in self.failures().into_iter().filter(|failure| failure.why == FORBIDDEN) {
            by_place.entry(failure.r#where).or_default().push(failure.resource);
        }
        let parts = by_place.into_iter().filter_map(|(place, resources)| {
            let shown = shortened(&resources)?;
            Some(format!("{shown} in {place}"))
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("you may not list {}", parts.join(", nor ")))
    }

    /// Manifest of a ClusterRole that would allow the forbidden lists; empty if there are none.
    pub(crate) fn cluster_role(&self) -> String {
        let refused = |scope: &ListScope| {
            matches!(scope, ListScope::Namespace { .. } | ListScope::Denied { .. })
        };
        let missing: BTreeSet<Kind> =
            self.0.iter().filter(|(_, scope)| refused(scope)).map(|(kind, _)| *kind).collect();
        if missing.is_empty() {
            return String::new();
        }
        let mut by_group: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for kind in missing {
            by_group.entry(kind.group()).or_default().push(kind.plural());
        }
        let mut text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n\
                        metadata: {name: portcullis-list}\nrules:\n"
            .to_owned();
        for (group, resources) in by_group {
            let resources = resources.join(", ");
            let _ = writeln!(
                text,
                "- {{apiGroups: [\"{group}\"], resources: [{resources}], verbs: [list]}}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: Kind) -> ListPermissions {
        let mut permissions = ListPermissions::default();
        permissions.record(kind, ListScope::Denied { refusal: "no".into() });
        permissions
    }

    #[test]
    fn what_is_forbidden_is_not_known_and_what_is_absent_is() {
        let permissions = refused(Kind::Server);
        assert!(
            !permissions.can_list(Kind::Server, "shop") && permissions.can_list(Kind::Pod, "shop")
        );
        let mut permissions = ListPermissions::default();
        permissions.record(Kind::GrpcRoute, ListScope::Absent);
        assert!(permissions.can_list(Kind::GrpcRoute, "shop"));
        let only = ListScope::Namespace { namespace: "shop".into(), refusal: "no".into() };
        permissions.record(Kind::Server, only);
        assert!(
            permissions.can_list(Kind::Server, "shop")
                && !permissions.can_list(Kind::Server, "bank")
        );
    }

    #[test]
    fn a_kind_that_no_cluster_needs_is_no_gap_and_hides_none() {
        let mut permissions = ListPermissions::default();
        permissions.record(Kind::TrafficTarget, ListScope::Absent);
        assert!(permissions.failures().is_empty() && !permissions.can_list_nothing());
        permissions.record(Kind::Server, ListScope::Denied { refusal: "no".into() });
        assert!(permissions.can_list_nothing());
        permissions.record(Kind::GrpcRoute, ListScope::Absent);
        let gaps = permissions.failures();
        assert_eq!(gaps.len(), 2);
    }

    #[test]
    fn the_role_gives_exactly_what_is_missing() {
        let mut permissions = refused(Kind::Server);
        permissions.record(Kind::Pod, ListScope::Denied { refusal: "no".into() });
        permissions.record(Kind::Node, ListScope::Everywhere);
        assert_eq!(
            permissions.cluster_role(),
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n\
             metadata: {name: portcullis-list}\nrules:\n\
             - {apiGroups: [\"\"], resources: [pods], verbs: [list]}\n\
             - {apiGroups: [\"policy.linkerd.io\"], resources: [servers], verbs: [list]}\n"
        );
        assert_eq!(
            permissions.summary().unwrap(),
            "you may not list servers.policy.linkerd.io and pods in any namespace"
        );
        let elsewhere = |kind: Kind| {
            (kind, ListScope::Namespace { namespace: "shop".into(), refusal: "no".into() })
        };
        for (kind, scope) in [Kind::Service, Kind::PolicyHttpRoute, Kind::GrpcRoute].map(elsewhere)
        {
            permissions.record(kind, scope);
        }
        let summary = permissions.summary().unwrap();
        let all = summary.ends_with(" and 2 more kinds in namespaces other than shop");
        assert!(all && summary.contains(" in any namespace, nor "), "{summary}");
        assert_eq!(ListPermissions::default().summary(), None);
        assert_eq!(ListPermissions::default().cluster_role(), "");
    }

    #[test]
    fn the_documented_role_lists_everything_that_policy_depends_on() {
        let mut permissions = ListPermissions::default();
        for kind in Kind::watched() {
            permissions.record(kind, ListScope::Denied { refusal: "no".into() });
        }
        let documented = include_str!("../../../docs/cli.md");
        let role = permissions.cluster_role();
        assert!(documented.contains(&role), "docs/cli.md, Rights, needs:\n{role}");
    }
}
