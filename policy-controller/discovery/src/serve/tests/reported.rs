//! Clients that report more than is kept.

use crate::testing::client::{Client, hello};
use crate::testing::{Harness, policy};
use hyper_util::rt::TokioIo;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{Hello, PortRevision, Revision};
use std::net::SocketAddr;
use tokio::net::TcpSocket;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A connection from this address of the machine.
async fn from(client: [u8; 4], to: SocketAddr) -> Channel {
    let connector = tower::service_fn(move |_| async move {
        let socket = TcpSocket::new_v4()?;
        socket.bind((client, 0).into())?;
        socket.connect(to).await.map(TokioIo::new)
    });
    let endpoint = Endpoint::from_shared(format!("http://{to}")).unwrap();
    endpoint.connect_with_connector(connector).await.unwrap()
}

#[tokio::test]
async fn a_client_that_reports_ports_nobody_watches_exhausts_its_own_room_alone() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let revision = Revision { epoch: "e".into(), ..Revision::default() };
    let entry = |port| PortRevision { port, revision: Some(revision.clone()) };
    let attack = Hello { applied: (1000..7000).map(entry).collect(), ..hello("ns:web-0") };
    let channel = from([127, 0, 0, 2], harness.address).await;
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..160 {
        let first = vec![Kind::Hello(attack.clone())];
        let opened = async {
            let mut client = Client::over(channel.clone(), first).await?;
            client.next().await?;
            Ok::<_, Status>(client)
        };
        match opened.await {
            Ok(client) => held.push(client),
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                refused += 1;
            }
        }
    }
    assert!(held.len() > 60 && refused > 20, "{} held, {refused} refused", held.len());
    let honest = Hello { applied: vec![entry(80), entry(5000)], ..hello("ns:web-0") };
    let channel = from([127, 0, 0, 3], harness.address).await;
    let mut client = Client::over(channel, vec![Kind::Hello(honest)]).await.unwrap();
    client.workload().await;
    assert_eq!(client.port().await.port, 80);
}
