//! The handle on destinations: what addresses and ports lead to.

use crate::destination_shares::DestinationClient;
use crate::latest::Latest;
use crate::publish::LookupError;
use crate::publish::destination::{
    ClientPlace, DestinationKey, DestinationQuestion, DestinationScope, PublishedDestination,
    ServicePortKey,
};
use crate::request::{Request, Requests};
use policy_core::{ServiceName, WorkloadKey, fold_mapped};
use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A cheap handle on all destinations.
#[derive(Clone, Debug)]
pub struct Destinations {
    requests: Requests,
    client: DestinationClient,
}

impl Destinations {
    /// Creates a handle on the task that answers these requests. What is followed by it counts for
    /// nobody in particular.
    pub fn new(requests: Requests) -> Self {
        let address = Ipv4Addr::UNSPECIFIED.into();
        Self { requests, client: DestinationClient { group: "".into(), address } }
    }

    /// Returns the handle by which a client follows destinations. Where all clients together may follow
    /// no more, those that hold most give way, and what they followed closes.
    #[must_use]
    pub fn of(&self, client: DestinationClient) -> Self {
        Self { requests: self.requests.clone(), client }
    }

    /// Follows what an address and port lead to. The channel holds the answer at the time of the
    /// call and each one that differs; an address that nobody holds is an answer. It closes when the
    /// controller ends, and when the client it counts for has to give way: ask again, and the answer
    /// tells.
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
        let client = self.client.clone();
        let answer =
            self.requests.call(|reply| Request::Destination(question, client, reply)).await;
        answer.ok_or(LookupError::Stopped)?
    }
}
