//! The handle on destinations: what addresses and ports lead to.

use crate::latest::Latest;
use crate::publish::LookupError;
use crate::publish::destination::{
    ClientPlace, DestinationKey, DestinationQuestion, DestinationScope, PublishedDestination,
    ServicePortKey,
};
use crate::request::{Request, Requests};
use policy_core::{ServiceName, WorkloadKey, fold_mapped};
use std::num::NonZeroU16;
use std::sync::Arc;

/// A cheap handle on all destinations.
#[derive(Clone, Debug)]
pub struct Destinations {
    requests: Requests,
}

impl Destinations {
    /// Creates a handle on the task that answers these requests.
    pub fn new(requests: Requests) -> Self {
        Self { requests }
    }

    /// Follows what an address and port lead to. The channel holds the answer at the time of the
    /// call and each one that differs. It closes only when the controller ends: an address that
    /// nobody holds is an answer.
    ///
    /// # Errors
    /// `NotSynced`, `OutboundOff`, `TooManyDestinations` and `Stopped`.
    pub async fn watch(
        &self,
        key: DestinationKey,
    ) -> Result<Latest<Arc<PublishedDestination>>, LookupError> {
        let key = DestinationKey { address: fold_mapped(key.address), ..key };
        self.follow(DestinationQuestion::Address(key)).await
    }

    /// Follows what a port of a Service leads to, as [`Self::watch`] does for its cluster address.
    /// The endpoints are of the family of that address; of a Service without an address they are
    /// IPv4, or IPv6 if it has none of IPv4. A Service that does not exist is `Unknown`.
    ///
    /// # Errors
    /// `NotSynced`, `OutboundOff`, `TooManyDestinations` and `Stopped`.
    pub async fn service(
        &self,
        service: &ServiceName,
        port: NonZeroU16,
        scope: DestinationScope,
    ) -> Result<Latest<Arc<PublishedDestination>>, LookupError> {
        let key = ServicePortKey { service: service.clone(), port, scope };
        self.follow(DestinationQuestion::Service(key)).await
    }

    /// The place of a workload at the time of the call; `None` if there is no such workload, before
    /// objects have been listed, and if the controller has ended.
    pub async fn client(&self, workload: &WorkloadKey) -> Option<ClientPlace> {
        self.requests.call(|reply| Request::ClientPlace(workload.clone(), reply)).await?
    }

    async fn follow(
        &self,
        question: DestinationQuestion,
    ) -> Result<Latest<Arc<PublishedDestination>>, LookupError> {
        let answer = self.requests.call(|reply| Request::Destination(question, reply)).await;
        answer.ok_or(LookupError::Stopped)?
    }
}
