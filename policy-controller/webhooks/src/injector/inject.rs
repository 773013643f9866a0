//! What becomes of a pod.

use super::ask::{Surroundings, asked};
use super::chosen::Chosen;
use super::settings::{Bypass, Settings};
use super::skip::{self, Skip};
use super::{bypass, container, element, names, probe};
use policy_crds::FieldError;
use serde_json::Value;

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is to be as `pod` is.
    Injected {
        /// The pod with its sidecar.
        pod: Box<Value>,
        /// What its author should know.
        warnings: Vec<String>,
    },
    /// It has no sidecar because of this.
    Skipped {
        /// Why.
        reason: Skip,
        /// What its author should know, the reason included where it is not what was asked for.
        warnings: Vec<String>,
    },
    /// It must not be stored like this. Never empty; each names a field.
    Refused(Vec<FieldError>),
}

/// What becomes of `pod`, the JSON of a Pod or of a pod template.
///
/// Injecting what came out of it changes nothing.
pub fn inject(pod: &Value, around: &Surroundings, settings: &Settings) -> Outcome {
    let annotations = element::texts(pod.pointer("/metadata/annotations"));
    let asked = asked(&annotations, around);
    let mut errors = names::unknown(&annotations);
    let doubtful = names::doubtful(&annotations);
    let mut warnings: Vec<String> = doubtful.iter().map(ToString::to_string).collect();
    let asked = match asked {
        Ok(asked) => asked,
        Err(more) => {
            errors.extend(more);
            return Outcome::Refused(errors);
        }
    };
    let refusal = asked.refusal();
    // Whoever wants no sidecar gets the pod whatever else is wrong.
    if let Some(reason @ (Skip::DisabledByPod | Skip::DisabledByNamespace(_))) = refusal {
        warnings.extend(errors.iter().map(ToString::to_string));
        return Outcome::Skipped { reason, warnings };
    }
    if !errors.is_empty() {
        return Outcome::Refused(errors);
    }
    if let Some(reason) = refusal {
        return Outcome::Skipped { reason, warnings };
    }
    let errors = names::mistyped(&around.annotations, &around.place());
    if !errors.is_empty() {
        return Outcome::Refused(errors);
    }
    if let Some(reason) = skip::reason(pod) {
        return left_alone(
            pod,
            reason,
            bypass::around_own(pod, &annotations, around, settings),
            settings,
            warnings,
        );
    }
    let chosen = match Chosen::of(pod, &annotations, around, &settings.defaults) {
        Ok(chosen) => chosen,
        Err(errors) => return Outcome::Refused(errors),
    };
    let errors = skip::impossible(pod);
    if !errors.is_empty() {
        return Outcome::Refused(errors);
    }
    let ways = bypass::ways(pod, &annotations);
    if let Some(refused) = refused_for(ways, settings, &mut warnings) {
        return refused;
    }
    warnings.extend(names::left_aside(&annotations, around));
    let mut injected = pod.clone();
    let tcp_probes = probe::rewrite(&mut injected, &chosen.skipped, &mut warnings);
    let native = settings.native;
    if !native && skip::is_of_a_job(pod) {
        warnings.push(JOB_WARNING.to_owned());
    }
    container::add(&mut injected, &chosen, settings, &tcp_probes);
    Outcome::Injected { pod: Box::new(injected), warnings }
}

/// The outcome for a pod that gets no sidecar for `reason`. Anybody can write containers like ours:
/// what is said of others (`ways`) holds for these as well.
fn left_alone(
    pod: &Value,
    reason: Skip,
    ways: Vec<FieldError>,
    settings: &Settings,
    mut warnings: Vec<String>,
) -> Outcome {
    if matches!(reason, Skip::Ours { .. }) {
        return refused_for(ways, settings, &mut warnings)
            .unwrap_or_else(|| already(pod, reason, warnings));
    }
    warnings.extend(reason.warning());
    Outcome::Skipped { reason, warnings }
}

/// The refusal of a pod with ways around its sidecar; where they are let through, they are told.
fn refused_for(
    ways: Vec<FieldError>,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Option<Outcome> {
    if settings.bypass == Bypass::Refuse && !ways.is_empty() {
        return Some(Outcome::Refused(ways));
    }
    warnings.extend(ways.iter().map(ToString::to_string));
    None
}

/// What a Job is told where its sidecar is a container like others.
pub const JOB_WARNING: &str = "the sidecar is a container like others, which does not end by itself: the Job completes once \
     something in the pod posts to 127.0.0.1:4191/shutdown, for which \
     `portcullis.dev/proxy-admin-shutdown: enabled` is needed";

/// A pod that has a sidecar of ours: another webhook may have added containers since.
fn already(pod: &Value, reason: Skip, mut warnings: Vec<String>) -> Outcome {
    let mut refreshed = pod.clone();
    container::refresh(&mut refreshed, &mut warnings);
    if refreshed != *pod {
        return Outcome::Injected { pod: Box::new(refreshed), warnings };
    }
    warnings.extend(reason.warning());
    Outcome::Skipped { reason, warnings }
}
