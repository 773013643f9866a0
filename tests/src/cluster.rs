//! A real control plane under test: etcd and kube-apiserver as processes of their own.
//!
//! Nothing of Kubernetes is imitated. A test begins with one line and is skipped loudly where a
//! control plane cannot be had (in continuous integration that is a failure):
//!
//! ```ignore
//! static CLUSTER: SharedCluster = SharedCluster::new();
//!
//! #[tokio::test]
//! async fn promise() {
//!     let Some(cluster) = CLUSTER.get_or_skip().await else { return };
//! ```
//!
//! [`cluster_or_skip`] is the line of a test that changes what belongs to the whole cluster, or that
//! kills, freezes or compacts: it needs a control plane of its own. There is no controller-manager, so there are no default service accounts, no
//! garbage collection, and only [`Objects::delete`] finishes the deletion of a namespace.
//!
//! `KUBEBUILDER_ASSETS` names a folder with `etcd` and `kube-apiserver`; without it they are built
//! once by Go from `tests/cluster` into the user's cache. `KUBECONFIG_UNDER_TEST` names a cluster
//! that exists: the programs of tests then run one after the other on it, in namespaces of their own,
//! without the tests that need a control plane of their own.

mod cache;
mod certificates;
mod controller;
mod definition;
mod go;
mod kubeconfig;
mod kubernetes;
pub mod node;
mod objects;
mod plane;
mod process;
mod programs;
mod shared;
mod skip;

pub use controller::{ControllerBuilder, ControllerProcess};
pub use definition::{Cluster, ClusterBuilder};
pub use kubernetes::KubernetesController;
pub use objects::{Objects, documents};
pub use policy_testkit::{in_ci, say, skip};
pub use programs::{coredns, drift, gateway_api_crds, helm, kubectl, prepare, smi_crds};
pub use shared::{GroupCluster, SharedCluster, cluster_or_skip, drift_or_skip, helm_or_skip};
pub use skip::Missing;
