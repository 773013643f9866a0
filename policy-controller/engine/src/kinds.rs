//! The registry: one row per kind, with everything that is not particular to one stage.

use policy_crds::Kind;

/// What is known of a kind before any object of it is seen.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// Where its objects live.
    pub scope: Scope,
    /// Whether a cluster is asked for its objects.
    pub watched: Watched,
    /// Status fields that are read as history. Status is otherwise an output only.
    pub recorded: &'static [&'static str],
    /// Whether an AuthorizationPolicy may name it as `targetRef`.
    pub is_target: bool,
    /// Its reference fields.
    pub references: &'static [Reference],
}

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// Whether a cluster is asked for objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Always: while it cannot be listed the controller is not ready.
    Required,
    /// If the cluster has it. Its definition may be installed and removed while the controller
    /// runs; absent counts as empty.
    IfPresent,
    /// Never: it means something in manifests only (a Deployment stands for its pods there), or is
    /// its owner's concern.
    Never,
}

/// A field that names other objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Which field.
    pub field: Field,
    /// Its path, for messages.
    pub path: &'static str,
    /// The kinds it may name.
    pub to: &'static [Kind],
    /// What a name in another namespace needs.
    pub grant: GrantRule,
}

/// The reference fields there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `parentRefs` of a route.
    Parent,
    /// `targetRef` of a policy.
    Target,
    /// `requiredAuthenticationRefs`, as far as they name authentications.
    Authentication,
    /// References that name a client: they grant it access and read nothing of it.
    Client,
    /// `server.name` of a ServerAuthorization.
    Server,
}

/// What a reference into another namespace needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRule {
    /// It cannot be written: the field names objects of its own namespace only.
    Local,
    /// A ReferenceGrant there, always.
    Grant,
    /// A ReferenceGrant there, unless that namespace is shared or grants are only warned about.
    GrantUnlessShared,
    /// Nothing: naming a client grants it access to us, and reads nothing of it.
    Exempt,
}

const ROUTE: &[Reference] = &[Reference {
    field: Field::Parent,
    path: "spec.parentRefs",
    to: &[Kind::Server],
    grant: GrantRule::Grant,
}];

/// Every kind.
pub const REGISTRY: &[Row] = &[
    Row { is_target: true, ..row(Kind::Server) },
    Row {
        references: &[
            Reference {
                field: Field::Server,
                path: "spec.server",
                to: &[Kind::Server],
                grant: GrantRule::Local,
            },
            Reference {
                field: Field::Client,
                path: "spec.client.meshTLS.serviceAccounts",
                to: &[Kind::ServiceAccount],
                grant: GrantRule::Exempt,
            },
        ],
        ..row(Kind::ServerAuthorization)
    },
    Row {
        references: &[
            Reference {
                field: Field::Target,
                path: "spec.targetRef",
                to: &[
                    Kind::Server,
                    Kind::Namespace,
                    Kind::PolicyHttpRoute,
                    Kind::GatewayHttpRoute,
                    Kind::GrpcRoute,
                ],
                grant: GrantRule::Local,
            },
            Reference {
                field: Field::Authentication,
                path: "spec.requiredAuthenticationRefs",
                to: &[Kind::MeshTlsAuthentication, Kind::NetworkAuthentication],
                grant: GrantRule::GrantUnlessShared,
            },
            Reference {
                field: Field::Client,
                path: "spec.requiredAuthenticationRefs",
                to: &[Kind::ServiceAccount],
                grant: GrantRule::Exempt,
            },
        ],
        ..row(Kind::AuthorizationPolicy)
    },
    Row {
        references: &[Reference {
            field: Field::Client,
            path: "spec.identityRefs",
            to: &[Kind::ServiceAccount, Kind::Namespace],
            grant: GrantRule::Exempt,
        }],
        ..row(Kind::MeshTlsAuthentication)
    },
    row(Kind::NetworkAuthentication),
    Row {
        references: &[
            Reference {
                field: Field::Target,
                path: "spec.targetRef",
                to: &[Kind::Server],
                grant: GrantRule::Local,
            },
            Reference {
                field: Field::Client,
                path: "spec.overrides.clientRefs",
                to: &[Kind::ServiceAccount],
                grant: GrantRule::Exempt,
            },
        ],
        ..row(Kind::HttpLocalRateLimitPolicy)
    },
    Row { is_target: true, references: ROUTE, ..row(Kind::PolicyHttpRoute) },
    Row { watched: Watched::Never, ..row(Kind::EgressNetwork) },
    Row {
        is_target: true,
        references: ROUTE,
        watched: Watched::IfPresent,
        ..row(Kind::GatewayHttpRoute)
    },
    Row { is_target: true, references: ROUTE, watched: Watched::IfPresent, ..row(Kind::GrpcRoute) },
    Row { watched: Watched::IfPresent, ..row(Kind::ReferenceGrant) },
    Row { watched: Watched::IfPresent, ..row(Kind::ExternalWorkload) },
    row(Kind::Pod),
    Row { is_target: true, scope: Scope::Cluster, ..row(Kind::Namespace) },
    Row { scope: Scope::Cluster, ..row(Kind::Node) },
    row(Kind::ServiceAccount),
    Row { watched: Watched::Never, ..row(Kind::Deployment) },
    Row { watched: Watched::Never, ..row(Kind::StatefulSet) },
    Row { watched: Watched::Never, ..row(Kind::DaemonSet) },
    Row { watched: Watched::Never, ..row(Kind::ReplicaSet) },
    Row { watched: Watched::Never, ..row(Kind::Job) },
    Row { watched: Watched::Never, ..row(Kind::CronJob) },
];

const fn row(kind: Kind) -> Row {
    Row {
        kind,
        scope: Scope::Namespaced,
        watched: Watched::Required,
        recorded: &[],
        is_target: false,
        references: &[],
    }
}

/// The row of a reference field of a kind; absent: the kind has no such field for such a target.
pub fn reference(from: Kind, field: Field, to: Kind) -> Option<&'static Reference> {
    REGISTRY
        .iter()
        .filter(|row| row.kind == from)
        .flat_map(|row| row.references)
        .find(|reference| reference.field == field && reference.to.contains(&to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_exactly_one_row() {
        for kind in Kind::ALL {
            assert_eq!(REGISTRY.iter().filter(|row| row.kind == kind).count(), 1, "{kind:?}");
        }
        assert_eq!(REGISTRY.len(), Kind::ALL.len());
    }

    #[test]
    fn scopes_agree_with_the_kinds() {
        for row in REGISTRY {
            assert_eq!(row.scope == Scope::Namespaced, row.kind.is_namespaced(), "{:?}", row.kind);
        }
    }

    #[test]
    fn what_a_policy_may_target_is_marked_as_target() {
        let target = REGISTRY
            .iter()
            .find(|row| row.kind == Kind::AuthorizationPolicy)
            .and_then(|row| row.references.iter().find(|r| r.field == Field::Target))
            .unwrap();
        for row in REGISTRY {
            assert_eq!(row.is_target, target.to.contains(&row.kind), "{:?}", row.kind);
        }
    }

    #[test]
    fn only_clients_are_named_across_namespaces_without_a_grant() {
        for reference in REGISTRY.iter().flat_map(|row| row.references) {
            assert_eq!(
                reference.grant == GrantRule::Exempt,
                reference.field == Field::Client,
                "{reference:?}"
            );
        }
    }

    #[test]
    fn no_kind_has_recorded_facts_yet_and_status_is_an_output() {
        assert!(REGISTRY.iter().all(|row| row.recorded.is_empty()));
    }
}
