//! `Destination` and `OutboundPolicies`, for clients of Linkerd's API: where their connections lead,
//! one stream per name or address.
//!
//! A client asks `OutboundPolicies` what an address stands for. If it is a Service's, the answer
//! sends it to `Destination.Get` for the endpoints; if it is not, `NOT_FOUND` sends it to the endpoint
//! in the profile (`Destination.GetProfile`), which it has asked for at the same time.
//!
//! **Invariants.** The answers depend on what is asked and on the place that the client states, never
//! on its identity. The first message comes at once and is complete. A client of a Service without
//! endpoints is told so; it is never sent elsewhere.

mod destination;
mod follow;
mod outbound;
mod stream;
mod view;

use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::core::Core;
use crate::serve::metrics::Call;
pub(crate) use destination::DestinationService;
use follow::Follower;
pub(crate) use outbound::OutboundService;
use policy_engine::{Destinations, LookupError};
use policy_proto::compat::{ContextToken, PathTarget};
use std::sync::Arc;
use stream::{Answers, Lease};
use tonic::Status;
use view::View;

/// Most bytes of a request: a name and a token of three names.
const MAX_REQUEST: usize = 4096;

/// What both services share.
#[derive(Clone, Debug)]
pub(crate) struct Discovery {
    core: Arc<Core>,
    destinations: Destinations,
    /// The DNS domain of the cluster, which ends the names of Services.
    domain: Arc<str>,
}

impl Discovery {
    /// Answers from `destinations`, in a cluster whose DNS domain is `domain`.
    pub(crate) fn new(core: Arc<Core>, destinations: Destinations, domain: Arc<str>) -> Self {
        Self { core, destinations, domain }
    }

    /// Performs every check that can reject a request, and makes its first answer.
    async fn open(
        &self,
        extensions: &http::Extensions,
        question: Question,
        mut call: Call,
    ) -> Result<Box<Answers>, Status> {
        let Question { target, client, view } = question;
        let opened = async {
            let ConnectionInfo { peer, ending, .. } = Core::connected(extensions)?;
            let grant = self.core.access.may_discover(&Caller::of(extensions))?;
            let held = self.core.take_stream(&peer)?;
            let follower = Follower::open(self.destinations.clone(), target, client).await;
            Ok((follower.map_err(refusal)?, Lease::new(ending, grant, held)))
        };
        match opened.await {
            Ok((follower, lease)) => Answers::open(follower, view, lease, call).await,
            Err(status) => {
                call.end(Status::code(&status));
                Err(status)
            }
        }
    }
}

/// What a client asks.
struct Question {
    target: PathTarget,
    /// The client's own place, where the answer depends on it.
    client: ContextToken,
    view: View,
}

/// Returns the status of a failed lookup. Never one that a client takes for "not a Service".
fn refusal(error: LookupError) -> Status {
    match error {
        LookupError::OutboundOff => Status::unimplemented("outbound discovery is off"),
        LookupError::Stopped => Status::unavailable("the controller is shutting down"),
        LookupError::NotSynced | LookupError::NotFound | LookupError::TooManyPorts => {
            Status::unavailable("objects have not been listed yet")
        }
    }
}
