//! Follows the answer to a lookup, for a client in its place.

use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::Destination;
use policy_engine::latest::Latest;
use policy_engine::{
    ClientPlace, DestinationKey, DestinationScope, Destinations, LookupError, PublishedDestination,
    ScopeKind,
};
use policy_proto::compat::{ContextToken, PathTarget};
use std::sync::Arc;
use tonic::Status;

/// Lookups in a row for one answer. Two are enough unless the kind of scope changes between them; a
/// client goes by the last then, and by the next change.
const LOOKUPS: usize = 3;

/// The answer to a lookup.
#[derive(Debug)]
pub(super) struct Follower {
    destinations: Destinations,
    target: PathTarget,
    client: ContextToken,
    scope: DestinationScope,
    /// Absent for names of elsewhere, which lead nowhere for good.
    latest: Option<Latest<Arc<PublishedDestination>>>,
}

impl Follower {
    /// Looks up `target` for a client in this place.
    pub(super) async fn open(
        destinations: Destinations,
        target: PathTarget,
        client: ContextToken,
    ) -> Result<Self, LookupError> {
        let scope = DestinationScope::All;
        let mut follower = Self { destinations, target, client, scope, latest: None };
        follower.look_up().await?;
        Ok(follower)
    }

    /// Returns the answer that counts for the client.
    pub(super) async fn read(&mut self) -> Result<Arc<PublishedDestination>, LookupError> {
        for _ in 1..LOOKUPS {
            let answer = self.newest();
            let scope = self.scope_of(answer.needs).await;
            if scope == self.scope {
                return Ok(answer);
            }
            self.scope = scope;
            self.look_up().await?;
        }
        Ok(self.newest())
    }

    /// Waits for another answer; false if the controller has ended. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Result<bool, LookupError> {
        let Some(latest) = &mut self.latest else { return std::future::pending().await };
        if latest.changed().await {
            return Ok(true);
        }
        // It was closed to make room for others, or the controller ends.
        match self.look_up().await {
            Ok(()) => Ok(true),
            Err(LookupError::Stopped) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn newest(&mut self) -> Arc<PublishedDestination> {
        match &mut self.latest {
            Some(latest) => latest.read(),
            None => Arc::new(PublishedDestination {
                destination: Destination::Unknown,
                needs: ScopeKind::All,
                is_pending: false,
            }),
        }
    }

    async fn look_up(&mut self) -> Result<(), LookupError> {
        let scope = self.scope.clone();
        self.latest = match &self.target {
            PathTarget::Address(address, port) => {
                let key = DestinationKey { address: *address, port: *port, scope };
                Some(self.destinations.watch(key).await?)
            }
            PathTarget::Service(name, port) => {
                Some(self.destinations.service(name, *port, scope).await?)
            }
            PathTarget::Foreign => None,
        };
        Ok(())
    }

    /// The client's scope of a kind. Its place is asked for only where the answer depends on it.
    async fn scope_of(&self, kind: ScopeKind) -> DestinationScope {
        if kind == self.scope.kind() {
            return self.scope.clone();
        }
        self.place().await.scope(kind)
    }

    /// The place of the client's pod. Of one that is not known yet, the node that its token names.
    async fn place(&self) -> ClientPlace {
        let known = match &self.client.pod {
            Some(pod) => self.destinations.client(pod).await,
            None => None,
        };
        let known = known.unwrap_or_default();
        ClientPlace { node: known.node.or_else(|| self.client.node.clone()), ..known }
    }
}

/// Returns the status of a failed lookup. Never one that a client takes for "not a Service".
pub(super) fn refusal(error: LookupError) -> Status {
    match error {
        LookupError::OutboundOff => {
            Status::unimplemented("outbound discovery is off").because(StatusReason::OutboundOff)
        }
        LookupError::TooManyDestinations => {
            Status::resource_exhausted("too many destinations are followed")
                .because(StatusReason::TooManyDestinations)
        }
        LookupError::Stopped => {
            Status::unavailable("the controller is shutting down").because(StatusReason::Stopping)
        }
        LookupError::NotSynced | LookupError::NotFound | LookupError::TooManyPorts => {
            Status::unavailable("objects have not been listed yet").because(StatusReason::NotListed)
        }
    }
}
