//! A control plane that breaks under the controller: what was in force stays in force, nothing is
//! ever wider than the objects say, and afterwards every port is served to the byte as a controller
//! serves it that has just started.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "a test ends where it cannot go on"
)]

#[path = "cluster_chaos/access.rs"]
mod access;
#[path = "cluster_chaos/broken.rs"]
mod broken;
#[path = "cluster_chaos/labels.rs"]
mod labels;
#[path = "cluster_chaos/live.rs"]
mod live;
#[path = "cluster_chaos/manifests.rs"]
mod manifests;
#[path = "cluster_chaos/namespaces.rs"]
mod namespaces;
#[path = "cluster_chaos/random.rs"]
mod random;
#[path = "cluster_chaos/revocation.rs"]
mod revocation;
#[path = "cluster_programmed/watching.rs"]
mod watching;
