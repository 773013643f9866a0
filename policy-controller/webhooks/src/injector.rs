//! The injector: a pod that asks, or whose namespace asks, gets the sidecar and the redirection that
//! leads to it.
//!
//! ```text
//! annotations ─▶ opt_in ─▶ skip_reason ─▶ effective_config ─▶ probe ─▶ container ─▶ patched pod
//! ```
//!
//! [`inject`] is a pure function of the pod, its namespace and the settings: the webhook, and
//! `portcullis inject` on manifests, do the same with it. Settings are taken from the pod, then from
//! its namespace, then from the flags. What policy depends on is never copied: the controller reads
//! it where it stands.
//!
//! A pod is refused where doing what was asked for is impossible or where it is not clear what was
//! meant; what is left as it is, is left for a reason that is told.

mod bypass;
mod configuration;
mod container;
mod control_plane;
mod diff;
mod dry_run;
mod effective_config;
mod element;
mod inject;
mod metrics;
mod missing_sidecar;
mod missing_sidecar_cache;
mod names;
mod namespace_labeler;
mod opt_in;
mod ports;
mod probe;
mod quantity;
mod review;
mod roots;
mod setting;
mod settings;
mod sidecar;
mod skip_reason;
mod template;
#[cfg(test)]
mod tests;
mod value;

pub use configuration::injector_configuration;
pub(crate) use configuration::{PATH as INJECT_PATH, has_injection_annotation};
pub use control_plane::ControlPlane;
pub use dry_run::{DryRun, dry_run};
pub use effective_config::{Defaults, Preset};
pub use inject::{JOB_WARNING, Outcome, inject};
pub use metrics::InjectorMetrics;
pub use missing_sidecar::{MissingSidecar, PodFacts, is_exempt, missing_sidecar};
pub use names::namespace_remarks;
pub(crate) use names::{injection_annotations, injection_remarks};
pub use namespace_labeler::{NamespaceLabeler, NamespaceLabelerInputs};
pub use opt_in::{INJECT, INJECT_LABEL, NamespaceContext};
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
