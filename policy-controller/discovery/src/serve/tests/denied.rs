//! `PolicyReport.Denied`: what clients say that they refuse, for viewers.

use crate::serve::AuthzConfig;
use crate::testing::client::{Client, hello};
use crate::testing::mesh::{Mesh, OWN};
use crate::testing::{Harness, policy, soon};
use policy_proto::messages::policy_report_client::PolicyReportClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{DeniedRequest, DeniedResponse, RefusalGroup, Refusals};
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Namespace, workload, count and pods.
type DeniedFacts = (String, String, u64, u64);

async fn denied(channel: Channel, namespace: &str) -> Result<DeniedResponse, Status> {
    let request = DeniedRequest { namespace: namespace.into(), limit: 10 };
    Ok(PolicyReportClient::new(channel).denied(request).await?.into_inner())
}

fn refusals(count: u64) -> Refusals {
    let group = RefusalGroup {
        id: "kwy4000001".into(),
        subject: "cart.shop".into(),
        port: 80,
        reason: "unauthorized".into(),
        count,
        ..RefusalGroup::default()
    };
    Refusals { groups: vec![group] }
}

#[tokio::test]
async fn what_a_client_refuses_is_there_until_its_stream_ends() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    assert!(client.workload().await.takes_refusals);
    client.port().await;
    for count in [2, 5] {
        client.send(Kind::Refusals(refusals(count))).await;
    }
    let channel = harness.channel().await;
    let rows = async |namespace: &str| {
        let answer = denied(channel.clone(), namespace).await.unwrap();
        let row = |row: &policy_proto::messages::DeniedRow| {
            let count = row.group.as_ref().unwrap().count;
            (row.namespace.clone(), row.workload.clone(), count, row.pods)
        };
        answer.rows.iter().map(row).collect::<Vec<DeniedFacts>>()
    };
    let expected: Vec<DeniedFacts> = vec![("ns".to_owned(), "pod/web-0".to_owned(), 5, 1)];
    let become_so = async |wanted: &[DeniedFacts]| {
        while rows("ns").await != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(become_so(&expected)).await;
    assert_eq!(rows("").await, expected);
    assert!(rows("other").await.is_empty());
    drop(client);
    soon(become_so(&[])).await;
}

#[tokio::test]
async fn a_group_whose_port_is_none_is_left_out_and_the_stream_goes_on() {
    let harness = Harness::start().await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    let mut client = Client::open(&harness, hello("ns:web-0")).await;
    client.workload().await;
    let Refusals { mut groups } = refusals(3);
    groups.insert(0, RefusalGroup { port: 70_000, ..RefusalGroup::default() });
    client.send(Kind::Refusals(Refusals { groups })).await;
    let channel = harness.channel().await;
    let rows = async || denied(channel.clone(), "ns").await.unwrap().rows;
    soon(async {
        while rows().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let counts: Vec<u64> =
        rows().await.iter().map(|row| row.group.as_ref().unwrap().count).collect();
    assert_eq!(counts, [3]);
    assert_eq!(harness.metrics.unmatched_of("refusals"), 1);
}

#[tokio::test]
async fn workloads_may_not_see_what_others_refuse_and_viewers_may() {
    let viewers = [Arc::from("viewer.example")].into();
    let mesh = Mesh::start(AuthzConfig { viewers, ..AuthzConfig::default() }).await;
    let refused = denied(mesh.channel(OWN).await, "ns").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    let seen = denied(mesh.channel("viewer.example").await, "ns").await.unwrap();
    assert_eq!(seen, DeniedResponse::default());
}
