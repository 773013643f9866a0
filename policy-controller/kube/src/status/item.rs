//! An object as the API server answers it, in the fields that its status depends on.

use serde::Deserialize;
use serde_json::Value;

/// The fields of an object that its status depends on.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Item {
    /// Metadata.
    pub(crate) metadata: ItemMeta,
    /// Its spec.
    #[serde(default)]
    pub(crate) spec: Value,
    /// Its current status.
    #[serde(default)]
    pub(crate) status: Value,
}

/// The metadata fields that writing a status depends on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemMeta {
    /// Name.
    pub(crate) name: String,
    /// Namespace.
    #[serde(default)]
    pub(crate) namespace: String,
    /// Uid.
    #[serde(default)]
    pub(crate) uid: Option<String>,
    /// Time of its creation.
    #[serde(default)]
    pub(crate) creation_timestamp: Option<String>,
    /// Generation.
    #[serde(default)]
    pub(crate) generation: Option<i64>,
    /// Version, which guards the write.
    #[serde(default)]
    pub(crate) resource_version: String,
}
