//! The injector as the API server sees it: which pods it asks about, what is stored, and what happens
//! where nobody answers, or where everybody asks.

mod away;
mod crowd;
mod crowded;
mod external;
mod images;
mod labels;
mod lacking;
mod pods;
mod world;

use policy_tests::cluster::{Cluster, GroupCluster};
use std::sync::Arc;

/// Their controllers lead, and label namespaces everywhere.
static CLUSTER: GroupCluster = GroupCluster::new();

/// The cluster; absent: the test is to return, it has been counted as skipped.
async fn cluster() -> Option<Arc<Cluster>> {
    CLUSTER.get_or_skip().await
}
