//! A whole node under test: containerd, kubelet, kube-proxy and DNS beside a control plane, and real
//! pods on it.
//!
//! ```ignore
//! static NODE: SharedNode = SharedNode::new();
//!
//! #[tokio::test]
//! async fn promise() {
//!     let Some(node) = NODE.get_or_skip().await else { return };
//!     let namespace = node.namespace("shop").await.unwrap();
//!     node.apply(&manifests(&namespace)).await.unwrap();
//!     node.wait_ready(&namespace, "web").await.unwrap();
//!     let page = node.kubectl().exec(&namespace, "client", "client", &["wget", "-qO-", "web"]).await;
//! ```
//!
//! A [`Node`] is a [`Cluster`] (it derefs to one) whose pods run. All of it has a network, mounts and
//! processes of its own, which the kernel takes down with their first process, whatever ends the
//! test; what is left then are empty cgroups, which are removed too. One node per machine: other test
//! binaries wait. It has IPv4 and IPv6 pods and Services; names resolve in pods.
//!
//! Clients that are not pods run with [`Node::command`] on the node itself ([`Place::Node`], where
//! kubelet probes come from), on a second node ([`Place::Second`]) or on this machine, outside the
//! cluster ([`Place::Machine`], which reaches pods and Services too).

mod definition;
mod images;
mod kubectl;
mod ours;
mod pods;
pub(crate) mod sandbox;
mod second;
mod settings;
mod shared;

pub use definition::{NODE, Node, Place, SECOND_NODE, check};
pub use images::TOOLS;
pub use kubectl::{Ended, Kubectl};
pub use ours::{REGISTRY, binaries_of_images, build_images};
pub use pods::ready;
pub use sandbox::Sandbox;
pub use shared::SharedNode;
