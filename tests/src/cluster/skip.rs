//! The first line of a test that needs a cluster: it has one, or it is skipped where everyone sees.

use super::{Cluster, ClusterBuilder, programs};
use anyhow::Result;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex, OnceCell, Semaphore};

/// Rooms for control planes that are not shared by all. Each takes half a gigabyte of memory, and
/// seconds of a processor to start.
static OWN: Semaphore = Semaphore::const_new(2);

/// What a control plane would need and this machine does not have.
#[derive(Debug)]
pub struct Missing(String);

impl Missing {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// One cluster for all tests of a binary, with our definitions installed. It ends with the process.
#[derive(Debug, Default)]
pub struct SharedCluster(OnceCell<Result<Cluster, String>>);

impl SharedCluster {
    /// None yet: the first test that asks starts it.
    pub const fn new() -> Self {
        Self(OnceCell::const_new())
    }

    /// The cluster; absent: the test is to return, it has been counted as skipped.
    pub async fn get_or_skip(&self) -> Option<&Cluster> {
        let started = self
            .0
            .get_or_init(|| async {
                let cluster = available(Cluster::start().await)?;
                if let Err(error) = cluster.install_crds().await {
                    fail(&error);
                }
                Ok(cluster)
            })
            .await;
        started.as_ref().inspect_err(|missing| skip(missing)).ok()
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

/// What a test needs, or what is missing for it.
pub(super) fn available<T>(started: Result<T>) -> Result<T, String> {
    started.map_err(|error| match error.downcast_ref::<Missing>() {
        Some(missing) => missing.to_string(),
        None => fail(&error),
    })
}

fn fail(error: &anyhow::Error) -> ! {
    panic!("what a test needs cannot be had: {error:?}")
}

/// Whether this is continuous integration, where nothing may be skipped.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false")
}

/// Says on standard error, past the test runner's capture, that this test is skipped, and counts it
/// in the file that `PORTCULLIS_SKIPPED` names.
pub fn skip(missing: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(!in_ci(), "skipped, which continuous integration does not allow: {missing}");
    say(&format!("SKIPPED {test}: {missing}"));
    if let Some(path) = std::env::var_os("PORTCULLIS_SKIPPED")
        && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
    {
        // Only the count is lost if it cannot be written; the line above was said.
        _ = writeln!(file, "{test}: {missing}");
    }
}

/// A line on standard error that the test runner does not swallow.
pub fn say(line: &str) {
    // Nobody is left to tell if standard error is closed.
    _ = writeln!(std::io::stderr().lock(), "{line}");
}
