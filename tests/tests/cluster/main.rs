//! The controller, the issuer and the command line against a real API server.
//!
//! Tests that only add objects, in namespaces of their own, share one control plane. A test has a
//! control plane of its own, or shares one with the tests of its module, where it changes what belongs
//! to the whole cluster: definitions, webhooks that are called about everybody's objects, the rights
//! of the controller, and the Lease of a controller that writes status everywhere. Two installations
//! that lead in one cluster write over each other's status.

mod access;
mod admission;
mod beside;
mod chaos;
mod chart;
mod cli;
mod crds;
mod grants;
mod guard;
mod health;
mod identity;
mod injector;
mod invalid_objects;
mod issuer;
mod linkerd;
mod programmed;
mod smi;
mod source;
mod status;
mod unread;
mod version;

use policy_tests::cluster::{Cluster, SharedCluster};

static CLUSTER: SharedCluster = SharedCluster::new();

/// The cluster that tests share; absent: the test is to return, it has been counted as skipped.
async fn shared() -> Option<&'static Cluster> {
    CLUSTER.get_or_skip().await
}
