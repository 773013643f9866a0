//! The services have the names that Linkerd's clients call.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use linkerd2_proxy_api as theirs;
use policy_proto::linkerd::{destination, identity, inbound, outbound};
use policy_proto::messages;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tonic::body::Body;

/// Remembers what was called, and answers nothing.
#[derive(Clone, Default)]
struct Called(Arc<Mutex<Vec<String>>>);

impl tonic::codegen::Service<http::Request<Body>> for Called {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.lock().unwrap().push(request.uri().path().to_owned());
        ready(Ok(http::Response::new(Body::empty())))
    }
}

impl Called {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn both_generations_of_clients_call_the_same_methods() {
    let called = Called::default();
    let mut ours =
        inbound::inbound_server_policies_client::InboundServerPoliciesClient::new(called.clone());
    _ = ours.get_port(inbound::PortSpec::default()).await;
    _ = ours.watch_port(inbound::PortSpec::default()).await;
    let mut ours = identity::identity_client::IdentityClient::new(called.clone());
    _ = ours.certify(identity::CertifyRequest::default()).await;
    let mut ours = destination::destination_client::DestinationClient::new(called.clone());
    _ = ours.get(destination::GetDestination::default()).await;
    _ = ours.get_profile(destination::GetDestination::default()).await;
    let mut ours = outbound::outbound_policies_client::OutboundPoliciesClient::new(called.clone());
    _ = ours.get(outbound::TrafficSpec::default()).await;
    _ = ours.watch(outbound::TrafficSpec::default()).await;
    let of_ours = called.take();
    let mut theirs =
        theirs::inbound::inbound_server_policies_client::InboundServerPoliciesClient::new(
            called.clone(),
        );
    _ = theirs.get_port(theirs::inbound::PortSpec::default()).await;
    _ = theirs.watch_port(theirs::inbound::PortSpec::default()).await;
    let mut theirs = theirs::identity::identity_client::IdentityClient::new(called.clone());
    _ = theirs.certify(theirs::identity::CertifyRequest::default()).await;
    let mut theirs =
        theirs::destination::destination_client::DestinationClient::new(called.clone());
    _ = theirs.get(theirs::destination::GetDestination::default()).await;
    _ = theirs.get_profile(theirs::destination::GetDestination::default()).await;
    let mut theirs =
        theirs::outbound::outbound_policies_client::OutboundPoliciesClient::new(called.clone());
    _ = theirs.get(theirs::outbound::TrafficSpec::default()).await;
    _ = theirs.watch(theirs::outbound::TrafficSpec::default()).await;
    assert_eq!(of_ours, called.take());
    assert_eq!(of_ours.len(), 7);
}

#[test]
fn services_are_served_under_the_names_they_are_called_by() {
    use theirs::destination::destination_server as their_destination;
    use theirs::identity::identity_server as their_identity;
    use theirs::inbound::inbound_server_policies_server as their_inbound;
    use theirs::outbound::outbound_policies_server as their_outbound;
    assert_eq!(inbound::inbound_server_policies_server::SERVICE_NAME, their_inbound::SERVICE_NAME);
    assert_eq!(identity::identity_server::SERVICE_NAME, their_identity::SERVICE_NAME);
    assert_eq!(destination::destination_server::SERVICE_NAME, their_destination::SERVICE_NAME);
    assert_eq!(outbound::outbound_policies_server::SERVICE_NAME, their_outbound::SERVICE_NAME);
    assert_eq!(
        messages::policy_discovery_server::SERVICE_NAME,
        "portcullis.policy.v1.PolicyDiscovery"
    );
}

#[test]
fn certificates_are_asked_for_and_given_alike() {
    use prost::Message;
    let request = theirs::identity::CertifyRequest {
        identity: "a".into(),
        token: vec![1],
        certificate_signing_request: vec![2],
    };
    let ours = identity::CertifyRequest::decode(request.encode_to_vec().as_slice()).unwrap();
    assert_eq!(ours.encode_to_vec(), request.encode_to_vec());
    let response = theirs::identity::CertifyResponse {
        leaf_certificate: vec![1],
        intermediate_certificates: vec![vec![2], vec![3]],
        valid_until: Some(prost_types::Timestamp { seconds: 1, nanos: 2 }),
    };
    let ours = identity::CertifyResponse::decode(response.encode_to_vec().as_slice()).unwrap();
    assert_eq!(ours.encode_to_vec(), response.encode_to_vec());
    assert_eq!(ours.intermediate_certificates.len(), 2);
}
