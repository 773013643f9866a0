//! The checks that a request of either service has to pass, and its first answer.

use super::follow::{Follower, refusal};
use super::stream::{AnswerStream, Lease};
use super::view::{View, WORDING};
use crate::serve::answers::Answers;
use crate::serve::caller::{Caller, ConnectionInfo};
use crate::serve::core::{Core, destination_client};
use crate::serve::metrics::Call;
use policy_engine::Destinations;
use policy_proto::compat::{ContextToken, PathTarget};
use std::sync::Arc;
use tonic::Status;

/// Most bytes of a request: a name and a token of three names.
pub(super) const MAX_REQUEST: usize = 4096;

/// The state that both services share.
#[derive(Clone, Debug)]
pub(crate) struct Discovery {
    pub(super) core: Arc<Core>,
    /// The messages about endpoints, which are long.
    pub(super) endpoints: Answers,
    destinations: Destinations,
    /// The DNS domain of the cluster, which ends the names of Services.
    pub(super) domain: Arc<str>,
}

impl Discovery {
    /// Answers from `destinations`, in a cluster whose DNS domain is `domain`.
    pub(crate) fn new(core: Arc<Core>, destinations: Destinations, domain: Arc<str>) -> Self {
        let endpoints = Answers::new(core.clone(), &WORDING);
        Self { core, endpoints, destinations, domain }
    }

    /// Performs every check that can reject a request, and makes its first answer.
    pub(super) async fn open(
        &self,
        extensions: &http::Extensions,
        question: Question,
        mut call: Call,
    ) -> Result<Box<AnswerStream>, Status> {
        let Question { target, client, view } = question;
        let opened = async {
            let ConnectionInfo { peer, ending, .. } = Core::connected(extensions)?;
            let grant = self.core.access.may_discover(&Caller::of(extensions))?;
            let held = self.core.take_stream(&peer)?;
            let destinations = self.destinations.of(destination_client(&peer));
            let follower = Follower::open(destinations, target, client).await;
            Ok((follower.map_err(refusal)?, Lease::new(ending, grant, held)))
        };
        match opened.await {
            Ok((follower, lease)) => AnswerStream::open(follower, view, lease, call).await,
            Err(status) => {
                call.end(Status::code(&status));
                Err(status)
            }
        }
    }
}

/// A client's request.
pub(super) struct Question {
    pub(super) target: PathTarget,
    /// The client's own place, where the answer depends on it.
    pub(super) client: ContextToken,
    pub(super) view: View,
}
