//! The first line of a test that needs a node.

use super::super::skip::{Absent, shared_or_skip};
use super::definition::Node;
use tokio::sync::OnceCell;

/// One node for all tests of a binary, with our definitions and Gateway API's installed or not, as
/// the first test wants. It ends with the process.
#[derive(Debug, Default)]
pub struct SharedNode(OnceCell<Result<Node, Absent>>);

impl SharedNode {
    /// None yet: the first test that asks starts it.
    pub const fn new() -> Self {
        Self(OnceCell::const_new())
    }

    /// The node; absent: the test is to return, it has been counted as skipped.
    pub async fn get_or_skip(&self) -> Option<&Node> {
        self.prepared_or_skip(async |_| Ok(())).await
    }

    /// The node, after `prepare` was done once on it, which may not fail; absent: the test is to
    /// return, it has been counted as skipped.
    pub async fn prepared_or_skip(
        &self,
        prepare: impl AsyncFnOnce(&Node) -> anyhow::Result<()>,
    ) -> Option<&Node> {
        let start = async || {
            let node = Node::start().await?;
            prepare(&node).await?;
            Ok(node)
        };
        shared_or_skip(self.0.get_or_init(start).await)
    }
}
