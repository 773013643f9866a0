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

mod ask;
mod bypass;
mod chosen;
mod configuration;
mod container;
mod diff;
mod element;
mod inject;
mod keeper;
mod lack;
mod lacking;
mod metrics;
mod names;
mod places;
mod ports;
mod probe;
mod quantity;
mod review;
mod roots;
mod setting;
mod settings;
mod sidecar;
mod skip;
mod template;
#[cfg(test)]
mod tests;
mod told;
mod value;

pub use ask::{INJECT, INJECT_LABEL, Surroundings};
pub use chosen::{Defaults, Preset};
pub use configuration::injector_configuration;
pub(crate) use configuration::{PATH as INJECT_PATH, says_of_injection};
pub use inject::{JOB_WARNING, Outcome, inject};
pub use keeper::{Keeper, KeeperInputs};
pub use lack::{Lack, PodFacts, is_left_alone, lack};
pub use metrics::InjectorMetrics;
pub use names::namespace_remarks;
pub(crate) use names::{about_injection, injection_remarks};
pub use places::Places;
pub use review::Injector;
pub(crate) use review::Reply;
pub use roots::followed;
pub use setting::Setting;
pub use settings::{
    Bypass, INJECTOR_CONFIGURATION, InjectorSettings, Settings, Sidecar, Trust, TrustSettings,
};
pub use sidecar::{PROXY as SIDECAR, VERSION_ANNOTATION};
pub use skip::Skip;
pub use template::{Template, templates};
pub use told::{Told, told};
