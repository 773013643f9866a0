//! The admission webhook as the API server sees it: what it is asked, what it answers, what happens
//! where it is away, and how its certificate is kept.
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

#[path = "cluster_admission/api.rs"]
mod api;
#[path = "cluster_admission/away.rs"]
mod away;
#[path = "cluster_admission/binary.rs"]
mod binary;
#[path = "cluster_admission/certificates.rs"]
mod certificates;
#[path = "cluster_admission/rules.rs"]
mod rules;
#[path = "cluster_admission/warnings.rs"]
mod warnings;
#[path = "cluster_admission/webhook.rs"]
mod webhook;

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
