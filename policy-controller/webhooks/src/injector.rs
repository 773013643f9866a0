//! The injector: adds the sidecar and the redirection to it to pods that opt in, by their own annotation
//! or by their namespace's.
//!
//! ```text
//! annotations ─▶ opt_in ─▶ skip_reason ─▶ effective_config ─▶ probe ─▶ container ─▶ mark ─▶ patched pod
//! ```
//!
//! [`inject`] is a pure function of the pod, its namespace and the settings: the webhook, and
//! `portcullis inject` on manifests, call the same function. Settings are taken from the pod, then from
//! its namespace, then from the flags. Annotations that policy depends on are never copied, because the
//! controller reads them from the original object.
//!
//! A pod is refused if its request is impossible or ambiguous. A pod that is not injected is created
//! unchanged, with the reason as a warning unless its author chose it or nothing requests a sidecar.

mod bypass;
mod configuration;
mod container;
mod control_plane;
mod diff;
mod difference;
mod dry_run;
mod effective_config;
mod element;
mod inject;
mod left_alone;
mod mark;
mod metrics;
mod misplaced;
mod missing_sidecar;
mod missing_sidecar_cache;
mod names;
mod namespace_bounds;
mod namespace_label;
mod namespace_labeler;
mod not_text;
mod opt_in;
mod outbound;
mod outbound_settings;
mod patch;
mod plaintext_calls;
mod pod_security;
mod ports;
mod probe;
mod quantity;
mod record;
mod resources;
mod review;
mod roots;
mod setting;
mod settings;
mod sidecar;
mod sized_container;
mod skip_reason;
mod template;
#[cfg(test)]
mod tests;
mod unguarded;
mod uninject;
mod value;

pub use configuration::injector_configuration;
pub(crate) use configuration::{PATH as INJECT_PATH, has_injection_annotation};
pub use control_plane::ControlPlane;
pub use dry_run::{DryRun, dry_run};
pub use effective_config::{Defaults, Preset};
pub use inject::{JOB_WARNING, Outcome, inject};
pub use left_alone::left_alone;
pub use metrics::InjectorMetrics;
pub use misplaced::{misplaced, without_pods};
pub use missing_sidecar::{MissingSidecar, PodFacts, is_exempt, missing_sidecar};
pub(crate) use names::{injection_annotations, injection_remarks};
pub use names::{namespace_remarks, namespace_without_effect};
pub use namespace_bounds::NamespaceBounds;
pub use namespace_labeler::{NamespaceLabeler, NamespaceLabelerInputs};
pub use not_text::not_text;
pub use opt_in::{INJECT, INJECT_LABEL, LINKERD_INJECT, NamespaceContext};
pub use outbound_settings::{OutboundSettings, OutboundTransport, PlaintextAllowed, Unanswered};
pub use plaintext_calls::plaintext_call;
pub use pod_security::{ENFORCE_LABEL, pod_security_error, pod_security_refusal};
pub use review::Injector;
pub(crate) use review::Reply;
pub use roots::trust_from_pem;
pub use setting::Setting;
pub use settings::{
    Bypass, INJECTOR_CONFIGURATION, InjectorSettings, Settings, Sidecar, Trust, TrustSettings,
};
pub use sidecar::{PROXY as SIDECAR, VERSION_ANNOTATION};
pub use skip_reason::SkipReason;
pub use template::{Template, templates};
pub use unguarded::{Unguarded, unguarded};
pub use uninject::{Uninjected, asking, recorded, uninject};
