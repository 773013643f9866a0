//! What could not be listed, and what is therefore not known.

use policy_crds::Kind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

/// How far a kind could be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// In the whole cluster.
    Everywhere,
    /// The cluster does not have the kind, which is as good as listing none.
    Absent,
    /// In this namespace only: the whole cluster was refused, in these words.
    Only {
        /// Where.
        namespace: Arc<str>,
        /// The API server's words.
        refusal: Arc<str>,
    },
    /// Nowhere that was asked.
    Nothing {
        /// The API server's words.
        refusal: Arc<str>,
    },
}

/// How far each kind could be listed. Kinds that it does not name were not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gaps(BTreeMap<Kind, Extent>);

/// A kind that could not be listed, as output says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Gap {
    /// `servers.policy.linkerd.io`.
    pub(crate) resource: String,
    /// Where it cannot be listed.
    pub(crate) r#where: String,
    /// `forbidden` or `absent`.
    pub(crate) why: &'static str,
    /// The API server's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

impl Gap {
    /// Whether it is of other namespaces than the one that is asked about.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.r#where.starts_with(ELSEWHERE)
    }
}

/// How the words about other namespaces than one begin.
const ELSEWHERE: &str = "namespaces other than";

/// The resource as the API server names it: `servers.policy.linkerd.io`.
pub(crate) fn resource(kind: Kind) -> String {
    match kind.group() {
        "" => kind.plural().to_owned(),
        group => format!("{}.{group}", kind.plural()),
    }
}

impl Gaps {
    /// Notes how far a kind could be listed.
    pub(crate) fn note(&mut self, kind: Kind, extent: Extent) {
        self.0.insert(kind, extent);
    }

    /// Whether everything of this kind in this namespace has been listed.
    pub(crate) fn knows(&self, kind: Kind, namespace: &str) -> bool {
        match self.0.get(&kind) {
            None | Some(Extent::Everywhere | Extent::Absent) => true,
            Some(Extent::Only { namespace: only, .. }) => **only == *namespace,
            Some(Extent::Nothing { .. }) => false,
        }
    }

    /// Whether everything of this kind has been listed, wherever it is.
    pub(crate) fn knows_everywhere(&self, kind: Kind) -> bool {
        matches!(self.0.get(&kind), None | Some(Extent::Everywhere | Extent::Absent))
    }

    /// Whether nothing at all could be listed.
    pub(crate) fn knows_nothing(&self) -> bool {
        !self.0.is_empty() && self.0.values().all(|e| matches!(e, Extent::Nothing { .. }))
    }

    /// Everything that is missing, kinds that the cluster does not have included.
    pub(crate) fn told(&self) -> Vec<Gap> {
        let gap = |(kind, extent): (&Kind, &Extent)| {
            let (place, why, message) = match extent {
                Extent::Everywhere => return None,
                Extent::Absent => ("the cluster".to_owned(), "absent", None),
                Extent::Only { namespace, refusal } => {
                    let place = format!("{ELSEWHERE} {namespace}");
                    (place, "forbidden", Some(refusal.to_string()))
                }
                Extent::Nothing { refusal } => {
                    let place = if kind.is_namespaced() { "any namespace" } else { "the cluster" };
                    (place.to_owned(), "forbidden", Some(refusal.to_string()))
                }
            };
            Some(Gap { resource: resource(*kind), r#where: place, why, message })
        };
        self.0.iter().filter_map(gap).collect()
    }

    /// What is forbidden, in a few lines for people; empty if nothing is.
    pub(crate) fn words(&self) -> String {
        let mut by_place: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for gap in self.told().into_iter().filter(|gap| gap.why == "forbidden") {
            by_place.entry(gap.r#where).or_default().push(gap.resource);
        }
        let mut text = String::new();
        for (place, resources) in by_place {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "may not be listed in {place}: {}", resources.join(", "));
        }
        text
    }

    /// The manifest of a role that would give what is missing; empty if nothing is.
    pub(crate) fn role(&self) -> String {
        let refused =
            |extent: &Extent| matches!(extent, Extent::Only { .. } | Extent::Nothing { .. });
        let missing: BTreeSet<Kind> =
            self.0.iter().filter(|(_, extent)| refused(extent)).map(|(kind, _)| *kind).collect();
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

    fn refused(kind: Kind) -> Gaps {
        let mut gaps = Gaps::default();
        gaps.note(kind, Extent::Nothing { refusal: "no".into() });
        gaps
    }

    #[test]
    fn what_is_forbidden_is_not_known_and_what_is_absent_is() {
        let gaps = refused(Kind::Server);
        assert!(!gaps.knows(Kind::Server, "shop") && gaps.knows(Kind::Pod, "shop"));
        let mut gaps = Gaps::default();
        gaps.note(Kind::GrpcRoute, Extent::Absent);
        assert!(gaps.knows(Kind::GrpcRoute, "shop"));
        let only = Extent::Only { namespace: "shop".into(), refusal: "no".into() };
        gaps.note(Kind::Server, only);
        assert!(gaps.knows(Kind::Server, "shop") && !gaps.knows(Kind::Server, "bank"));
    }

    #[test]
    fn the_role_gives_exactly_what_is_missing() {
        let mut gaps = refused(Kind::Server);
        gaps.note(Kind::Pod, Extent::Nothing { refusal: "no".into() });
        gaps.note(Kind::Node, Extent::Everywhere);
        assert_eq!(
            gaps.role(),
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n\
             metadata: {name: portcullis-list}\nrules:\n\
             - {apiGroups: [\"\"], resources: [pods], verbs: [list]}\n\
             - {apiGroups: [\"policy.linkerd.io\"], resources: [servers], verbs: [list]}\n"
        );
        assert_eq!(
            gaps.words(),
            "may not be listed in any namespace: servers.policy.linkerd.io, pods\n"
        );
        assert_eq!(Gaps::default().role(), "");
    }
}
