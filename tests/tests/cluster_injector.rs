//! The injector as the API server sees it: which pods it asks about, what is stored, and what happens
//! where nobody answers, or where everybody asks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::too_many_lines,
    missing_docs,
    reason = "a test ends where it cannot go on"
)]

#[path = "cluster_injector/away.rs"]
mod away;
#[path = "cluster_injector/crowd.rs"]
mod crowd;
#[path = "cluster_injector/crowded.rs"]
mod crowded;
#[path = "cluster_injector/labels.rs"]
mod labels;
#[path = "cluster_injector/lacking.rs"]
mod lacking;
#[path = "cluster_injector/pods.rs"]
mod pods;
#[path = "cluster_injector/world.rs"]
mod world;

use policy_tests::cluster::{Cluster, SharedCluster, say};

static CLUSTER: SharedCluster = SharedCluster::new();

/// The cluster, whose API server reaches what listens here; absent: the test is to return.
async fn cluster() -> Option<&'static Cluster> {
    let cluster = CLUSTER.get_or_skip().await?;
    if !cluster.is_breakable() {
        say("skipped: the API server of KUBECONFIG_UNDER_TEST does not reach a webhook here");
        return None;
    }
    Some(cluster)
}
