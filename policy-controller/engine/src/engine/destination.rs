//! What addresses and ports lead to.

use super::Engine;
use crate::publish::destination::{ClientPlace, DestinationQuestion, PublishedDestination};
use crate::query::destination::DestinationOf;
use crate::query::workload;
use crate::resolve::destination::{node_key, zone_of};
use policy_core::WorkloadKey;
use policy_crds::{Body, Resource};
use std::sync::Arc;

impl Engine {
    /// True if destinations can be looked up.
    pub(crate) fn answers_destinations(&self) -> bool {
        self.config.outbound.is_some()
    }

    /// What an address and port, or a port of a Service, lead to.
    pub(crate) fn destination(
        &mut self,
        question: &DestinationQuestion,
    ) -> Arc<PublishedDestination> {
        self.memo.query(&DestinationOf(question.clone()), &self.index, &self.config).0
    }

    /// The place of a workload, if it exists.
    pub(crate) fn client_place(&self, key: &WorkloadKey) -> Option<ClientPlace> {
        let object = self.index.object(&workload::object_key(key))?;
        let Body::Valid(Resource::Pod(pod)) = &object.body else {
            return Some(ClientPlace::default());
        };
        let node = pod.node.clone();
        let zone = node.as_ref().and_then(|node| zone_of(self.index.object(&node_key(node))?));
        Some(ClientPlace { node, zone })
    }
}
