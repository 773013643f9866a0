//! The admission webhook as the API server sees it: what it is asked, what it answers, what happens
//! where it is away, and how its certificate is kept.

mod api;
mod as_linkerd;
mod away;
mod binary;
mod certificates;
mod findings;
mod rules;
mod warnings;
mod webhook;

use policy_tests::cluster::{Cluster, skip};

/// The cluster, whose API server reaches what listens here; absent: the test is to return.
async fn cluster() -> Option<&'static Cluster> {
    let cluster = crate::shared().await?;
    if !cluster.is_breakable() {
        skip(
            "an API server that reaches a webhook here, which that of KUBECONFIG_UNDER_TEST does not",
        );
        return None;
    }
    Some(cluster)
}
