//! Decides on the injection of a pod.

use super::effective_config::{EffectiveConfig, is_mesh_only};
use super::not_text::not_text;
use super::opt_in::{NamespaceContext, StringMap, decide};
use super::settings::{Bypass, Settings};
use super::skip_reason::{self, SkipReason};
use super::{bypass, container, element, mark, names, pod_security, ports, probe, resources};
use policy_crds::{FieldError, OutboundMode, annotation};
use serde_json::Value;

/// Outcome of an injection.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The pod is to be replaced by `pod`.
    Injected {
        /// The pod with its sidecar.
        pod: Box<Value>,
        /// Warnings for its author.
        warnings: Vec<String>,
    },
    /// The pod is not injected.
    Skipped {
        /// The reason.
        reason: SkipReason,
        /// The pod without the mark of an injected pod that its author wrote; absent if it has none,
        /// so that the pod stays as it is.
        unmarked: Option<Box<Value>>,
        /// Warnings for its author, which include the reason if the author did not choose it.
        warnings: Vec<String>,
    },
    /// The pod must not be created. Never empty; each error names a field.
    Refused(Vec<FieldError>),
}

/// Injects the sidecar into `pod`, the JSON of a Pod or of a pod template.
///
/// Injection is idempotent. The mark of an injected pod always says what the injected containers do: a
/// mark that somebody else wrote is replaced, or taken out of a pod without a sidecar.
pub fn inject(pod: &Value, context: &NamespaceContext, settings: &Settings) -> Outcome {
    let mut outcome = outcome(pod, context, settings);
    let Some(given) = mark::given(pod) else { return outcome };
    let remark = |message| format!("{}: {message}", annotation::field(annotation::SIDECAR_MARK));
    match &mut outcome {
        Outcome::Injected { pod, warnings } if mark::given(pod) != Some(given) => {
            warnings.push(remark(mark::REPLACED));
        }
        Outcome::Injected { .. }
        | Outcome::Skipped { reason: SkipReason::AlreadyInjected { .. }, .. }
        | Outcome::Refused(_) => {}
        Outcome::Skipped { warnings, unmarked, .. } => {
            *unmarked = Some(Box::new(mark::without(pod)));
            warnings.push(remark(mark::TAKEN_OUT));
        }
    }
    outcome
}

fn outcome(pod: &Value, context: &NamespaceContext, settings: &Settings) -> Outcome {
    let annotations = element::texts(pod.pointer("/metadata/annotations"));
    let decision = decide(&annotations, context);
    let mut errors = names::unknown(&annotations);
    errors.extend(not_text(pod));
    let doubtful = names::suspicious(&annotations);
    let mut warnings: Vec<String> = doubtful.iter().map(ToString::to_string).collect();
    let decision = match decision {
        Ok(decision) => decision,
        Err(more) => {
            errors.extend(more);
            return Outcome::Refused(errors);
        }
    };
    let skip = decision.skip_reason();
    // A pod that opts out is created whatever else is wrong.
    if let Some(reason @ (SkipReason::DisabledByPod | SkipReason::DisabledByNamespace(_))) = skip {
        warnings.extend(errors.iter().map(ToString::to_string));
        return Outcome::Skipped { reason, warnings, unmarked: None };
    }
    if !errors.is_empty() {
        return Outcome::Refused(errors);
    }
    if let Some(reason) = skip {
        return Outcome::Skipped { reason, warnings, unmarked: None };
    }
    let errors = names::mistyped(&context.annotations, &context.place());
    if !errors.is_empty() {
        return Outcome::Refused(errors);
    }
    if let Some(reason) = skip_reason::reason(pod) {
        return left_as_it_is(pod, reason, (&annotations, context), settings, warnings);
    }
    let (defaults, hindrance) = (&settings.defaults, settings.hindrance());
    let config = match EffectiveConfig::of(pod, &annotations, context, defaults, hindrance) {
        Ok(config) => config,
        Err(errors) => return Outcome::Refused(errors),
    };
    let errors = skip_reason::conflicts(pod, config.outbound.taken_ports());
    if !errors.is_empty() {
        return Outcome::Refused(errors);
    }
    let bypasses = bypass::bypasses(pod, &annotations);
    if let Some(refused) = bypass_refusal(bypasses, settings, &mut warnings) {
        return refused;
    }
    warnings.extend(of_containers(pod).iter().map(ToString::to_string));
    warnings.extend(names::inherited_without_effect(&annotations, context));
    warnings.extend(config.warnings.iter().cloned());
    warnings.extend(pod_security::pod_security_error(context).map(|refusal| refusal.message));
    let mut injected = pod.clone();
    let tcp_probes = probe::rewrite(&mut injected, &config.skipped);
    if !settings.native && skip_reason::belongs_to_job(pod) {
        warnings.push(JOB_WARNING.to_owned());
    }
    container::add(&mut injected, &config, settings, &tcp_probes);
    mark::write(&mut injected, context);
    warnings.extend(resources::above_whole_pod(&injected).iter().map(ToString::to_string));
    Outcome::Injected { pod: Box::new(injected), warnings }
}

/// Reviews an update of a pod: of the sidecar's containers, the images may be those that are injected.
pub(super) fn review_update(
    pods: (&Value, &Value),
    context: &NamespaceContext,
    settings: &Settings,
) -> Outcome {
    let (_, pod) = pods;
    let mut warnings = Vec::new();
    // A pod that is no pod of ours has no such containers, whatever their names.
    let Some(reason @ SkipReason::AlreadyInjected { .. }) = skip_reason::reason(pod) else {
        return Outcome::Skipped { reason: SkipReason::NotRequested, warnings, unmarked: None };
    };
    let changed = bypass::changed_images(pods, context, settings);
    bypass_refusal(changed, settings, &mut warnings).unwrap_or(Outcome::Skipped {
        reason,
        warnings,
        unmarked: None,
    })
}

/// Returns the outcome for a pod that is not injected for `reason`. One that is injected already is
/// brought up to date.
fn left_as_it_is(
    pod: &Value,
    reason: SkipReason,
    (annotations, context): (&StringMap, &NamespaceContext),
    settings: &Settings,
    mut warnings: Vec<String>,
) -> Outcome {
    if !matches!(reason, SkipReason::AlreadyInjected { .. }) {
        warnings.extend(reason.warning());
        return Outcome::Skipped { reason, warnings, unmarked: None };
    }
    let bypasses = bypass::bypasses_of_injected(pod, annotations, context, settings);
    bypass_refusal(bypasses, settings, &mut warnings).unwrap_or_else(|| {
        let mesh_only = is_mesh_only(annotations, context, &settings.defaults);
        already_injected(pod, context, reason, mesh_only, warnings)
    })
}

/// Returns the refusal of a pod with bypasses, or adds them to the warnings if they are allowed.
fn bypass_refusal(
    bypasses: Vec<FieldError>,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Option<Outcome> {
    if settings.bypass == Bypass::Refuse && !bypasses.is_empty() {
        return Some(Outcome::Refused(bypasses));
    }
    warnings.extend(bypasses.iter().map(ToString::to_string));
    None
}

/// Warnings about the pod's own containers.
pub(super) fn of_containers(pod: &Value) -> Vec<FieldError> {
    [resources::above_limits(pod), ports::shared_names(pod), probe::unresolved(pod)].concat()
}

/// Warning for a Job whose sidecar is not a native one.
pub const JOB_WARNING: &str = "the sidecar is a container like others, which does not end by itself: the Job completes once \
     something in the pod posts to 127.0.0.1:4191/shutdown, for which \
     `portcullis.dev/proxy-admin-shutdown: enabled` is needed";

/// Handles a pod that is already injected: another webhook may have added containers since, or the
/// pod's author may have written containers like ours. `mesh_only`: the pod has to have that mode.
fn already_injected(
    pod: &Value,
    context: &NamespaceContext,
    reason: SkipReason,
    mesh_only: Result<bool, Vec<FieldError>>,
    mut warnings: Vec<String>,
) -> Outcome {
    let mut refreshed = pod.clone();
    container::refresh(&mut refreshed, &mut warnings);
    let mode = mark::write(&mut refreshed, context);
    let loosened = match mesh_only {
        Ok(true) => mark::loosens(pod, mode).into_iter().collect(),
        Ok(false) => Vec::new(),
        Err(errors) => errors,
    };
    if !loosened.is_empty() {
        return Outcome::Refused(loosened);
    }
    if mode != OutboundMode::None {
        container::move_to_front(&mut refreshed);
    }
    if refreshed != *pod {
        return Outcome::Injected { pod: Box::new(refreshed), warnings };
    }
    warnings.extend(reason.warning());
    Outcome::Skipped { reason, warnings, unmarked: None }
}
