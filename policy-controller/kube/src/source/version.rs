//! Resource versions.

use serde_json::Value;

/// A resource version: opaque where it is sent back, a number where it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Version(String);

impl Version {
    /// The resource version in the metadata of `value`; none if there is none.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let text = value.get("metadata")?.get("resourceVersion")?.as_str()?;
        (!text.is_empty() && text != "0").then(|| Self(text.to_owned()))
    }

    /// As the API server wrote it.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// As a number, which it is wherever the storage is etcd; none where it is not.
    pub(super) fn number(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
