//! What becomes of pods.

mod configured;
mod golden;
mod patches;
mod properties;
mod refusals;

use super::{Bypass, Defaults, Outcome, Places, Settings, Skip, Surroundings, Trust, inject};
use policy_crds::document;
use serde_json::Value;

/// The one document of a text.
fn value(yaml: &str) -> Value {
    document::read(yaml).remove(0).value.unwrap()
}

fn settings(native: bool) -> Settings {
    let places = Places::new("portcullis", "cluster.local", "cluster.local");
    let (trust, bypass) = (Trust::ConfigMap, Bypass::Warn);
    Settings { defaults: Defaults::default(), places, trust, bypass, native }
}

/// Namespace `shop`, with these annotations.
fn shop(annotations: &str) -> Surroundings {
    let yaml = format!("kind: Namespace\nmetadata: {{name: shop, annotations: {annotations}}}\n");
    Surroundings::of(&value(&yaml)).unwrap()
}

fn asks() -> Surroundings {
    shop("{linkerd.io/inject: enabled}")
}

#[track_caller]
fn injected(pod: &Value, around: &Surroundings, settings: &Settings) -> (Value, Vec<String>) {
    match inject(pod, around, settings) {
        Outcome::Injected { pod, warnings } => (*pod, warnings),
        other @ (Outcome::Skipped { .. } | Outcome::Refused(_)) => panic!("{other:?}"),
    }
}

#[track_caller]
fn skipped(pod: &Value, around: &Surroundings) -> (Skip, Vec<String>) {
    match inject(pod, around, &settings(true)) {
        Outcome::Skipped { reason, warnings } => (reason, warnings),
        other @ (Outcome::Injected { .. } | Outcome::Refused(_)) => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(pod: &Value, around: &Surroundings) -> Vec<String> {
    match inject(pod, around, &settings(true)) {
        Outcome::Refused(errors) => errors.iter().map(ToString::to_string).collect(),
        other @ (Outcome::Injected { .. } | Outcome::Skipped { .. }) => panic!("{other:?}"),
    }
}
