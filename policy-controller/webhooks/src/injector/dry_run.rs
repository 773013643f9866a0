//! Injection of a manifest without a cluster: the errors and warnings that its author would get.

use super::control_plane::ControlPlane;
use super::effective_config::Defaults;
use super::element::texts;
use super::inject::{Outcome, inject, of_containers};
use super::left_alone::left_alone;
use super::names::{THIS_SIDECAR, near_opt_in, unknown, unrecognized, without_effect};
use super::opt_in::{INJECT, INJECT_LABEL, NamespaceContext};
use super::outbound_settings::OutboundSettings;
use super::pod_security::pod_security_error;
use super::resources::above_whole_pod;
use super::settings::{Bypass, Settings, Trust};
use super::skip_reason::SkipReason;
use policy_crds::FieldError;
use serde_json::Value;

/// Namespace of the control plane that is assumed where there is no cluster.
pub(super) const CONTROL_PLANE: &str = "portcullis";

/// Errors and warnings for the author of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRun {
    /// The errors that the pod would be refused for. An empty field: about the pod as a whole.
    pub refused: Vec<FieldError>,
    /// Annotations without the effect that they seem to have.
    pub warned: Vec<FieldError>,
}

/// Returns the errors and warnings that the author of `pod`, the JSON of a Pod or of a pod
/// template, would get with the default settings of an installation.
///
/// Annotations of Linkerd's injector are reported if the pod or its namespace opts in to our
/// sidecar, by either annotation, because both opt in; elsewhere they may be meant for Linkerd's.
pub fn dry_run(pod: &Value, context: &NamespaceContext) -> DryRun {
    let annotations = texts(pod.pointer("/metadata/annotations"));
    let context = readable(context);
    let mut result = DryRun::default();
    let warnings = [unrecognized(&annotations, ""), near_opt_in(&annotations)];
    result.warned.extend(warnings.into_iter().flatten());
    let wanted = |texts: &super::opt_in::StringMap| {
        INJECT.iter().any(|name| texts.get(*name).is_some_and(|answer| answer == "enabled"))
    };
    let labelled = context.labels.get(INJECT_LABEL).is_some_and(|answer| answer == "enabled");
    if wanted(&annotations) || wanted(&context.annotations) || labelled {
        result.warned.extend(without_effect(&annotations, THIS_SIDECAR));
    }
    match inject(pod, &context, &settings()) {
        Outcome::Refused(errors) => {
            result.refused = errors.into_iter().map(|error| on_pod(error, &context)).collect();
        }
        // A pod that opts out is created whatever else is wrong.
        Outcome::Skipped {
            reason: SkipReason::DisabledByPod | SkipReason::DisabledByNamespace(_),
            ..
        } => {
            result.warned.extend(unknown(&annotations));
        }
        Outcome::Injected { pod: injected, .. }
            if left_alone(&context, CONTROL_PLANE).is_none() =>
        {
            result.warned.extend(of_containers(pod));
            result.refused.extend(above_whole_pod(&injected));
            // Where the namespace asks, it is reported there.
            let refusal = pod_security_error(&context).filter(|_| !context.is_enabled());
            result.refused.extend(refusal.map(|it| FieldError { field: String::new(), ..it }));
        }
        Outcome::Injected { .. } | Outcome::Skipped { .. } => {}
    }
    result
}

/// Returns the namespace without invalid injection annotations: the API server does not send its
/// pods to the injector.
fn readable(context: &NamespaceContext) -> NamespaceContext {
    let mut context = context.clone();
    if context.answer(&context.place()).is_err() {
        context.annotations.retain(|name, _| !INJECT.contains(&name.as_str()));
    }
    context
}

/// Attributes an error about the namespace, which is in another document, to the pod as a whole.
fn on_pod(error: FieldError, context: &NamespaceContext) -> FieldError {
    if error.field.starts_with(&context.place()) {
        return FieldError { field: String::new(), message: error.to_string() };
    }
    error
}

/// Returns the default settings. The control plane's addresses appear only in sidecars.
pub(super) fn settings() -> Settings {
    Settings {
        defaults: Defaults::default(),
        control_plane: ControlPlane::new(CONTROL_PLANE, "cluster.local", "cluster.local"),
        trust: Trust::ConfigMap,
        bypass: Bypass::Warn,
        native: true,
        outbound: OutboundSettings::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::injector::ENFORCE_LABEL;
    use serde_json::json;

    #[test]
    fn pod_security_refuses_no_pod_of_a_namespace_that_is_left_alone() {
        let pod = json!({
            "metadata": {"annotations": {"portcullis.dev/inject": "enabled"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        });
        for (namespace, refusals) in [("shop", 1), ("kube-system", 0), (CONTROL_PLANE, 0)] {
            let mut context = NamespaceContext::unknown(namespace);
            context.labels.insert(ENFORCE_LABEL.to_owned(), "restricted".to_owned());
            let found = dry_run(&pod, &context);
            assert_eq!(found.refused.len(), refusals, "{namespace}: {found:?}");
        }
    }
}
