//! Every rule of every kind, one case a line: a piece of manifest, and the errors it gets.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    clippy::wildcard_enum_match_arm,
    reason = "a test"
)]

mod annotations;
mod authentications;
mod authorizations;
mod documents;
mod empty_lists;
mod group_paths;
mod inbound;
mod kinds;
mod messages;
mod outbound;
mod properties;
mod remarks;
mod requests;
mod rewrites;
mod route_selectors;
mod routes;
mod schemas;
mod seeds;
mod servers;
mod smi;
mod support;
mod workloads;
