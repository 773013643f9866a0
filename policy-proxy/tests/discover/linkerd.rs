//! Linkerd's service, by the server trait of the published API crate.

use crate::support::*;
use linkerd2_proxy_api::inbound::inbound_server_policies_server::{
    InboundServerPolicies, InboundServerPoliciesServer,
};
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use policy_core::{DefaultPolicy, Facts};
use policy_enforce::store::StoreConfig;
use policy_proto::compat::{EncodeOptions, encode};
use policy_tls::identity::IdentityHandle;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

type Watch = (PortSpec, mpsc::Sender<Result<Server, Status>>);

struct Fake(mpsc::UnboundedSender<Watch>);

#[tonic::async_trait]
impl InboundServerPolicies for Fake {
    type WatchPortStream = ReceiverStream<Result<Server, Status>>;

    async fn get_port(&self, _: Request<PortSpec>) -> Result<Response<Server>, Status> {
        Err(Status::unimplemented("proxies watch"))
    }

    async fn watch_port(
        &self,
        request: Request<PortSpec>,
    ) -> Result<Response<Self::WatchPortStream>, Status> {
        let (say, stream) = mpsc::channel(16);
        let _ = self.0.send((request.into_inner(), say));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

async fn start(ports: &[u16]) -> (Client, mpsc::UnboundedReceiver<Watch>) {
    let (opened, watches) = mpsc::unbounded_channel();
    let service = InboundServerPoliciesServer::new(Fake(opened));
    let address = serve(tonic::transport::Server::builder().add_service(service)).await;
    let mut config = config(address);
    config.declared = ports.iter().copied().map(port).collect();
    let store = StoreConfig { on_demand_idle: Duration::from_millis(1), ..StoreConfig::default() };
    (Client::start(config, store, IdentityHandle::empty()), watches)
}

/// A policy as Linkerd's controller would send it, in the published crate's own type.
fn server(default: DefaultPolicy) -> Server {
    use prost_of_theirs::through;
    let encoded = encode(&policy(default), &Facts::default(), &EncodeOptions::default());
    through(&encoded.server)
}

/// The bytes are the contract, so that messages are compared as bytes.
mod prost_of_theirs {
    use linkerd2_proxy_api::inbound::Server;
    use prost::Message;

    pub(super) fn through(server: &policy_proto::linkerd::inbound::Server) -> Server {
        Server::decode(server.encode_to_vec().as_slice()).unwrap()
    }
}

#[tokio::test]
async fn a_server_without_the_native_service_is_asked_port_by_port() {
    let (client, mut watches) = start(&[80, 81]).await;
    let mut streams = Vec::new();
    for number in [80u16, 81] {
        let (spec, say) = soon(watches.recv()).await.unwrap();
        assert_eq!((spec.workload.as_str(), spec.port), ("ns:web-0", u32::from(number)));
        streams.push(say);
    }
    assert_eq!(client.store.unready().unwrap().ports, [port(80), port(81)]);
    streams[0].send(Ok(server(DefaultPolicy::AllUnauthenticated))).await.unwrap();
    streams[1].send(Ok(server(DefaultPolicy::Deny))).await.unwrap();
    wait_until("ready", async || client.store.unready().is_none()).await;
    assert_eq!(client.policy(80).unwrap().authorizations.len(), 1);
    assert!(client.policy(81).unwrap().authorizations.is_empty());
}

#[tokio::test]
async fn a_malformed_server_keeps_the_last_good_policy() {
    let (client, mut watches) = start(&[80]).await;
    let (_, say) = soon(watches.recv()).await.unwrap();
    say.send(Ok(server(DefaultPolicy::AllUnauthenticated))).await.unwrap();
    client.becomes(80, "current").await;
    let good = client.policy(80).unwrap();
    let broken = Server { protocol: None, ..server(DefaultPolicy::Deny) };
    say.send(Ok(broken)).await.unwrap();
    client.becomes(80, "stale").await;
    assert!(Arc::ptr_eq(&client.policy(80).unwrap(), &good));
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again_and_wakes_nobody() {
    let (client, mut watches) = start(&[80]).await;
    let (_, say) = soon(watches.recv()).await.unwrap();
    say.send(Ok(server(DefaultPolicy::AllUnauthenticated))).await.unwrap();
    client.becomes(80, "current").await;
    let handle = client.port(80);
    let changed = handle.changed();
    drop(say);
    let (_, say) = soon(watches.recv()).await.unwrap();
    say.send(Ok(server(DefaultPolicy::AllUnauthenticated))).await.unwrap();
    client.becomes(80, "current").await;
    assert!(!changed.has_changed().unwrap());
}

#[tokio::test]
async fn a_port_that_nothing_declares_has_its_own_stream_while_it_is_used() {
    let (client, mut watches) = start(&[80]).await;
    let (_, _declared) = soon(watches.recv()).await.unwrap();
    let used = client.port(9000);
    let (spec, say) = soon(watches.recv()).await.unwrap();
    assert_eq!(spec.port, 9000);
    say.send(Ok(server(DefaultPolicy::Deny))).await.unwrap();
    client.becomes(9000, "current").await;
    drop(used);
    soon(say.closed()).await;
    assert_eq!(client.state(9000), "absent");
}
