//! The CRDs that a cluster installs, written by a small schema builder of our own, so that a review
//! compares the schemas that the cluster will see.
//!
//! Linkerd's kinds keep Linkerd's versions and schemas, so that manifests apply unchanged whichever
//! of the two installed them. The kinds of the group `portcullis.dev` are this project's alone. The
//! Gateway API's CRDs belong to the cluster.

pub(crate) mod conditions;
pub(crate) mod definition;
pub(crate) mod profile;
pub(crate) mod schema;
mod yaml;

pub use profile::Profile;

use crate::kind::Kind;
use serde_json::Value;

/// The files of a profile: their names in [`Profile::folder`] and their text.
pub fn crds(profile: Profile) -> Vec<(String, String)> {
    let kinds = Kind::ALL.into_iter().filter(|kind| profile.has(*kind));
    let definitions = kinds.filter_map(|kind| kind.spec().definition);
    definitions.map(|definition| definition(profile).file(profile)).collect()
}

/// A value as YAML: block style, keys in alphabetical order, with a line break at its end.
pub fn yaml(value: &Value) -> String {
    yaml::write(value)
}
