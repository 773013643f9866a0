//! Conditions that objects are expected to have.

use policy_engine::conditions::{ConditionTable, ObjectCondition};
use serde::Deserialize;

/// A condition of an object. Another condition of the same type, about another parent or target of the
/// object, does not matter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedCondition {
    /// The object, `Kind namespace/name`.
    pub object: String,
    /// Type of the condition.
    pub condition: String,
    /// Status of the condition; absent: the object has no condition of this type.
    pub status: Option<bool>,
    /// Reason of the condition.
    pub reason: Option<String>,
}

impl ExpectedCondition {
    /// The difference from the conditions that there are, if there is one.
    pub(super) fn differs(&self, table: &ConditionTable) -> Option<String> {
        let own = table.iter().filter(|(key, _)| key.to_string() == self.object);
        let all: Vec<&ObjectCondition> = own.flat_map(|(_, all)| all.iter()).collect();
        let of_type = |found: &&&ObjectCondition| found.kind.as_str() == self.condition;
        let as_expected = match self.status {
            None => !all.iter().any(|found| of_type(&found)),
            Some(status) => all.iter().filter(of_type).any(|found| {
                let reason = self.reason.as_deref();
                found.status == status && reason.is_none_or(|text| found.reason.as_str() == text)
            }),
        };
        let found = || all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        (!as_expected).then(|| format!("{self:?} is not among its conditions: {}", found()))
    }
}
