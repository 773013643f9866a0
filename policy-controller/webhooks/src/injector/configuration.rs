//! The MutatingWebhookConfiguration: the pods that the API server sends to the injector, and the
//! failure policy of each webhook.

use super::element::CONTAINERS;
use super::opt_in::{INJECT, INJECT_LABEL};
use super::setting::{LINKERDS, OWN};
use super::sidecar::{INIT, PROXY};
use crate::installation::{Installation, client_config, created_pods, requirement, updated_pods};
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Path of the injector on the webhook's port.
pub(crate) const PATH: &str = "/inject";

/// The label with its name that every namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Namespaces with this label and the value `disabled` are exempt, as from Linkerd's webhooks.
pub(super) const OPT_OUT: &str = "config.linkerd.io/admission-webhooks";

/// The namespace of components that the node needs first, the injector included.
pub(super) const SYSTEM: &str = "kube-system";

/// Returns the webhook configuration of the injector.
///
/// In namespaces with the label, no pod is created while the injector is unavailable, unless the
/// pod itself opts out, because a pod without a sidecar would be unprotected. In other namespaces
/// the API server sends pods with an annotation of ours, and creates them without a response.
///
/// `reads_linkerd`: `linkerd.io/inject` asks for a sidecar, too. Otherwise pods that have it alone are left
/// to Linkerd's injector.
///
/// Of updates the API server sends those alone that change an image of the sidecar, so that whatever else
/// changes a pod, such as the finalizer of a Job's, does not depend on the injector.
pub fn injector_configuration(
    installation: &Installation,
    reads_linkerd: bool,
) -> MutatingWebhookConfiguration {
    let labelled = requirement(INJECT_LABEL, "In", &["enabled"]);
    let others = requirement(INJECT_LABEL, "NotIn", &["enabled"]);
    let any = requirement(NAMESPACE_NAME, "Exists", &[]);
    let webhooks = vec![
        MutatingWebhook {
            failure_policy: Some("Fail".to_owned()),
            timeout_seconds: Some(10),
            ..webhook(installation, "labelled", labelled, ("does-not-opt-out", opts_in()))
        },
        MutatingWebhook {
            failure_policy: Some("Ignore".to_owned()),
            timeout_seconds: Some(5),
            ..webhook(installation, "pods", others, ("asks", asks(reads_linkerd)))
        },
        MutatingWebhook {
            failure_policy: Some("Fail".to_owned()),
            timeout_seconds: Some(5),
            rules: Some(vec![updated_pods()]),
            ..webhook(installation, "images", any, ("changes-an-image", changes_image()))
        },
    ];
    let mut configuration = MutatingWebhookConfiguration {
        webhooks: Some(webhooks),
        ..MutatingWebhookConfiguration::default()
    };
    configuration.metadata.name = Some(installation.name.clone());
    configuration
}

fn webhook(
    installation: &Installation,
    name: &str,
    label: LabelSelectorRequirement,
    (condition, expression): (&str, String),
) -> MutatingWebhook {
    let own = installation.namespace.as_str();
    let requirements = vec![
        label,
        requirement(NAMESPACE_NAME, "NotIn", &[SYSTEM, own]),
        requirement(OPT_OUT, "NotIn", &["disabled"]),
    ];
    let namespaces = LabelSelector { match_expressions: Some(requirements), match_labels: None };
    MutatingWebhook {
        name: format!("{name}.injector.portcullis.dev"),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(installation, PATH),
        match_conditions: Some(vec![MatchCondition { name: condition.to_owned(), expression }]),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(namespaces),
        // Other webhooks may add containers after us.
        reinvocation_policy: Some("IfNeeded".to_owned()),
        rules: Some(vec![created_pods()]),
        side_effects: "None".to_owned(),
        ..MutatingWebhook::default()
    }
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// CEL: not every injection annotation of the pod opts out.
fn opts_in() -> String {
    let names = listed(&INJECT);
    format!(
        "!has(object.metadata.annotations) || \
         ![{names}].exists(a, a in object.metadata.annotations) || \
         [{names}].exists(a, a in object.metadata.annotations && \
         object.metadata.annotations[a] != 'disabled')"
    )
}

/// CEL: an image of the sidecar's containers is another one than before.
fn changes_image() -> String {
    let image = |container: &str| format!("(has({container}.image) ? {container}.image : '')");
    let differs = |list: &str| {
        format!(
            "(has(object.spec.{list}) && has(oldObject.spec.{list}) && object.spec.{list}.exists(c, \
             c.name in ['{PROXY}', '{INIT}'] && oldObject.spec.{list}.exists(o, \
             o.name == c.name && {} != {})))",
            image("o"),
            image("c")
        )
    };
    CONTAINERS.map(differs).join(" || ")
}

/// CEL: the pod has an annotation that may ask for a sidecar, or any of ours, which may be a misspelled
/// one.
fn asks(reads_linkerd: bool) -> String {
    let asking = if reads_linkerd { &INJECT[..] } else { &[INJECT_LABEL] };
    has_annotation(asking, &[OWN])
}

/// CEL: a namespace has an annotation about injection, Linkerd's included, which our injector may
/// ignore.
pub(crate) fn has_injection_annotation() -> String {
    let prefixes: Vec<&str> = [OWN].into_iter().chain(LINKERDS).collect();
    has_annotation(&INJECT, &prefixes)
}

/// CEL: the object has one of these annotations, or one with such a prefix.
fn has_annotation(names: &[&str], prefixes: &[&str]) -> String {
    let begins: Vec<String> =
        prefixes.iter().map(|prefix| format!("a.startsWith('{prefix}')")).collect();
    format!(
        "has(object.metadata.annotations) && object.metadata.annotations.exists(a, \
         a in [{}] || {})",
        listed(names),
        begins.join(" || ")
    )
}
