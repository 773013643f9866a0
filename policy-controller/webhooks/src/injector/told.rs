//! What the author of a pod would be told by the webhook, asked of a manifest.

use super::ask::{Answer, INJECT, INJECT_LABEL, Surroundings, of_namespace};
use super::chosen::Defaults;
use super::element::texts;
use super::inject::{Outcome, inject};
use super::names::{THIS, nearly_asking, strangers, unknown, without_effect};
use super::places::Places;
use super::settings::{Bypass, Settings, Trust};
use super::skip::Skip;
use policy_crds::FieldError;
use serde_json::Value;

/// What the author of a pod would be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
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
pub fn told(pod: &Value, around: &Surroundings) -> Told {
    let annotations = texts(pod.pointer("/metadata/annotations"));
    let around = asking(around);
    let mut told = Told::default();
    let warnings = [strangers(&annotations, ""), nearly_asking(&annotations)];
    told.warned.extend(warnings.into_iter().flatten());
    let wanted = |texts: &super::ask::Texts| {
        texts.get(INJECT_LABEL).is_some_and(|answer| answer == "enabled")
    };
    if wanted(&annotations) || wanted(&around.annotations) || wanted(&around.labels) {
        told.warned.extend(without_effect(&annotations, THIS));
    }
    match inject(pod, &around, &settings()) {
        Outcome::Refused(errors) => {
            told.refused = errors.into_iter().map(|error| of_the_pod(error, &around)).collect();
        }
        // Whoever wants no sidecar gets the pod whatever else is wrong.
        Outcome::Skipped { reason: Skip::DisabledByPod | Skip::DisabledByNamespace(_), .. } => {
            told.warned.extend(unknown(&annotations));
        }
        Outcome::Injected { .. } | Outcome::Skipped { .. } => {}
    }
    told
}

/// The namespace without an answer that cannot be read: nobody asks the webhook about its pods.
fn asking(around: &Surroundings) -> Surroundings {
    let mut around = around.clone();
    let answer: Result<Option<Answer>, _> =
        of_namespace(&around.annotations, &around.labels, &around.place());
    if answer.is_err() {
        around.annotations.retain(|name, _| !INJECT.contains(&name.as_str()));
    }
    around
}

/// What a namespace is refused for stands in another document.
fn of_the_pod(error: FieldError, around: &Surroundings) -> FieldError {
    if error.field.starts_with(&around.place()) {
        return FieldError { field: String::new(), message: error.to_string() };
    }
    error
}

/// What holds where nobody says otherwise. Places are written into sidecars alone.
fn settings() -> Settings {
    Settings {
        defaults: Defaults::default(),
        places: Places::new("portcullis", "cluster.local", "cluster.local"),
        trust: Trust::ConfigMap,
        bypass: Bypass::Warn,
        native: true,
    }
}
