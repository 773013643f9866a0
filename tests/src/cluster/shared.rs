//! The first line of a test that needs a cluster: it has one, or it is skipped.

use super::definition::{Cluster, ClusterBuilder};
use super::programs;
use super::skip::{Absent, available, fail, shared_or_skip};
use policy_testkit::skip;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex, OnceCell, Semaphore};

/// Rooms for control planes that are not shared by all. Each takes half a gigabyte of memory, and
/// seconds of a processor to start.
static OWN: Semaphore = Semaphore::const_new(2);

/// One cluster for all tests of a binary, with our definitions installed. It ends with the process.
#[derive(Debug, Default)]
pub struct SharedCluster(OnceCell<Result<Cluster, Absent>>);

impl SharedCluster {
    /// None yet: the first test that asks starts it.
    pub const fn new() -> Self {
        Self(OnceCell::const_new())
    }

    /// The cluster; absent: the test is to return, it has been counted as skipped.
    pub async fn get_or_skip(&self) -> Option<&Cluster> {
        let start = async || {
            let cluster = Cluster::start().await?;
            cluster.install_crds().await?;
            Ok(cluster)
        };
        shared_or_skip(self.0.get_or_init(start).await)
    }
}

/// One cluster for some tests of a binary, with our definitions installed, which is theirs to change.
/// It lasts as long as one of them has it.
#[derive(Debug, Default)]
pub struct GroupCluster(Mutex<Weak<Cluster>>);

impl GroupCluster {
    /// None yet: a test that asks while no other has it starts it.
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// The cluster; absent: the test is to return, it has been counted as skipped.
    pub async fn get_or_skip(&self) -> Option<Arc<Cluster>> {
        let mut current = self.0.lock().await;
        if let Some(cluster) = current.upgrade() {
            return Some(cluster);
        }
        let cluster = Arc::new(cluster_or_skip(Cluster::builder()).await?);
        if let Err(error) = cluster.install_crds().await {
            fail(&error);
        }
        *current = Arc::downgrade(&cluster);
        Some(cluster)
    }
}

/// A control plane of one's own, for a test that changes what belongs to the whole cluster, or that
/// kills, freezes or compacts: two at most at once, so a test has one at a time. Absent: the test is
/// to return, it has been counted as skipped.
pub async fn cluster_or_skip(builder: ClusterBuilder) -> Option<Cluster> {
    if std::env::var_os("KUBECONFIG_UNDER_TEST").is_some() {
        skip(
            "it needs a control plane of its own, and KUBECONFIG_UNDER_TEST names one that is not",
        );
        return None;
    }
    let Ok(room) = OWN.acquire().await else { panic!("no room for a control plane") };
    let started = available(builder.start().await).inspect_err(|missing| skip(missing)).ok();
    started.map(|cluster| cluster.in_room(room))
}

/// Helm, built if need be; absent: the test is to return, it has been counted as skipped.
pub fn helm_or_skip() -> Option<PathBuf> {
    available(programs::helm()).inspect_err(|missing| skip(missing)).ok()
}

/// Argo CD's comparison, built if need be; absent: the test is to return, it has been counted as skipped.
pub fn drift_or_skip() -> Option<PathBuf> {
    available(programs::drift()).inspect_err(|missing| skip(missing)).ok()
}
