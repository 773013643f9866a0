//! The CRDs that a cluster installs, written by a small schema builder of our own, so that the
//! schemas are compared in review as what the cluster will see.
//!
//! Linkerd's kinds keep Linkerd's versions and schemas, so that manifests apply unchanged whichever
//! of the two installed them. No kind of the group `portcullis.dev` exists yet. The Gateway API's
//! CRDs belong to the cluster.

mod authorization;
mod conditions;
mod definition;
mod external;
mod profile;
mod rate_limit;
mod route;
mod schema;
mod server;
mod yaml;

pub use profile::Profile;

use serde_json::Value;

/// The files of a profile: their names in [`Profile::folder`] and their text.
pub fn crds(profile: Profile) -> Vec<(String, String)> {
    let definitions = [
        server::servers(),
        authorization::server_authorizations(),
        authorization::authorization_policies(),
        authorization::mesh_tls_authentications(),
        authorization::network_authentications(),
        rate_limit::rate_limits(profile),
        route::http_routes(),
        external::egress_networks(),
        external::external_workloads(profile),
    ];
    definitions.iter().map(|definition| definition.file(profile)).collect()
}

/// A value as YAML: block style, keys in alphabetical order, with a line break at its end.
pub fn yaml(value: &Value) -> String {
    yaml::write(value)
}
