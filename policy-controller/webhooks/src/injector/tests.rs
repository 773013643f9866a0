//! Injection of pods.

mod bypasses;
mod configured;
mod golden;
mod outbound;
mod patches;
mod properties;
mod refusals;

use super::{
    Bypass, ControlPlane, Defaults, NamespaceContext, OutboundSettings, Outcome, Settings,
    SkipReason, Trust, inject,
};
use policy_crds::document;
use serde_json::Value;

/// Parses the one document of a text.
fn value(yaml: &str) -> Value {
    document::read(yaml).remove(0).value.unwrap()
}

fn settings(native: bool) -> Settings {
    let control_plane = ControlPlane::new("portcullis", "cluster.local", "cluster.local");
    let (trust, bypass) = (Trust::ConfigMap, Bypass::Warn);
    let outbound = OutboundSettings::default();
    Settings { defaults: Defaults::default(), control_plane, trust, bypass, native, outbound }
}

/// Namespace `shop`, with these annotations, where Linkerd's annotation asks, too.
fn shop(annotations: &str) -> NamespaceContext {
    let yaml = format!("kind: Namespace\nmetadata: {{name: shop, annotations: {annotations}}}\n");
    let around = NamespaceContext::of(&value(&yaml)).unwrap();
    NamespaceContext { reads_linkerd: true, ..around }
}

fn asks() -> NamespaceContext {
    shop("{linkerd.io/inject: enabled}")
}

#[track_caller]
fn injected(pod: &Value, context: &NamespaceContext, settings: &Settings) -> (Value, Vec<String>) {
    match inject(pod, context, settings) {
        Outcome::Injected { pod, warnings } => (*pod, warnings),
        other @ (Outcome::Skipped { .. } | Outcome::Refused(_)) => panic!("{other:?}"),
    }
}

#[track_caller]
fn skipped(pod: &Value, context: &NamespaceContext) -> (SkipReason, Vec<String>) {
    match inject(pod, context, &settings(true)) {
        Outcome::Skipped { reason, warnings, unmarked: None } => (reason, warnings),
        other @ (Outcome::Injected { .. } | Outcome::Skipped { .. } | Outcome::Refused(_)) => {
            panic!("{other:?}")
        }
    }
}

#[track_caller]
fn refused(pod: &Value, context: &NamespaceContext) -> Vec<String> {
    match inject(pod, context, &settings(true)) {
        Outcome::Refused(errors) => errors.iter().map(ToString::to_string).collect(),
        other @ (Outcome::Injected { .. } | Outcome::Skipped { .. }) => panic!("{other:?}"),
    }
}
