//! Errors of values that are no object.

use crate::reader::{describe, quote};
use serde_json::Value;

/// Error of a value that is not an object of a kind that is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnObject {
    /// Not a mapping at all.
    #[error("expected an object with `apiVersion`, `kind` and `metadata`")]
    NotAMapping,
    /// `apiVersion` or `kind` is missing: the document may be for another program.
    #[error("{field}: {REQUIRED}")]
    WithoutKind {
        /// The missing field.
        field: String,
    },
    /// A field is missing or invalid that identifies the object.
    #[error("{field}: {message}")]
    Field {
        /// Path of the field.
        field: String,
        /// The error.
        message: String,
    },
    /// A kind that does not exist in a supported group, or that looks like a misspelling.
    #[error("{field}: {message}")]
    Mistaken {
        /// `kind` or `apiVersion`.
        field: String,
        /// The error, and a suggestion.
        message: String,
    },
    /// A kind of another project, to be ignored.
    #[error("kind: {api_version} {kind} is not read")]
    Foreign {
        /// `apiVersion`.
        api_version: String,
        /// `kind`.
        kind: String,
    },
}

impl NotAnObject {
    /// The field the error is about; empty where it is about the whole value.
    pub fn field(&self) -> &str {
        match self {
            Self::NotAMapping => "",
            Self::WithoutKind { field }
            | Self::Field { field, .. }
            | Self::Mistaken { field, .. } => field,
            Self::Foreign { .. } => "kind",
        }
    }

    /// The message, without the field.
    pub fn message(&self) -> String {
        match self {
            Self::NotAMapping => self.to_string(),
            Self::WithoutKind { .. } => REQUIRED.to_owned(),
            Self::Field { message, .. } | Self::Mistaken { message, .. } => message.clone(),
            Self::Foreign { api_version, kind } => {
                format!("{} is not read", quote(&format!("{api_version} {kind}")))
            }
        }
    }

    /// True if the value does not say that it is an object, such as a patch of kustomize's.
    pub fn states_no_kind(&self) -> bool {
        matches!(self, Self::NotAMapping | Self::WithoutKind { .. })
    }

    /// True if the value is an object of another project's kind, not a mistake.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign { .. })
    }
}

/// The message of a field that is missing.
const REQUIRED: &str = "is required";

/// Returns the error of a field.
pub(super) fn fail(field: &str, message: &str) -> NotAnObject {
    NotAnObject::Field { field: field.to_owned(), message: message.to_owned() }
}

/// `n`, `yes` and `7` are no text in YAML, though they may be meant as names.
pub(super) fn not_text(value: &Value) -> String {
    format!("expected text, found {}: put it in quotes", describe(value))
}
