//! What the author of a pod would be told by the webhook, asked of a manifest.

use super::control_plane::ControlPlane;
use super::effective_config::Defaults;
use super::element::texts;
use super::inject::{Outcome, inject};
use super::names::{THIS, near_opt_in, unknown, unrecognized, without_effect};
use super::opt_in::{INJECT, INJECT_LABEL, NamespaceContext, OptIn, of_namespace};
use super::settings::{Bypass, Settings, Trust};
use super::skip_reason::SkipReason;
use policy_crds::FieldError;
use serde_json::Value;

/// What the author of a pod would be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRun {
    /// What the pod is refused for. A field that is empty: it is about the pod as a whole.
    pub refused: Vec<FieldError>,
    /// Annotations that do not do what they seem to.
    pub warned: Vec<FieldError>,
}

/// What the author of `pod`, the JSON of a Pod or of a pod template, would be told of its annotations,
/// and why it would be refused, where it gets its sidecar by the installation's usual settings.
///
/// Annotations of Linkerd's injector are told where the pod or its namespace asks for our sidecar:
/// elsewhere they may be meant for that injector.
pub fn dry_run(pod: &Value, context: &NamespaceContext) -> DryRun {
    let annotations = texts(pod.pointer("/metadata/annotations"));
    let context = readable(context);
    let mut result = DryRun::default();
    let warnings = [unrecognized(&annotations, ""), near_opt_in(&annotations)];
    result.warned.extend(warnings.into_iter().flatten());
    let wanted = |texts: &super::opt_in::StringMap| {
        texts.get(INJECT_LABEL).is_some_and(|answer| answer == "enabled")
    };
    if wanted(&annotations) || wanted(&context.annotations) || wanted(&context.labels) {
        result.warned.extend(without_effect(&annotations, THIS));
    }
    match inject(pod, &context, &settings()) {
        Outcome::Refused(errors) => {
            result.refused = errors.into_iter().map(|error| on_pod(error, &context)).collect();
        }
        // Whoever wants no sidecar gets the pod whatever else is wrong.
        Outcome::Skipped {
            reason: SkipReason::DisabledByPod | SkipReason::DisabledByNamespace(_),
            ..
        } => {
            result.warned.extend(unknown(&annotations));
        }
        Outcome::Injected { .. } | Outcome::Skipped { .. } => {}
    }
    result
}

/// The namespace without an answer that cannot be read: nobody asks the webhook about its pods.
fn readable(context: &NamespaceContext) -> NamespaceContext {
    let mut context = context.clone();
    let answer: Result<Option<OptIn>, _> =
        of_namespace(&context.annotations, &context.labels, &context.place());
    if answer.is_err() {
        context.annotations.retain(|name, _| !INJECT.contains(&name.as_str()));
    }
    context
}

/// What a namespace is refused for stands in another document.
fn on_pod(error: FieldError, context: &NamespaceContext) -> FieldError {
    if error.field.starts_with(&context.place()) {
        return FieldError { field: String::new(), message: error.to_string() };
    }
    error
}

/// What holds where nobody says otherwise. ControlPlane are written into sidecars alone.
fn settings() -> Settings {
    Settings {
        defaults: Defaults::default(),
        control_plane: ControlPlane::new("portcullis", "cluster.local", "cluster.local"),
        trust: Trust::ConfigMap,
        bypass: Bypass::Warn,
        native: true,
    }
}
