//! The rules by which objects are refused before they are stored, and what their authors are told.
//!
//! ```text
//! review ─▶ scope ─▶ validate (policy_crds::parse) ─▶ what-if (the index) ─▶ warning
//! ```
//!
//! The verdict follows from the request alone: what the controller has not seen yet never refuses
//! anything, and only warnings depend on it. Everything that is refused here is refused by the
//! controller too, so that an object stored while the webhook was away grants nothing either.

mod configuration;
mod scope;
mod validate;
mod warning;

pub use configuration::configuration;
pub(crate) use validate::{Validation, Verdict, validate};
#[cfg(test)]
pub(crate) use warning::UNCHECKED;
pub(crate) use warning::warnings;
