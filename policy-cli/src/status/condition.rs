//! Condition of an object, and its source.

use policy_proto::messages;
use serde::Serialize;

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    /// `Accepted`, `ResolvedRefs`, …
    pub(crate) r#type: String,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: String,
    /// Reason, for programs.
    pub(crate) reason: String,
    /// Message, for people.
    pub(crate) message: String,
    /// The parent or target that it refers to, as `Kind namespace/name`; absent: the whole object.
    pub(crate) parent: Option<String>,
    /// The section of the parent.
    pub(crate) section: Option<String>,
    /// Source of the condition.
    pub(crate) source: ConditionSource,
    /// The controller that wrote it, if the status has conditions of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) writer: Option<String>,
    /// True if it refers to an older generation of the object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) outdated: bool,
}

/// Source of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConditionSource {
    /// A controller.
    Controller,
    /// The object's own status.
    Object,
    /// Computed here from the objects.
    Computed,
}

impl From<messages::ObjectCondition> for Condition {
    fn from(condition: messages::ObjectCondition) -> Self {
        let messages::ObjectCondition { r#type, status, reason, message, parent, section } =
            condition;
        let some = |text: String| (!text.is_empty()).then_some(text);
        Self {
            r#type,
            status: if status { "True" } else { "False" }.to_owned(),
            reason,
            message,
            parent: some(parent),
            section: some(section),
            source: ConditionSource::Controller,
            writer: None,
            outdated: false,
        }
    }
}
