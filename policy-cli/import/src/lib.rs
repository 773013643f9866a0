//! Manifests from descriptions of APIs and from policies of other meshes: pure functions from the text of
//! a file to objects of this project, with a report of what became of each part of the text.
//!
//! ```text
//! OpenAPI, ServiceProfile ──▶ described routes ──▶ groups   ──▶ HttpRouteGroup, TimeoutPolicy
//! SMI, Istio, Cilium,     ──▶ closures, grants ──▶ servers  ──▶ Server, HTTPRoute,
//! Consul, NetworkPolicy       and denials                        AuthorizationPolicy, …
//! ```
//!
//! `export_smi` goes the other way: compiled policies of ports become TrafficTargets.
//!
//! **Invariants.** What is written never permits what the source denies: where a rule cannot be said, it is
//! left out or said narrower, and a row of the report names it with its line. Every object passes the reader
//! of its kind before it is returned. Nothing is fetched.

mod cilium;
mod consul;
mod difference;
mod duration;
mod file;
mod groups;
mod grpc;
mod istio;
mod label_selector;
mod manifest;
mod mesh;
mod network_policy;
mod object_name;
mod openapi;
mod report;
mod service_profile;
mod smi;

pub use cilium::cilium;
pub use consul::consul;
pub use difference::difference;
pub use file::ImportFile;
pub use groups::GroupChoice;
pub use grpc::{GrpcChoice, grpc_services};
pub use istio::{IstioMesh, istio};
pub use manifest::{Exported, Imported, Manifest};
pub use network_policy::network_policies;
pub use openapi::open_api;
pub use report::{Fidelity, ReportRow, SourceLine};
pub use service_profile::service_profiles;
pub use smi::{AccountOfIdentity, ExportedAccount, export_smi, smi};
