//! Viewers with tokens, over real TLS. Whom a token stands for is decided here by a stand-in; the real
//! one is tested against an API server.

use crate::serve::authz_metrics::RejectReason;
use crate::serve::{AuthzConfig, ServeConfig};
use crate::testing::client::{Client, hello, until};
use crate::testing::mesh::{Mesh, OWN};
use crate::testing::soon;
use futures_util::future::BoxFuture;
use linkerd2_proxy_api::destination::GetDestination;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::inbound::PortSpec;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use policy_proto::messages::watch_request::Kind;
use policy_proto::reflection::ServerReflectionRequest;
use policy_proto::reflection::server_reflection_client::ServerReflectionClient;
use policy_server::ClientNetwork;
use policy_server::review::{Authenticated, CachedReviewer, ReviewError, Reviewer, Subject};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// Tokens are user names; `soon` expires soon, `bad` does not hold, `down` cannot be reviewed, the
/// review of `slow` never ends. A user may view the namespace of its name; `ops` may view `ns` too.
#[derive(Debug)]
struct Names;

impl Reviewer for Names {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        _: ClientNetwork,
    ) -> BoxFuture<'a, Result<Authenticated, ReviewError>> {
        let lives = Duration::from_secs(if token == "soon" { 2 } else { 600 });
        let user = if token == "soon" { "ops" } else { token }.to_owned();
        let answer = match token {
            "slow" => return Box::pin(std::future::pending()),
            "bad" => Err(ReviewError::Refused("it has been made up".to_owned())),
            "down" => Err(ReviewError::Unavailable("nobody answers".to_owned())),
            _ => {
                let subject = Arc::new(Subject { user, ..Subject::default() });
                Ok(Authenticated { subject, expires: SystemTime::now() + lives })
            }
        };
        Box::pin(async move { answer })
    }

    fn may_view<'a>(
        &'a self,
        subject: &'a Arc<Subject>,
        namespace: Option<&'a str>,
        _: ClientNetwork,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        let may = subject.user == "ops" && namespace == Some("ns");
        Box::pin(async move { Ok(may || namespace == Some(&subject.user)) })
    }
}

fn access() -> AuthzConfig {
    let viewers = ["root-user".into()].into();
    let reviewer: Arc<dyn Reviewer> = Arc::new(Names);
    let reviewer = Some(reviewer);
    AuthzConfig { viewers, reviewer, ..AuthzConfig::default() }
}

async fn mesh() -> Mesh {
    Mesh::start(access()).await
}

async fn stranger(mesh: &Mesh) -> Channel {
    mesh.connect(mesh.authority.stranger()).await.unwrap()
}

fn with(header: String) -> impl FnMut(Request<()>) -> Result<Request<()>, Status> + Clone {
    move |mut request| {
        request.metadata_mut().insert("authorization", header.parse().unwrap());
        Ok(request)
    }
}

async fn ask(channel: Channel, header: &str, workload: &str) -> Result<(), (Code, String)> {
    let channel = InterceptedService::new(channel, with(header.to_owned()));
    let spec = PortSpec { workload: workload.into(), port: 80 };
    let asked = soon(InboundServerPoliciesClient::new(channel).get_port(spec)).await;
    asked.map(|_| ()).map_err(|status| (status.code(), status.message().to_owned()))
}

#[tokio::test]
async fn a_viewer_sees_the_namespaces_it_has_the_right_to() {
    let mesh = mesh().await;
    let channel = stranger(&mesh).await;
    ask(channel.clone(), "Bearer ops", "ns:web-0").await.unwrap();
    ask(channel.clone(), "bearer ops", "ns:web-0").await.unwrap();
    let expected = "viewer `other` is refused: the right to get `policies` of group \
                    `portcullis.dev` in namespace `ns`";
    for workload in ["ns:web-0", "ns:none"] {
        let refused = ask(channel.clone(), "Bearer other", workload).await.unwrap_err();
        assert_eq!(refused, (Code::PermissionDenied, expected.to_owned()));
    }
    let absent = ask(channel.clone(), "Bearer ops", "ns:none").await.unwrap_err();
    assert_eq!(absent.0, Code::NotFound);
    ask(channel, "Bearer root-user", "ns:web-0").await.unwrap();
    assert_eq!(mesh.metrics.access.count(RejectReason::NoRight), 2);
}

#[tokio::test]
async fn a_token_that_does_not_hold_is_no_credentials_whoever_brings_it() {
    let mesh = mesh().await;
    for channel in [stranger(&mesh).await, mesh.channel(OWN).await] {
        let refused = ask(channel.clone(), "Bearer bad", "ns:web-0").await.unwrap_err();
        let expected = "the token is refused: it has been made up";
        assert_eq!(refused, (Code::Unauthenticated, expected.to_owned()));
        let refused = ask(channel.clone(), "Bearer down", "ns:web-0").await.unwrap_err();
        let expected = "the token cannot be reviewed: nobody answers";
        assert_eq!(refused, (Code::Unavailable, expected.to_owned()));
        for header in ["Basic ops", "Bearer", "ops", "Bearer a b"] {
            let refused = ask(channel.clone(), header, "ns:web-0").await.unwrap_err();
            assert_eq!(refused.0, Code::Unauthenticated, "{header}");
        }
    }
}

#[tokio::test]
async fn made_up_tokens_of_one_client_are_reviewed_in_no_great_number_and_others_go_on() {
    let mesh = mesh().await;
    let channel = stranger(&mesh).await;
    let mut codes = std::collections::BTreeMap::new();
    for _ in 0..200 {
        let (code, _) = ask(channel.clone(), "Bearer bad", "ns:web-0").await.unwrap_err();
        *codes.entry(i32::from(code)).or_insert(0) += 1;
    }
    let reviewed = codes[&i32::from(Code::Unauthenticated)];
    assert!((20..100).contains(&reviewed), "{codes:?}");
    assert_eq!(reviewed + codes[&i32::from(Code::ResourceExhausted)], 200, "{codes:?}");
    // An identity has limits of its own, at whatever address.
    ask(mesh.channel(OWN).await, "Bearer ops", "ns:web-0").await.unwrap();
    let again = async {
        while ask(channel.clone(), "Bearer ops", "ns:web-0").await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon(again).await;
}

#[tokio::test]
async fn a_token_that_was_accepted_a_moment_ago_is_served_whoever_is_refused_at_its_address() {
    let reviewer: Arc<dyn Reviewer> = Arc::new(CachedReviewer::new(Names));
    let access = AuthzConfig { reviewer: Some(reviewer), ..AuthzConfig::default() };
    let mesh = Mesh::start(access).await;
    let channel = stranger(&mesh).await;
    let bad = || async {
        let (code, _) = ask(channel.clone(), "Bearer bad", "ns:web-0").await.unwrap_err();
        code
    };
    while bad().await != Code::ResourceExhausted {
        // Remembered for seconds: this is the last moment.
        ask(channel.clone(), "Bearer ops", "ns:web-0").await.unwrap();
    }
    ask(channel.clone(), "Bearer ops", "ns:web-0").await.unwrap();
}

#[tokio::test]
async fn where_nobody_reviews_tokens_none_is_accepted() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let refused = ask(stranger(&mesh).await, "Bearer ops", "ns:web-0").await.unwrap_err();
    let expected = (Code::Unauthenticated, "tokens are not accepted here".to_owned());
    assert_eq!(refused, expected);
    assert_eq!(mesh.metrics.access.count(RejectReason::TokensNotAccepted), 1);
}

#[tokio::test]
async fn made_up_tokens_of_one_client_wait_in_no_great_number_and_others_go_on() {
    let mesh = mesh().await;
    let channel = stranger(&mesh).await;
    let slow = |_| {
        let channel = channel.clone();
        tokio::spawn(async move { ask(channel, "Bearer slow", "ns:web-0").await.unwrap_err() })
    };
    let asked: Vec<_> = (0..100).map(slow).collect();
    until(|| mesh.metrics.access.count(RejectReason::TooManyReviews) == 84).await;
    // An identity has limits of its own, at whatever address.
    ask(mesh.channel(OWN).await, "Bearer ops", "ns:web-0").await.unwrap();
    asked.iter().for_each(tokio::task::JoinHandle::abort);
    let freed = async {
        while ask(channel.clone(), "Bearer ops", "ns:web-0").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(freed).await;
}

#[tokio::test]
async fn requests_that_wait_for_an_answer_are_bounded_like_watches() {
    let config = ServeConfig { max_streams_per_peer: 4, ..ServeConfig::default() };
    let reviewer: Arc<dyn Reviewer> = Arc::new(Names);
    let access = AuthzConfig { reviewer: Some(reviewer), ..AuthzConfig::default() };
    let mesh = Mesh::with(access, config).await;
    let channel = stranger(&mesh).await;
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let channel = channel.clone();
        asked.spawn(async move { ask(channel, "Bearer slow", "ns:web-0").await.unwrap_err() });
    }
    for _ in 0..6 {
        let (code, text) = soon(asked.join_next()).await.unwrap().unwrap();
        assert_eq!(code, Code::ResourceExhausted, "{text}");
    }
    let refused = ask(channel, "Bearer ops", "ns:web-0").await.unwrap_err();
    assert_eq!(refused.0, Code::ResourceExhausted, "{refused:?}");
    ask(mesh.channel(OWN).await, "Bearer ops", "ns:web-0").await.unwrap();
}

#[tokio::test]
async fn a_viewers_stream_ends_with_its_token() {
    let mesh = mesh().await;
    let channel = InterceptedService::new(stranger(&mesh).await, with("Bearer soon".to_owned()));
    let spec = PortSpec { workload: "ns:web-0".into(), port: 80 };
    let mut client = InboundServerPoliciesClient::new(channel);
    let mut stream = soon(client.watch_port(spec)).await.unwrap().into_inner();
    soon(stream.message()).await.unwrap().unwrap();
    let status = soon(stream.message()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "the token has expired"));
    // A pod's own stream on such a server has no such end.
    let first = vec![Kind::Hello(hello("ns:web-0"))];
    let mut own = Client::over(mesh.channel(OWN).await, first).await.unwrap();
    own.workload().await;
    own.port().await;
    own.quiet().await;
}

#[tokio::test]
async fn a_reflection_stream_ends_with_its_token() {
    let mesh = mesh().await;
    let channel = InterceptedService::new(stranger(&mesh).await, with("Bearer soon".to_owned()));
    let mut client = ServerReflectionClient::new(channel);
    let silent = tokio_stream::pending::<ServerReflectionRequest>();
    let mut answers = soon(client.server_reflection_info(silent)).await.unwrap().into_inner();
    let status = soon(answers.message()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "the token has expired"));
}

/// A viewer sees policies; where connections lead is for those who make them.
#[tokio::test]
async fn a_token_alone_does_not_show_where_connections_lead() {
    let domain = "cluster.local";
    let made = Mesh::made(access(), ServeConfig::default(), |server, _| {
        server.with_linkerd_discovery(domain)
    });
    let mesh = made.await;
    let channel = InterceptedService::new(stranger(&mesh).await, with("Bearer root-user".into()));
    let path = "10.0.0.1:80".to_owned();
    let request = GetDestination { path, ..GetDestination::default() };
    let refusal = soon(DestinationClient::new(channel).get_profile(request)).await.unwrap_err();
    assert_eq!(refusal.code(), Code::PermissionDenied);
    assert_eq!(
        refusal.message(),
        "viewer `root-user` is refused: destinations are for identities of the mesh"
    );
}
