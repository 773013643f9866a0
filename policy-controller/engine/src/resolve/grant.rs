//! The members of an authentication, the clients of a policy, and the grants on a Server or a route
//! (docs/spec/controller.md 2.5).

use super::reference::{ReferenceError, follow, referrers};
use super::workload;
use crate::incremental::{Context, query};
use crate::index::{Edge, authorized_servers};
use crate::query::condition::Reason;
use crate::query::grant::{
    Clients, CreationOrder, GrantResolution, GrantSet, MembersOf, PolicyGrant, RefFault,
    RouteGrants, ServerAuthorizationGrant, ServerGrants,
};
use policy_core::{
    Authorization, Condition, IdentityMatch, NetworkMatch, Predicate, Requirement, Source,
    UnresolvedGrant,
};
use policy_crds::resource::{
    AuthorizationPolicy, ClientRequirement, IdentityRef, IdentityRequirement,
    MeshTlsAuthentication, NamespacedName, NetworkRequirement, ServerAuthorization, ServerRef,
};
use policy_crds::{Body, Field, Kind, Object, ObjectKey, Resource};
use std::sync::Arc;

query!(MembersOf, Clients, members);
query!(PolicyGrant, GrantResolution, policy_grant);
query!(ServerAuthorizationGrant, GrantResolution, server_authorization_grant);
query!(ServerGrants, Arc<GrantSet>, server_grants);
query!(RouteGrants, Arc<GrantSet>, route_grants);

fn members(query: &MembersOf, cx: &mut Context<'_>) -> Clients {
    let Some(object) = cx.object(&query.0) else { return Clients::Nobody };
    match &object.body {
        Body::Valid(Resource::MeshTlsAuthentication(authentication)) => {
            Clients::Identities(identities(cx, authentication, &query.0.namespace))
        }
        Body::Valid(Resource::NetworkAuthentication(authentication)) => {
            Clients::Networks(authentication.networks.as_slice().into())
        }
        Body::Valid(_) | Body::Invalid(_) => Clients::Nobody,
    }
}

fn identities(
    cx: &Context<'_>,
    authentication: &MeshTlsAuthentication,
    namespace: &Arc<str>,
) -> Arc<[IdentityMatch]> {
    let by_object = authentication.identity_refs.iter().map(|reference| match reference {
        IdentityRef::ServiceAccount(account) => service_account(cx, account, namespace),
        IdentityRef::Namespace(name) => IdentityMatch::Suffix(cx.config.namespace_suffix(name)),
    });
    authentication.identities.iter().cloned().chain(by_object).collect()
}

/// The identity of a ServiceAccount, which need not exist.
pub(crate) fn service_account(
    cx: &Context<'_>,
    account: &NamespacedName,
    namespace: &Arc<str>,
) -> IdentityMatch {
    IdentityMatch::Exact(service_account_name(cx, account, namespace))
}

/// The name that a ServiceAccount's certificates carry.
pub(crate) fn service_account_name(
    cx: &Context<'_>,
    account: &NamespacedName,
    namespace: &Arc<str>,
) -> Arc<str> {
    let namespace = account.namespace.as_ref().unwrap_or(namespace);
    cx.config.service_account_identity(namespace, &account.name)
}

fn withheld(key: &ObjectKey, reason: &str) -> GrantResolution {
    GrantResolution {
        rank: CreationOrder::unknown(key),
        outcome: Err(reason.into()),
        faults: Arc::from([]),
    }
}

/// The first rule that an object breaks, in words.
fn why_invalid(object: &Object) -> String {
    let first = match &object.body {
        Body::Valid(_) => None,
        Body::Invalid(invalid) => invalid.errors.first(),
    };
    first.map_or_else(|| "it is invalid".to_owned(), |error| format!("it is invalid: {error}"))
}

fn policy_grant(query: &PolicyGrant, cx: &mut Context<'_>) -> GrantResolution {
    let Some(object) = cx.object(&query.0) else {
        return withheld(&query.0, "it does not exist");
    };
    let Body::Valid(Resource::AuthorizationPolicy(policy)) = &object.body else {
        return withheld(&query.0, &why_invalid(object));
    };
    let mut faults = Vec::new();
    let outcome = authorization(cx, object, policy, &mut faults).map(Arc::new);
    GrantResolution { rank: CreationOrder::of(&object.meta), outcome, faults: faults.into() }
}

fn authorization(
    cx: &mut Context<'_>,
    object: &Object,
    policy: &AuthorizationPolicy,
    faults: &mut Vec<RefFault>,
) -> Result<Authorization, Arc<str>> {
    let source = Source::Object(object.meta.key.to_ref());
    let network = policy.network.as_ref().map(|n| network(cx, object, n, faults));
    let identity = policy.identity.as_ref().map(|i| identity(cx, object, i, faults));
    let conditions: Option<Vec<Condition>> = network.into_iter().chain(identity).collect();
    let Some(conditions) = conditions else {
        let reasons: Vec<&str> = faults.iter().map(|fault| &*fault.message).collect();
        return Err(reasons.join("; ").into());
    };
    let requirement = if conditions.is_empty() {
        Requirement::Nothing
    } else {
        Requirement::All(conditions.into())
    };
    Ok(Authorization { source, requirement, audit: false })
}

fn network(
    cx: &mut Context<'_>,
    object: &Object,
    requirement: &NetworkRequirement,
    faults: &mut Vec<RefFault>,
) -> Option<Condition> {
    match requirement {
        NetworkRequirement::Set(symbol) => {
            let test = Predicate::Network(vec![NetworkMatch::symbol(*symbol)]);
            Some(Condition { source: Source::Object(object.meta.key.to_ref()), test })
        }
        NetworkRequirement::Authentication(name) => {
            member_condition(cx, object, Kind::NetworkAuthentication, name, faults)
        }
    }
}

fn identity(
    cx: &mut Context<'_>,
    object: &Object,
    requirement: &IdentityRequirement,
    faults: &mut Vec<RefFault>,
) -> Option<Condition> {
    match requirement {
        IdentityRequirement::ServiceAccount(account) => {
            let identity = service_account(cx, account, &object.meta.key.namespace);
            let source = Source::Object(object.meta.key.to_ref());
            Some(Condition { source, test: Predicate::Identity(vec![identity]) })
        }
        IdentityRequirement::MeshTls(name) => {
            member_condition(cx, object, Kind::MeshTlsAuthentication, name, faults)
        }
    }
}

fn member_condition(
    cx: &mut Context<'_>,
    object: &Object,
    kind: Kind,
    name: &NamespacedName,
    faults: &mut Vec<RefFault>,
) -> Option<Condition> {
    let from = &object.meta.key;
    let namespace = name.namespace.clone().unwrap_or_else(|| from.namespace.clone());
    let to = ObjectKey { kind, namespace, name: name.name.clone() };
    match follow(cx, from, Field::Authentication, &to) {
        Ok(resolved) if resolved.warned => {
            let message =
                format!("{to} is used without a ReferenceGrant in namespace `{}`", to.namespace);
            faults.push(RefFault { reason: Reason::RefWarned, message: message.into() });
        }
        Ok(_) => {}
        Err(fault) => {
            let message = format!("{to} {}", fault.as_str()).into();
            faults.push(RefFault { reason: reason(fault), message });
            return None;
        }
    }
    let test = match cx.query(&MembersOf(to.clone())) {
        Clients::Identities(identities) => Predicate::Identity(identities.to_vec()),
        Clients::Networks(networks) => Predicate::Network(networks.to_vec()),
        Clients::Nobody => {
            let message = format!("{to} names nobody").into();
            faults.push(RefFault { reason: Reason::RefInvalid, message });
            return None;
        }
    };
    Some(Condition { source: Source::Object(to.to_ref()), test })
}

/// The reason that a condition gives for a reference that is not followed.
pub(crate) fn reason(fault: ReferenceError) -> Reason {
    match fault {
        ReferenceError::Missing => Reason::RefNotFound,
        ReferenceError::Invalid => Reason::RefInvalid,
        ReferenceError::NotPermitted => Reason::RefNotPermitted,
        ReferenceError::Unsupported => Reason::InvalidKind,
    }
}

fn server_authorization_grant(
    query: &ServerAuthorizationGrant,
    cx: &mut Context<'_>,
) -> GrantResolution {
    let Some(object) = cx.object(&query.0) else {
        return withheld(&query.0, "it does not exist");
    };
    let Body::Valid(Resource::ServerAuthorization(authorization)) = &object.body else {
        return withheld(&query.0, &why_invalid(object));
    };
    let source = Source::Object(object.meta.key.to_ref());
    let ServerAuthorization { server: _, networks, client } = authorization;
    let networks = match networks {
        Some(networks) if !networks.is_empty() => Predicate::Network(networks.clone()),
        Some(_) | None => Predicate::cluster_networks(),
    };
    let mut conditions = vec![Condition { source: source.clone(), test: networks }];
    conditions.extend(
        client_test(cx, client, &query.0.namespace)
            .map(|test| Condition { source: source.clone(), test }),
    );
    let requirement = Requirement::All(conditions.into());
    let authorization = Authorization { source, requirement, audit: false };
    GrantResolution {
        rank: CreationOrder::of(&object.meta),
        outcome: Ok(Arc::new(authorization)),
        faults: Arc::from([]),
    }
}

fn client_test(
    cx: &Context<'_>,
    client: &ClientRequirement,
    namespace: &Arc<str>,
) -> Option<Predicate> {
    match client {
        ClientRequirement::Unauthenticated => None,
        ClientRequirement::TlsUnauthenticated => Some(Predicate::MeshTls),
        ClientRequirement::Identities { identities, service_accounts } => {
            let accounts = service_accounts.iter().map(|a| service_account(cx, a, namespace));
            let all: Vec<IdentityMatch> = identities.iter().cloned().chain(accounts).collect();
            Some(Predicate::Identity(all))
        }
    }
}

fn server_grants(query: &ServerGrants, cx: &mut Context<'_>) -> Arc<GrantSet> {
    let server = &query.0;
    let mut specific = named(cx, server);
    specific.extend(by_label(cx, server));
    let general = named(cx, &workload::namespace_key(&server.namespace));
    Arc::new(collect([specific, general]))
}

fn route_grants(query: &RouteGrants, cx: &mut Context<'_>) -> Arc<GrantSet> {
    let grants = named(cx, &query.0);
    Arc::new(collect([grants]))
}

type Grants = Vec<(ObjectKey, GrantResolution)>;

/// The grants of the objects that name a target.
fn named(cx: &mut Context<'_>, target: &ObjectKey) -> Grants {
    let members = referrers(cx, target);
    members.into_iter().filter_map(|key| grant_of(cx, key)).collect()
}

fn grant_of(cx: &mut Context<'_>, key: &ObjectKey) -> Option<(ObjectKey, GrantResolution)> {
    let granted = if key.kind == Kind::AuthorizationPolicy {
        cx.query(&PolicyGrant(key.clone()))
    } else if key.kind == Kind::ServerAuthorization {
        cx.query(&ServerAuthorizationGrant(key.clone()))
    } else {
        return None;
    };
    Some((key.clone(), granted))
}

fn by_label(cx: &mut Context<'_>, server: &ObjectKey) -> Grants {
    let Some(labels) = cx.object(server).map(|object| &object.meta.labels) else {
        return Vec::new();
    };
    let members = cx.edge(Edge::Selects(server.namespace.clone()));
    let selecting = members.into_iter().filter(|key| {
        let Some(object) = cx.object(key) else { return false };
        match authorized_servers(object) {
            Some(ServerRef::Labels(selector)) => selector.matches(labels),
            Some(ServerRef::Name(_)) | None => false,
        }
    });
    let selecting: Vec<&ObjectKey> = selecting.collect();
    selecting.into_iter().filter_map(|key| grant_of(cx, key)).collect()
}

fn collect(classes: impl IntoIterator<Item = Grants>) -> GrantSet {
    let mut set = GrantSet::default();
    for mut grants in classes {
        grants.sort_by(|(_, a), (_, b)| a.rank.cmp(&b.rank));
        for (key, granted) in grants {
            match granted.outcome {
                Ok(authorization) => set.authorizations.push(authorization),
                Err(reason) => set.withheld.push(UnresolvedGrant { source: key.to_ref(), reason }),
            }
        }
    }
    set
}

/// A grant that holds only if the constraints hold too.
pub(crate) fn constrained(grant: &Authorization, constraints: &[Condition]) -> Authorization {
    let own: &[Condition] = match &grant.requirement {
        Requirement::Nothing => &[],
        Requirement::All(own) => own,
    };
    // No condition at all is a requirement that nobody meets.
    let requirement = match (&grant.requirement, own) {
        (Requirement::All(_), []) => grant.requirement.clone(),
        (Requirement::All(_) | Requirement::Nothing, _) => {
            Requirement::All(own.iter().chain(constraints).cloned().collect())
        }
    };
    Authorization { source: grant.source.clone(), requirement, audit: grant.audit }
}
