//! The RBAC rules of the controller and the issuer, made from the table of kinds: the smallest set
//! that suffices, in the whole cluster or in some namespaces.
//!
//! Each part of the controller that sends requests to the API server has its rows in one of the
//! tables below. The chart and the tests take the rules from here.

use crate::names::{
    BESIDE_CONFIGURATION, INJECTOR_CONFIGURATION, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET,
};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use policy_crds::Kind;
use serde::Serialize;
use std::collections::BTreeMap;

/// One rule of a table.
struct Rule {
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    /// Names of the objects; empty: objects of any name.
    names: &'static [&'static str],
}

/// In the namespace of the control plane.
const CONTROL_PLANE: &[Rule] = &[
    // The Lease that names the epoch of revisions, counts restores, and elects the writer of status.
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["create", "get", "update"],
        names: &[],
    },
    // The other replicas are the endpoints of a headless Service.
    rule("discovery.k8s.io", &["endpointslices"], &["list"]),
    // Events about stale watches regard the replica's own pod.
    EVENTS,
];

/// In the namespace of the control plane, where the controller issues the webhook's certificate. The
/// installation creates the Secret, empty: the right to create cannot be bound to a name, and with it
/// a Secret of type `kubernetes.io/service-account-token` would give the token of every service
/// account of the namespace, the issuer's among them.
const PROVISIONED_SECRET: &[Rule] =
    &[Rule { names: &[WEBHOOK_SECRET], ..rule("", &["secrets"], &["get", "update"]) }];

/// In the whole cluster, where the controller issues the webhook's certificate.
const PROVISIONED_CONFIGURATION: &[Rule] = &[Rule {
    names: &[WEBHOOK_CONFIGURATION],
    ..rule("admissionregistration.k8s.io", &["validatingwebhookconfigurations"], &["get", "patch"])
}];

/// In the whole cluster, where the injector is served: it copies a namespace's annotation to a label.
/// Reading is among the rules of the watches.
const INJECTOR: &[Rule] = &[rule("", &["namespaces"], &["patch"])];

/// In the whole cluster, where the injector is served and the controller issues the webhook's
/// certificate.
const INJECTOR_CONFIGURATION_RULES: &[Rule] = &[Rule {
    names: &[INJECTOR_CONFIGURATION],
    ..rule("admissionregistration.k8s.io", &["mutatingwebhookconfigurations"], &["get", "patch"])
}];

/// Right to create Events in watched namespaces and in the control plane's: they replace a missing
/// status.
const EVENTS: Rule = rule("events.k8s.io", &["events"], &["create"]);

/// In the whole cluster, besides the watches. None of it is needed where only some namespaces are
/// watched.
const CLUSTER: &[Rule] = &[
    // Without a Lease, the uid of a namespace names the epoch of revisions.
    rule("", &["namespaces"], &["get"]),
    // Viewers authenticate by tokens, and see what RBAC allows them.
    TOKEN_REVIEWS,
    rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
];

/// In each watched namespace, besides the watches.
const NAMESPACE: &[Rule] = &[
    // A Role allows getting its own namespace; listing namespaces requires a ClusterRole.
    rule("", &["namespaces"], &["get"]),
];

/// The issuer, in the whole cluster: it reviews the tokens of clients, and writes the roots to the
/// namespaces of pods that need them. A ConfigMap that is immutable can only be deleted and created
/// again.
const ISSUER_CLUSTER: &[Rule] = &[
    TOKEN_REVIEWS,
    rule("", &["namespaces"], &["list", "watch"]),
    rule("", &["pods"], &["list", "watch"]),
    rule("", &["configmaps"], &["create"]),
    Rule {
        names: &[TRUST_ROOTS],
        ..rule("", &["configmaps"], &["get", "list", "watch", "update", "delete"])
    },
];

/// The issuer, in each namespace of its flag.
const ISSUER_NAMESPACE: &[Rule] = &[
    rule("", &["configmaps"], &["create"]),
    Rule { names: &[TRUST_ROOTS], ..rule("", &["configmaps"], &["get", "update", "delete"]) },
];

/// The issuer, in the namespace of the control plane.
const ISSUER_CONTROL_PLANE: &[Rule] = &[EVENTS];

/// The issuer, in the namespace of the control plane, where it makes its own authority. No other
/// component may read that Secret.
const ISSUER_SECRET: &[Rule] = &[
    rule("", &["secrets"], &["create"]),
    Rule { names: &[ISSUER_AUTHORITY], ..rule("", &["secrets"], &["get", "update"]) },
];

/// Reviews tokens.
const TOKEN_REVIEWS: Rule = rule("authentication.k8s.io", &["tokenreviews"], &["create"]);

pub use crate::names::{ISSUER_AUTHORITY, TRUST_ROOTS};

const fn rule(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Rule {
    Rule { group, resources, verbs, names: &[] }
}

impl Rule {
    fn to_rule(&self) -> PolicyRule {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(owned(self.resources)),
            verbs: owned(self.verbs),
            resource_names: (!self.names.is_empty()).then(|| owned(self.names)),
            ..PolicyRule::default()
        }
    }
}

/// The rules of a controller that watches the whole cluster.
pub fn cluster_rules() -> Vec<PolicyRule> {
    let mut rules = rules_on(Kind::watched(), WATCH);
    rules.extend(status_rules(|_| true));
    rules.extend(CLUSTER.iter().map(Rule::to_rule));
    rules.push(definition_rule());
    rules
}

/// The right to read the definitions of the watched kinds: whether an object was deleted, or its
/// definition, decides whether it stays in force.
fn definition_rule() -> PolicyRule {
    let custom = Kind::watched().filter(|kind| kind.is_custom());
    let names = custom.map(|kind| format!("{}.{}", kind.plural(), kind.group()));
    let rule = rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]);
    PolicyRule { resource_names: Some(names.collect()), ..rule.to_rule() }
}

/// Additional rules, in the whole cluster, of a controller that tells sidecars what addresses lead to
/// (--outbound-discovery).
pub fn discovery_rules() -> Vec<PolicyRule> {
    rules_on(Kind::watched_for_discovery(), WATCH)
}

/// Additional rules, in the whole cluster and in the namespace of the control plane, of a controller
/// that issues the webhook's certificate (no --server-tls-certs).
pub fn provisioning_rules() -> (Vec<PolicyRule>, Vec<PolicyRule>) {
    let made = |rules: &[Rule]| rules.iter().map(Rule::to_rule).collect();
    (made(PROVISIONED_CONFIGURATION), made(PROVISIONED_SECRET))
}

/// Additional rules of the injector, in the whole cluster (--injector). `provisioned`: the controller
/// issues the webhook's certificate.
pub fn injector_rules(provisioned: bool) -> Vec<PolicyRule> {
    let configuration = INJECTOR_CONFIGURATION_RULES.iter().filter(|_| provisioned);
    INJECTOR.iter().chain(configuration).map(Rule::to_rule).collect()
}

/// Additional rules, in the whole cluster, of a controller that issues the certificate of the webhook
/// for Linkerd's proxies (--redirect-linkerd-proxies).
pub fn beside_linkerd_rules() -> Vec<PolicyRule> {
    let group = "admissionregistration.k8s.io";
    let rule = rule(group, &["mutatingwebhookconfigurations"], &["get", "patch"]);
    vec![Rule { names: &[BESIDE_CONFIGURATION], ..rule }.to_rule()]
}

/// The rules of a controller that watches some namespaces, in each of them.
pub fn namespace_rules() -> Vec<PolicyRule> {
    let mut rules = rules_on(Kind::watched().filter(|kind| kind.is_namespaced()), WATCH);
    rules.extend(status_rules(Kind::is_namespaced));
    rules.extend(NAMESPACE.iter().map(Rule::to_rule));
    rules
}

/// The rules of every controller, in the namespace of the control plane.
pub fn control_plane_rules() -> Vec<PolicyRule> {
    CONTROL_PLANE.iter().map(Rule::to_rule).collect()
}

/// The rules of an issuer that gives the roots to every namespace.
pub fn issuer_cluster_rules() -> Vec<PolicyRule> {
    ISSUER_CLUSTER.iter().map(Rule::to_rule).collect()
}

/// The rules of an issuer that gives the roots to some namespaces, in each of them and in that of the
/// control plane.
pub fn issuer_namespace_rules() -> Vec<PolicyRule> {
    ISSUER_NAMESPACE.iter().map(Rule::to_rule).collect()
}

/// The one rule that such an issuer needs in the whole cluster.
pub fn token_review_rules() -> Vec<PolicyRule> {
    vec![TOKEN_REVIEWS.to_rule()]
}

/// The rules of every issuer, in the namespace of the control plane.
pub fn issuer_control_plane_rules() -> Vec<PolicyRule> {
    ISSUER_CONTROL_PLANE.iter().map(Rule::to_rule).collect()
}

/// Additional rules, in the namespace of the control plane, of an issuer that makes its own authority
/// (no --issuer-cert).
pub fn issuer_provisioning_rules() -> Vec<PolicyRule> {
    ISSUER_SECRET.iter().map(Rule::to_rule).collect()
}

/// The rules for people who view the policies of a namespace: the kinds whose definitions are
/// installed with this project.
pub fn viewing_rules() -> Vec<PolicyRule> {
    rules_on(policy_kinds(), &["get", "list", "watch"])
}

/// Kinds that are not for everybody who writes policies of a namespace.
const KEPT: [Kind; 2] = [Kind::ExternalWorkload, Kind::InboundRoute];

/// Additional rules for people who write these policies. ExternalWorkloads are not among them: they
/// name addresses and identities outside of the cluster, which Kubernetes keeps from `admin` and
/// `edit` since 1.22 (CVE-2021-25740). InboundRoutes are not either: a root claims hosts of the whole
/// cluster.
pub fn writing_rules() -> Vec<PolicyRule> {
    let verbs = ["create", "delete", "deletecollection", "patch", "update"];
    rules_on(policy_kinds().filter(|kind| !KEPT.contains(kind)), &verbs)
}

/// The verbs of a watch.
const WATCH: &[&str] = &["list", "watch"];

/// The namespaced kinds whose definitions are installed with this project.
fn policy_kinds() -> impl Iterator<Item = Kind> {
    let ours = Kind::ALL.into_iter().filter(|kind| kind.spec().is_defined_here());
    ours.filter(|kind| kind.is_namespaced())
}

/// Rules with these verbs on all objects of `kinds`, one for each group.
fn rules_on(kinds: impl Iterator<Item = Kind>, verbs: &[&str]) -> Vec<PolicyRule> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for kind in kinds {
        groups.entry(kind.group()).or_default().push(kind.plural().to_owned());
    }
    let rule = |(group, resources): (&str, Vec<String>)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    groups.into_iter().map(rule).collect()
}

/// The rules of the leader for writing status: each object is read before it is written.
fn status_rules(written: fn(Kind) -> bool) -> Vec<PolicyRule> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let with_status = Kind::ALL.into_iter().filter(|kind| kind.spec().status.is_some());
    for kind in with_status.filter(|kind| written(*kind)) {
        groups.entry(kind.group()).or_default().push(kind.plural());
    }
    let rule = |group: &str, resources: Vec<String>, verb: &str| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources),
        verbs: vec![verb.to_owned()],
        ..PolicyRule::default()
    };
    let rules = groups.into_iter().flat_map(|(group, plurals)| {
        let status = plurals.iter().map(|plural| format!("{plural}/status")).collect();
        let objects = plurals.iter().map(|plural| (*plural).to_owned()).collect();
        [rule(group, objects, "get"), rule(group, status, "patch")]
    });
    rules.chain([EVENTS.to_rule()]).collect()
}

/// A ClusterRole of these rules.
pub fn cluster_role(name: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ClusterRole { metadata, rules: Some(rules), ..ClusterRole::default() }
}

/// A Role of these rules.
pub fn role(namespace: &str, name: &str, rules: Vec<PolicyRule>) -> Role {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    Role { metadata, rules: Some(rules) }
}

/// All rules of the controller and issuer of the whole cluster, for service accounts in the control
/// plane's namespace, and the Secret that the controller fills, as YAML documents to apply. The
/// Secret has neither type nor data, so that applying it again changes nothing in it.
///
/// # Errors
/// As [`yaml`].
pub fn manifests(
    namespace: &str,
    controller: &str,
    issuer: &str,
) -> Result<String, serde_json::Error> {
    let (cluster, namespaced) = provisioning_rules();
    let cluster = [cluster_rules(), discovery_rules(), cluster, injector_rules(true)].concat();
    let namespaced = [control_plane_rules(), namespaced].concat();
    let controller = account(namespace, controller, cluster, namespaced)?;
    let (cluster, namespaced) = (
        issuer_cluster_rules(),
        [issuer_control_plane_rules(), issuer_provisioning_rules()].concat(),
    );
    let issuer = account(namespace, issuer, cluster, namespaced)?;
    let metadata = ObjectMeta {
        name: Some(WEBHOOK_SECRET.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    };
    let secret = vec![yaml(&Secret { metadata, ..Secret::default() })?];
    Ok([controller, secret, issuer].concat().join("---\n"))
}

/// A service account and its rules, in the whole cluster and in its namespace.
fn account(
    namespace: &str,
    name: &str,
    cluster: Vec<PolicyRule>,
    namespaced: Vec<PolicyRule>,
) -> Result<Vec<String>, serde_json::Error> {
    let cluster_role = cluster_role(name, cluster);
    let role = role(namespace, name, namespaced);
    let account = ServiceAccount { metadata: role.metadata.clone(), ..ServiceAccount::default() };
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    };
    let role_ref = |kind: &str| RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    let everywhere = ClusterRoleBinding {
        metadata: cluster_role.metadata.clone(),
        role_ref: role_ref("ClusterRole"),
        subjects: Some(vec![subject.clone()]),
    };
    let at_home = RoleBinding {
        metadata: role.metadata.clone(),
        role_ref: role_ref("Role"),
        subjects: Some(vec![subject]),
    };
    Ok(vec![
        yaml(&account)?,
        yaml(&cluster_role)?,
        yaml(&everywhere)?,
        yaml(&role)?,
        yaml(&at_home)?,
    ])
}

/// An object as YAML.
///
/// # Errors
/// If it has no JSON form, which objects of Kubernetes have.
pub fn yaml(object: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(policy_crds::render::yaml(&serde_json::to_value(object)?))
}

/// The watched kind of a rule's group and resource; for messages and tests.
pub fn watched(group: &str, resource: &str) -> Option<Kind> {
    let mut kinds = Kind::watched().chain(Kind::watched_for_discovery());
    kinds.find(|kind| kind.group() == group && kind.plural() == resource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn allowed(rules: &[PolicyRule], verb: &str) -> BTreeSet<String> {
        let with_verb = rules.iter().filter(|rule| rule.verbs.iter().any(|v| v == verb));
        let names = with_verb.flat_map(|rule| {
            let group = rule.api_groups.as_ref().unwrap()[0].clone();
            let resources = rule.resources.as_ref().unwrap().clone();
            resources.into_iter().map(move |resource| format!("{group}/{resource}"))
        });
        names.collect()
    }

    #[test]
    fn every_watched_kind_may_be_listed_and_watched_and_no_other() {
        let expected = |cluster: bool| -> BTreeSet<String> {
            Kind::ALL
                .into_iter()
                .filter(|kind| watched(kind.group(), kind.plural()) == Some(*kind))
                .filter(|kind| cluster || (kind.is_namespaced() && !kind.is_for_discovery()))
                .map(|kind| format!("{}/{}", kind.group(), kind.plural()))
                .collect()
        };
        let everywhere = [cluster_rules(), discovery_rules()].concat();
        for (rules, cluster) in [(everywhere, true), (namespace_rules(), false)] {
            for verb in ["list", "watch"] {
                assert_eq!(allowed(&rules, verb), expected(cluster), "{verb} {cluster}");
            }
        }
        assert!(expected(true).contains("/nodes") && !expected(false).contains("/nodes"));
        assert!(!expected(true).contains("apps/deployments"));
    }

    #[test]
    fn people_see_and_write_the_kinds_that_are_installed_here_and_no_other() {
        let mut seen = allowed(&viewing_rules(), "list");
        assert!(seen.contains("policy.linkerd.io/authorizationpolicies"));
        assert!(!seen.iter().any(|name| name.starts_with('/') || name.contains("gateway")));
        for kept in KEPT {
            assert!(seen.remove(&format!("{}/{}", kept.group(), kept.plural())), "{kept:?}");
        }
        assert_eq!(seen, allowed(&writing_rules(), "update"));
        assert!(allowed(&viewing_rules(), "update").is_empty());
    }

    #[test]
    fn what_is_told_by_its_status_may_be_read_and_its_status_written() {
        // Their definitions, which are those of others, have no status.
        let without = [
            Kind::ReferenceGrant,
            Kind::TrafficTarget,
            Kind::SmiHttpRouteGroup,
            Kind::SmiTcpRoute,
            Kind::IdentityBinding,
        ];
        let reported = Kind::conditioned().filter(|kind| !without.contains(kind));
        let reported: Vec<Kind> = reported.collect();
        let name = |kind: Kind, more: &str| format!("{}/{}{more}", kind.group(), kind.plural());
        let definitions = "apiextensions.k8s.io/customresourcedefinitions".to_owned();
        let everywhere = (cluster_rules(), reported.clone(), Some(definitions));
        let namespaced = reported.into_iter().filter(|kind| kind.is_namespaced()).collect();
        for (rules, reported, more) in [everywhere, (namespace_rules(), namespaced, None)] {
            let mut read: BTreeSet<String> = reported.iter().map(|kind| name(*kind, "")).collect();
            read.insert("/namespaces".to_owned());
            read.extend(more);
            let written: BTreeSet<String> =
                reported.iter().map(|kind| name(*kind, "/status")).collect();
            assert_eq!(allowed(&rules, "get"), read);
            assert_eq!(allowed(&rules, "patch"), written);
            assert_eq!(allowed(&rules, "update"), BTreeSet::new());
        }
        let events = "events.k8s.io/events".to_owned();
        assert_eq!(allowed(&namespace_rules(), "create"), BTreeSet::from([events.clone()]));
        let reviews = [
            "authentication.k8s.io/tokenreviews".to_owned(),
            "authorization.k8s.io/subjectaccessreviews".to_owned(),
        ];
        let created: BTreeSet<_> = reviews.into_iter().chain([events]).collect();
        assert_eq!(allowed(&cluster_rules(), "create"), created);
        let lease = BTreeSet::from(["coordination.k8s.io/leases".to_owned()]);
        assert_eq!(allowed(&control_plane_rules(), "update"), lease);
    }

    #[test]
    fn what_discovery_alone_reads_takes_rights_of_its_own() {
        let read = ["/services", "discovery.k8s.io/endpointslices"].map(str::to_owned);
        for verb in ["list", "watch"] {
            assert_eq!(allowed(&discovery_rules(), verb), BTreeSet::from(read.clone()), "{verb}");
            for rules in [cluster_rules(), namespace_rules()] {
                let others = allowed(&rules, verb);
                assert!(read.iter().all(|one| !others.contains(one)), "{verb}: {others:?}");
            }
        }
        assert!(discovery_rules().iter().all(|rule| rule.verbs == ["list", "watch"]));
    }

    #[test]
    fn of_secrets_and_webhooks_only_its_own_are_read_and_changed() {
        let (cluster, namespaced) = provisioning_rules();
        let issuer = issuer_provisioning_rules();
        let named =
            |rule: &PolicyRule| rule.resource_names.as_ref().is_some_and(|names| !names.is_empty());
        for rule in cluster.iter().chain(&namespaced) {
            assert!(named(rule), "{rule:?}");
        }
        for rule in &issuer {
            assert!(named(rule) || rule.verbs == ["create"], "{rule:?}");
        }
        let others = [
            cluster_rules(),
            namespace_rules(),
            control_plane_rules(),
            issuer_cluster_rules(),
            issuer_namespace_rules(),
            issuer_control_plane_rules(),
        ];
        for rule in others.concat() {
            let resources = rule.resources.unwrap_or_default();
            assert!(!resources.iter().any(|resource| resource == "secrets"), "{resources:?}");
        }
    }

    /// True if these rules allow `verb` on the Secret of this name.
    fn reaches(rules: &[PolicyRule], verb: &str, name: &str) -> bool {
        rules.iter().any(|rule| {
            let has = |list: &Option<Vec<String>>, text: &str| {
                list.as_ref().is_some_and(|list| list.iter().any(|one| one == text || one == "*"))
            };
            has(&rule.api_groups, "")
                && has(&rule.resources, "secrets")
                && has(&Some(rule.verbs.clone()), verb)
                && (rule.resource_names.is_none() || has(&rule.resource_names, name))
        })
    }

    #[test]
    fn only_the_issuer_reads_the_secret_of_its_authority() {
        let (cluster, namespaced) = provisioning_rules();
        let controller =
            [cluster_rules(), namespace_rules(), control_plane_rules(), cluster, namespaced];
        let controller = controller.concat();
        assert!(reaches(&controller, "get", WEBHOOK_SECRET));
        for verb in ["get", "list", "watch", "update", "patch", "delete"] {
            assert!(!reaches(&controller, verb, ISSUER_AUTHORITY), "{verb}");
        }
        let issuer = [issuer_cluster_rules(), issuer_provisioning_rules()].concat();
        assert!(
            reaches(&issuer, "get", ISSUER_AUTHORITY)
                && reaches(&issuer, "update", ISSUER_AUTHORITY)
        );
        assert!(
            !reaches(&issuer_cluster_rules(), "get", ISSUER_AUTHORITY),
            "in its own namespace alone"
        );
        for verb in ["get", "list", "watch", "update", "patch", "delete"] {
            assert!(!reaches(&issuer, verb, WEBHOOK_SECRET), "{verb}");
            assert!(!reaches(&issuer_control_plane_rules(), verb, ISSUER_AUTHORITY), "{verb}");
        }
    }

    #[test]
    fn the_documented_rights_are_these() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rbac.yaml");
        let expected = manifests("linkerd", "policy-controller", "portcullis-issuer").unwrap();
        if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let documented = std::fs::read_to_string(path).unwrap();
        assert_eq!(documented, expected, "run the test with PORTCULLIS_WRITE_DOCS=1");
    }

    #[test]
    fn no_rule_has_a_wildcard() {
        let (cluster, namespaced) = provisioning_rules();
        let issuer = [
            issuer_cluster_rules(),
            issuer_namespace_rules(),
            issuer_control_plane_rules(),
            issuer_provisioning_rules(),
        ]
        .concat();
        let all = [
            cluster_rules(),
            discovery_rules(),
            namespace_rules(),
            control_plane_rules(),
            cluster,
            namespaced,
            issuer,
        ];
        let all = all.concat();
        for rule in all {
            let texts = [rule.api_groups, rule.resources, Some(rule.verbs)];
            assert!(texts.iter().flatten().flatten().all(|text| !text.contains('*')));
        }
    }

    #[test]
    fn yaml_is_read_back() {
        let role = role("ns", "watcher", control_plane_rules());
        let text = yaml(&role).unwrap();
        let documents = policy_crds::document::read(&text);
        assert_eq!(documents[0].value, Ok(serde_json::to_value(&role).unwrap()), "{text}");
        assert!(text.contains("kind: Role\n"), "{text}");
    }
}
