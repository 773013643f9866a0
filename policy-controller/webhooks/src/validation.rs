//! Validation of objects before they are stored, and the warnings of their authors.
//!
//! ```text
//! review ─▶ scope ─▶ validate (policy_crds::parse) ─▶ what-if (the index) ─▶ warning
//! ```
//!
//! The verdict depends on the request alone, and only warnings depend on the objects that the
//! controller has read. The controller ignores every object that the webhook denies, so an object that
//! was stored while the webhook was unavailable grants nothing either.

mod configuration;
mod scope;
mod validate;
mod warning;

pub use configuration::{cluster_webhook, configuration, outbound_webhook};
pub(crate) use validate::{Validation, Verdict, validate};
#[cfg(test)]
pub(crate) use warning::UNCHECKED;
pub(crate) use warning::warnings;
