//! The ValidatingWebhookConfiguration: the conditions of each webhook in CEL, the same as in
//! `scope`.

use super::scope::{GROUP, OWN_GROUP, PARENT_GROUPS, PARENT_KINDS};
use crate::injector::has_injection_annotation;
use crate::installation::{Installation, client_config};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ValidatingWebhook, ValidatingWebhookConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use policy_crds::spec::Admission;
use policy_crds::{Kind, annotation};

/// Namespaces with this label and the value `disabled` are exempt, as from Linkerd's webhooks.
const OPT_OUT: &str = "config.linkerd.io/admission-webhooks";
/// The label with its name that every namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Returns the webhook configuration of validation, for objects in namespaces
/// ([`cluster_webhook`] has the others).
///
/// While the webhook is unavailable, writes of policy objects fail. Writes of routes without a
/// Server parent, grants for other kinds, Pods, Namespaces and objects that are being deleted
/// succeed, as do changes of neither spec nor annotations. Deletions never wait for an unavailable
/// webhook.
pub fn configuration(installation: &Installation) -> ValidatingWebhookConfiguration {
    let mut configuration = ValidatingWebhookConfiguration {
        webhooks: Some(vec![
            required(installation, "policy", in_namespaces(Admission::Policy), None),
            required(
                installation,
                "routes",
                in_namespaces(Admission::Route),
                Some(("has-server-parent", has_server())),
            ),
            required(
                installation,
                "grants",
                in_namespaces(Admission::Grant),
                Some(("opens-policy", opens_ours())),
            ),
            deletions(installation),
            workloads(installation),
        ]),
        ..ValidatingWebhookConfiguration::default()
    };
    configuration.metadata.name = Some(installation.name.clone());
    configuration
}

/// Returns the webhook of policy that belongs to the whole cluster. An installation that watches some
/// namespaces alone does not read such objects and has no such webhook: no selector of namespaces
/// keeps it from them, so it would stand between everybody else and their policy.
pub fn cluster_webhook(installation: &Installation) -> ValidatingWebhook {
    let kinds = kinds_of(Admission::Policy).filter(|kind| !kind.is_namespaced()).collect();
    let webhook = required(installation, "cluster", kinds, None);
    ValidatingWebhook { namespace_selector: None, ..webhook }
}

/// Returns the kinds in namespaces with this kind of validation.
fn in_namespaces(admission: Admission) -> Vec<Kind> {
    kinds_of(admission).filter(|kind| kind.is_namespaced()).collect()
}

/// Returns a webhook with failurePolicy Fail, for kinds of one scope.
fn required(
    installation: &Installation,
    name: &str,
    kinds: Vec<Kind>,
    only: Option<(&str, String)>,
) -> ValidatingWebhook {
    let mut conditions = vec![condition("not-being-deleted", NOT_BEING_DELETED.to_owned())];
    conditions.extend(only.map(|(name, expression)| condition(name, expression)));
    conditions.push(condition("changed", changed("spec")));
    let namespaced = kinds.iter().all(|kind| kind.is_namespaced());
    let scope = if namespaced { "Namespaced" } else { "Cluster" };
    let rules = rules(kinds.into_iter(), &WRITTEN, scope);
    ValidatingWebhook {
        failure_policy: Some("Fail".to_owned()),
        timeout_seconds: Some(5),
        ..webhook(installation, name, rules, conditions)
    }
}

/// Returns the webhook that warns a client that deletes a route, a binding or an InboundRoute when a
/// Server then grants more. It denies nothing and has a short timeout. Deletions by the control plane (the objects of a
/// namespace, dependents of a deleted object) are excluded, because no user reads their warnings.
fn deletions(installation: &Installation) -> ValidatingWebhook {
    let conditions = vec![
        condition("not-being-deleted", "!has(oldObject.metadata.deletionTimestamp)".to_owned()),
        condition("may-close-a-server", may_close()),
        condition("somebody-reads-it", not_by(&COLLECTORS)),
    ];
    let kinds = Kind::attached().chain([Kind::InboundRoute]);
    let rules = rules(kinds, &["DELETE"], "Namespaced");
    ValidatingWebhook {
        failure_policy: Some("Ignore".to_owned()),
        timeout_seconds: Some(1),
        ..webhook(installation, "deletions", rules, conditions)
    }
}

/// Returns the webhook that warns authors of Pods and Namespaces about annotations. It denies
/// nothing.
fn workloads(installation: &Installation) -> ValidatingWebhook {
    let conditions = vec![
        condition("not-being-deleted", NOT_BEING_DELETED.to_owned()),
        condition("annotated", annotated()),
        condition("changed", changed("metadata")),
    ];
    let rules = rules(kinds_of(Admission::Workload), &WRITTEN, "*");
    ValidatingWebhook {
        failure_policy: Some("Ignore".to_owned()),
        timeout_seconds: Some(2),
        ..webhook(installation, "workloads", rules, conditions)
    }
}

/// Returns the webhook that an installation with `--linkerd-compatible` has besides: it sends outbound
/// policy, and routes for it that have no Server among their parents. While it is unavailable such
/// objects are written, because nothing of them takes effect here (by default Linkerd's own webhook
/// lets them pass then, too).
pub fn outbound_webhook(installation: &Installation) -> ValidatingWebhook {
    let conditions = vec![
        condition("not-being-deleted", NOT_BEING_DELETED.to_owned()),
        condition("has-no-server-parent", format!("!({})", has_server())),
        condition("is-outbound", is_outbound()),
        condition("changed", changed("spec")),
    ];
    let kinds = kinds_of(Admission::Outbound).chain(Kind::routes());
    ValidatingWebhook {
        failure_policy: Some("Ignore".to_owned()),
        timeout_seconds: Some(2),
        ..webhook(installation, "outbound", rules(kinds, &WRITTEN, "Namespaced"), conditions)
    }
}

fn webhook(
    installation: &Installation,
    name: &str,
    rules: Vec<RuleWithOperations>,
    conditions: Vec<MatchCondition>,
) -> ValidatingWebhook {
    ValidatingWebhook {
        name: format!("{name}.admission.portcullis.dev"),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(installation, "/"),
        match_conditions: Some(conditions),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(namespaces(&installation.namespace)),
        rules: Some(rules),
        side_effects: "None".to_owned(),
        ..ValidatingWebhook::default()
    }
}

/// The operations that write an object.
const WRITTEN: [&str; 2] = ["CREATE", "UPDATE"];

/// Users that Kubernetes deletes the objects of a namespace and dependents by: controllers with a
/// service account each, or all as one.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];

/// Returns the kinds with this kind of validation.
fn kinds_of(admission: Admission) -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(move |kind| kind.spec().admission == admission)
}

/// Returns one rule per group of the kinds.
fn rules(
    kinds: impl Iterator<Item = Kind>,
    operations: &[&str],
    scope: &str,
) -> Vec<RuleWithOperations> {
    let mut rules: Vec<RuleWithOperations> = Vec::new();
    for kind in kinds {
        let (group, resource) = (kind.group().to_owned(), kind.plural().to_owned());
        let same = |rule: &&mut RuleWithOperations| {
            rule.api_groups.as_ref().is_some_and(|groups| groups.contains(&group))
        };
        if let Some(rule) = rules.iter_mut().find(same) {
            rule.resources.get_or_insert_default().push(resource);
            continue;
        }
        rules.push(RuleWithOperations {
            api_groups: Some(vec![group]),
            api_versions: Some(vec!["*".to_owned()]),
            operations: Some(operations.iter().map(|name| (*name).to_owned()).collect()),
            resources: Some(vec![resource]),
            scope: Some(scope.to_owned()),
        });
    }
    rules
}

/// Returns the namespace selector. For Namespaces it applies to their own labels.
fn namespaces(own: &str) -> LabelSelector {
    let without = |key: &str, value: &str| LabelSelectorRequirement {
        key: key.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![value.to_owned()]),
    };
    LabelSelector {
        match_expressions: Some(vec![without(OPT_OUT, "disabled"), without(NAMESPACE_NAME, own)]),
        match_labels: None,
    }
}

fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

/// CEL: the object is not being deleted. One that is may lose its finalizers whatever it contains.
const NOT_BEING_DELETED: &str = "!has(object.metadata.deletionTimestamp)";

/// CEL: the object is new, or its annotations or this part have changed.
fn changed(part: &str) -> String {
    let annotations = |object: &str| {
        format!("(has({object}.metadata.annotations) ? {object}.metadata.annotations : {{}})")
    };
    let annotations = format!("{} != {}", annotations("object"), annotations("oldObject"));
    if part == "metadata" {
        return format!("oldObject == null || {annotations}");
    }
    format!(
        "oldObject == null || has(object.{part}) != has(oldObject.{part}) || \
         (has(object.{part}) && object.{part} != oldObject.{part}) || {annotations}"
    )
}

/// CEL: the user is none of these.
fn not_by(users: &[&str]) -> String {
    let users: Vec<String> = users.iter().map(|user| format!("'{user}'")).collect();
    format!("!(request.userInfo.username in [{}])", users.join(", "))
}

/// CEL: a parent of the new or old object is a Server or an InboundRoute, or an unreadable reference
/// that may be one.
fn has_server() -> String {
    let listed = |words: &[&str]| -> String {
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
    };
    let (kinds, groups) = (listed(&PARENT_KINDS), listed(&PARENT_GROUPS));
    format!(
        "[object, oldObject].exists(o, o != null && has(o.spec) && has(o.spec.parentRefs) && \
         (type(o.spec.parentRefs) != list || o.spec.parentRefs.exists(p, type(p) != map || \
         (has(p.kind) && (type(p.kind) != string || p.kind.lowerAscii() in [{kinds}]) && \
         (!has(p.group) || type(p.group) != string || p.group.lowerAscii() in [{groups}])))))"
    )
}

/// CEL: the object is an InboundRoute or a binding, or a route as of [`has_server`].
fn may_close() -> String {
    format!("request.kind.group == '{OWN_GROUP}' || {}", has_server())
}

/// CEL: the object is outbound policy, or a route with some among its parents.
fn is_outbound() -> String {
    let names = |spelled: fn(&str) -> String| -> String {
        let kinds = kinds_of(Admission::Outbound).map(|kind| spelled(kind.as_str()));
        kinds.map(|kind| format!("'{kind}'")).collect::<Vec<_>>().join(", ")
    };
    let (kinds, lower) = (names(str::to_owned), names(str::to_ascii_lowercase));
    format!(
        "request.kind.kind in [{kinds}] || (has(object.spec) && has(object.spec.parentRefs) && \
         type(object.spec.parentRefs) == list && object.spec.parentRefs.exists(p, \
         type(p) == map && has(p.kind) && type(p.kind) == string && \
         p.kind.lowerAscii() in [{lower}] && (!has(p.group) || (type(p.group) == string && \
         p.group.lowerAscii() == '{GROUP}'))))"
    )
}

/// CEL: the new or old grant is for objects of our groups, or unreadable in a way that may be, or
/// lets InboundRoutes refer to others.
fn opens_ours() -> String {
    format!(
        "[object, oldObject].exists(o, o != null && has(o.spec) && ((has(o.spec.to) && \
         (type(o.spec.to) != list || o.spec.to.exists(t, type(t) != map || \
         (has(t.group) && (type(t.group) != string || \
         t.group.lowerAscii() in ['{GROUP}', '{OWN_GROUP}']))))) || \
         (has(o.spec.from) && type(o.spec.from) == list && o.spec.from.exists(f, type(f) == map && \
         has(f.group) && type(f.group) == string && f.group.lowerAscii() == '{OWN_GROUP}'))))"
    )
}

/// CEL: the object has an annotation that policy depends on, or is a Namespace with one about
/// injection.
fn annotated() -> String {
    let names: Vec<String> =
        annotation::OF_WORKLOADS.iter().map(|name| format!("'{name}'")).collect();
    format!(
        "(has(object.metadata.annotations) && \
         [{}].exists(name, name in object.metadata.annotations)) || \
         (request.kind.kind == 'Namespace' && {})",
        names.join(", "),
        has_injection_annotation()
    )
}
