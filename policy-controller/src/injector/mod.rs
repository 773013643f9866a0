//! The injector: a pod that asks, or whose namespace asks, gets the sidecar and the redirection that
//! leads to it.
//!
//! ```text
//! annotations ─▶ ask ─▶ skip ─▶ chosen (setting) ─▶ probe ─▶ container ─▶ the pod with its sidecar
//! ```
//!
//! [`inject`] is a pure function of the pod, its namespace and the settings: the webhook, and
//! `portcullis inject` on manifests, do the same with it. Settings are taken from the pod, then from
//! its namespace, then from the flags. What policy depends on is never copied: the controller reads
//! it where it stands.
//!
//! A pod is refused where doing what was asked for is impossible or where it is not clear what was
//! meant; what is left as it is, is left for a reason that is told.

mod args;
mod ask;
mod chosen;
mod configuration;
mod container;
mod diff;
mod element;
mod keeper;
mod lack;
mod metrics;
mod names;
mod ports;
mod probe;
mod quantity;
mod review;
mod setting;
mod skip;
mod template;
#[cfg(test)]
mod tests;

pub use args::{
    INJECTOR_CONFIGURATION, InjectorArgs, InjectorArgsError, InjectorSettings, Sidecar,
};
pub use ask::{INJECT, INJECT_LABEL, Surroundings};
pub use chosen::Defaults;
pub use configuration::injector_configuration;
pub(crate) use configuration::{PATH as INJECT_PATH, says_of_injection};
pub use container::Places;
pub use keeper::{Keeper, KeeperInputs};
pub use lack::{Lack, PodFacts, lack};
pub use metrics::InjectorMetrics;
pub use names::namespace_remarks;
pub(crate) use names::{about_injection, injection_remarks};
pub use review::Injector;
pub(crate) use review::Reply;
pub use setting::Setting;
pub use skip::Skip;
pub use template::{Template, templates};

use chosen::Chosen;
use policy_crds::FieldError;
use serde_json::Value;

/// What every injected pod has in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Settings that neither the pod nor its namespace states.
    pub defaults: Defaults,
    /// Where the control plane is.
    pub places: Places,
    /// Whether the sidecar is an init container that goes on (Kubernetes 1.29), or a container like
    /// others.
    pub native: bool,
}

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
    let asked = ask::asked(&annotations, around);
    let mut errors = names::unknown(&annotations);
    let mut warnings = names::doubtful(&annotations);
    let asked = match asked {
        Ok(asked) => asked,
        Err(more) => {
            errors.extend(more);
            return Outcome::Refused(errors);
        }
    };
    if !errors.is_empty() {
        return Outcome::Refused(errors);
    }
    if let Some(reason) = asked.refusal() {
        return Outcome::Skipped { reason, warnings };
    }
    let errors = names::mistyped(&around.annotations, &around.place());
    if !errors.is_empty() {
        return Outcome::Refused(errors);
    }
    match skip::reason(pod) {
        Some(Skip::Ours { version }) => return already(pod, version, warnings),
        Some(reason) => {
            warnings.extend(reason.warning());
            return Outcome::Skipped { reason, warnings };
        }
        None => {}
    }
    let chosen = match Chosen::of(pod, &annotations, around, &settings.defaults) {
        Ok(chosen) => chosen,
        Err(errors) => return Outcome::Refused(errors),
    };
    let errors = skip::impossible(pod);
    if !errors.is_empty() {
        return Outcome::Refused(errors);
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

/// What a Job is told where its sidecar is a container like others.
pub const JOB_WARNING: &str = "the sidecar is a container like others, which does not end by itself: the Job completes once \
     something in the pod posts to 127.0.0.1:4191/shutdown, for which \
     `portcullis.dev/proxy-admin-shutdown: enabled` is needed";

/// A pod that has a sidecar of ours: another webhook may have added containers since.
fn already(pod: &Value, version: Option<String>, mut warnings: Vec<String>) -> Outcome {
    let reason = Skip::Ours { version };
    let mut refreshed = pod.clone();
    container::refresh(&mut refreshed, &mut warnings);
    if refreshed != *pod {
        return Outcome::Injected { pod: Box::new(refreshed), warnings };
    }
    warnings.extend(reason.warning());
    Outcome::Skipped { reason, warnings }
}
