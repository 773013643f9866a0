//! Authorization by certificate: real TLS on real sockets.

use crate::serve::authz_metrics::RejectReason;
use crate::serve::{AuthzConfig, ServeConfig, StaleNotice};
use crate::testing::client::{Client, hello, until};
use crate::testing::mesh::{Authority, CONTROLLER, Mesh, OWN, SUFFIX, connect, get, watch_port};
use crate::testing::{Index, policy, soon};
use policy_proto::messages::watch_request::Kind;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// The refusal of a watch of `workload`, by both APIs.
async fn refusal(channel: Channel, workload: &str) -> (Code, String) {
    let compat = soon(get(channel.clone(), workload)).await.unwrap_err();
    let watched = soon(watch_port(channel.clone(), workload)).await.unwrap_err();
    let native = native(channel, workload).await;
    for other in [&watched, &native] {
        assert_eq!((compat.code(), compat.message()), (other.code(), other.message()));
    }
    (compat.code(), compat.message().to_owned())
}

async fn native(channel: Channel, workload: &str) -> Status {
    match Client::over(channel, vec![Kind::Hello(hello(workload))]).await {
        Ok(mut client) => client.end().await,
        Err(status) => status,
    }
}

#[tokio::test]
async fn a_pod_watches_itself_by_both_apis() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let channel = mesh.channel(OWN).await;
    soon(get(channel.clone(), "ns:web-0")).await.unwrap();
    let mut stream = soon(watch_port(channel.clone(), "ns:web-0")).await.unwrap();
    let first = vec![Kind::Hello(hello("ns:web-0"))];
    let mut client = Client::over(channel, first).await.unwrap();
    assert_eq!(client.workload().await.name, "ns/web-0");
    let update = client.port().await;
    client.ack(&update).await;
    let pod = policy_core::WorkloadKey::pod("ns", "web-0");
    until(|| !mesh.applied.counts().is_empty()).await;
    mesh.index.set(&pod, 80, &policy("other"), 2);
    soon(stream.message()).await.unwrap().unwrap();
    assert_eq!(client.port().await.port, 80);
}

#[tokio::test]
async fn another_service_account_is_told_both_identities() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let other = format!("other.ns.{SUFFIX}");
    let expected =
        format!("identity `{other}` is refused: `ns/web-0` is watched by identity `{OWN}`");
    let seen = refusal(mesh.channel(&other).await, "ns:web-0").await;
    assert_eq!(seen, (Code::PermissionDenied, expected));
    assert_eq!(mesh.metrics.access.count(RejectReason::OtherIdentity), 3);
    // In its own namespace, a workload that does not exist is one that may yet come.
    let seen = refusal(mesh.channel(&other).await, "ns:none").await;
    assert_eq!(seen, (Code::NotFound, "unknown server: no workload `ns/none`".to_owned()));
}

#[tokio::test]
async fn to_strangers_a_workload_looks_the_same_whether_or_not_it_exists() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    mesh.index.external("vm-0", "vm.ns.example", &[80]);
    // The last three look like the namespace and are not in it.
    for stranger in [
        format!("default.other.{SUFFIX}"),
        "spiffe://cluster.local/ns/ns/sa/default".to_owned(),
        format!("default.xns.{SUFFIX}"),
        format!("ns.{SUFFIX}"),
        "default.ns.serviceaccount.identity.linkerd.other.local".to_owned(),
    ] {
        let channel = mesh.channel(&stranger).await;
        let texts =
            [refusal(channel.clone(), "ns:web-0").await, refusal(channel.clone(), "ns:none").await];
        for ((code, text), name) in texts.iter().zip(["web-0", "none"]) {
            let expected = format!(
                "identity `{stranger}` is refused: `ns/{name}`, if it exists, is watched by the \
                 identity `<service account>.ns.{SUFFIX}`"
            );
            assert_eq!((*code, text), (Code::PermissionDenied, &expected));
        }
        let external = |name: &str| format!("{{\"ns\":\"ns\",\"external_workload\":\"{name}\"}}");
        let there = refusal(channel.clone(), &external("vm-0")).await;
        let absent = refusal(channel, &external("vm-1")).await;
        assert_eq!((there.0, there.1.replace("vm-0", "vm-1")), absent);
        assert_eq!(absent.0, Code::PermissionDenied);
    }
}

#[tokio::test]
async fn an_external_workload_is_watched_by_the_identity_it_states() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let spiffe = "spiffe://root.example/vm/0";
    for (name, identity) in [("vm-0", "vm.example"), ("vm-1", spiffe)] {
        let workload = mesh.index.external(name, identity, &[80]);
        mesh.index.set(&workload, 80, &policy("vm"), 1);
        let token = format!("{{\"ns\":\"ns\",\"external_workload\":\"{name}\"}}");
        soon(get(mesh.channel(identity).await, &token)).await.unwrap();
        // A pod's ServiceAccount says nothing about machines of the same namespace.
        let status = soon(get(mesh.channel(OWN).await, &token)).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    }
}

#[tokio::test]
async fn a_workload_without_identity_is_watched_by_nobody() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    mesh.index.external("vm-0", "", &[80]);
    let token = "{\"ns\":\"ns\",\"external_workload\":\"vm-0\"}";
    let status = soon(get(mesh.channel(OWN).await, token)).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
}

#[tokio::test]
async fn without_credentials_nothing_is_answered_but_that() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let channel = mesh.connect(mesh.authority.stranger()).await.unwrap();
    for workload in ["ns:web-0", "ns:none", "nonsense"] {
        let (code, text) = refusal(channel.clone(), workload).await;
        assert_eq!(code, Code::Unauthenticated, "{text}");
        assert!(text.starts_with("no credentials: "), "{text}");
    }
    assert_eq!(mesh.metrics.access.count(RejectReason::NoCredentials), 9);
}

#[tokio::test]
async fn a_certificate_with_two_names_is_no_credentials() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let two = mesh.authority.client_of(&[OWN, "b.example"], 3600, &mesh.authority);
    let (code, _) = refusal(mesh.connect(two).await.unwrap(), "ns:web-0").await;
    assert_eq!(code, Code::Unauthenticated);
}

#[tokio::test]
async fn a_malformed_token_of_a_workload_is_an_invalid_argument() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let channel = mesh.channel(OWN).await;
    let status = soon(get(channel.clone(), "nonsense")).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(native(channel, "nonsense").await.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn certificates_of_another_root_and_expired_ones_do_not_connect() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let foreign = Authority::new().client(OWN, 3600, &mesh.authority);
    let expired = mesh.authority.client(OWN, -60, &mesh.authority);
    for config in [foreign, expired] {
        // TLS 1.3 lets a client finish before the server has looked at its certificate.
        if let Ok(channel) = mesh.connect(config).await {
            let status = soon(get(channel, "ns:web-0")).await.unwrap_err();
            assert!(matches!(status.code(), Code::Unavailable | Code::Unknown), "{status:?}");
        }
    }
    soon(get(mesh.channel(OWN).await, "ns:web-0")).await.unwrap();
}

#[tokio::test]
async fn plaintext_and_tls_1_2_are_not_spoken_on_the_port() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let plain = tonic::transport::Endpoint::from_shared(format!("http://{}", mesh.address));
    if let Ok(channel) = soon(plain.unwrap().connect()).await {
        soon(get(channel, "ns:web-0")).await.unwrap_err();
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add(mesh.authority.root.der().clone()).unwrap();
    let old = rustls::ClientConfig::builder_with_provider(policy_tls::identity::provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    soon(connect(mesh.address, old)).await.unwrap_err();
}

#[tokio::test]
async fn listed_viewers_see_everything_and_what_they_acknowledge_counts_for_nothing() {
    let viewers = ["tool.example".into()].into();
    let mesh = Mesh::start(AuthzConfig { viewers, ..AuthzConfig::default() }).await;
    let channel = mesh.channel("tool.example").await;
    soon(get(channel.clone(), "ns:web-0")).await.unwrap();
    let absent = soon(get(channel.clone(), "other:none")).await.unwrap_err();
    assert_eq!(absent.code(), Code::NotFound);
    let first = vec![Kind::Hello(hello("ns:web-0"))];
    let mut client = Client::over(channel, first).await.unwrap();
    client.workload().await;
    let update = client.port().await;
    client.ack(&update).await;
    // The next message is read after the acknowledgement.
    mesh.index.set(&policy_core::WorkloadKey::pod("ns", "web-0"), 80, &policy("other"), 2);
    client.port().await;
    assert!(mesh.applied.counts().is_empty());
}

#[tokio::test]
async fn a_viewer_that_is_the_workload_itself_says_what_is_in_force_there() {
    let viewers = [OWN.into()].into();
    let mesh = Mesh::start(AuthzConfig { viewers, ..AuthzConfig::default() }).await;
    let other = mesh.index.external("vm-0", "vm.example", &[80]);
    mesh.index.set(&other, 80, &policy("vm"), 1);
    let channel = mesh.channel(OWN).await;
    for token in ["{\"ns\":\"ns\",\"external_workload\":\"vm-0\"}", "ns:web-0"] {
        let first = vec![Kind::Hello(hello(token))];
        let mut client = Client::over(channel.clone(), first).await.unwrap();
        client.workload().await;
        let update = client.port().await;
        client.ack(&update).await;
        let pod = policy_core::WorkloadKey::pod("ns", "web-0");
        if token == "ns:web-0" {
            until(|| !mesh.applied.counts().is_empty()).await;
            // It is its own no longer than the workload is.
            mesh.index.change(&pod, |state| state.identity = "other.example".into());
            assert_eq!(client.end().await.code(), Code::PermissionDenied);
        } else {
            mesh.index.set(&other, 80, &policy("next"), 2);
            client.port().await;
            assert!(mesh.applied.counts().is_empty(), "another's workload");
        }
    }
}

#[tokio::test]
async fn the_controllers_own_identity_stands_for_its_own_pods_alone() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let (code, _) = refusal(mesh.channel(CONTROLLER).await, "ns:web-0").await;
    assert_eq!(code, Code::PermissionDenied);
}

#[tokio::test]
async fn a_workload_that_becomes_anothers_ends_its_streams_at_once() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let pod = policy_core::WorkloadKey::pod("ns", "web-0");
    let channel = mesh.channel(OWN).await;
    let mut stream = soon(watch_port(channel.clone(), "ns:web-0")).await.unwrap();
    let first = vec![Kind::Hello(hello("ns:web-0"))];
    let mut client = Client::over(channel, first).await.unwrap();
    client.workload().await;
    client.port().await;
    mesh.index.change(&pod, |state| state.identity = format!("other.ns.{SUFFIX}").into());
    mesh.index.set(&pod, 80, &policy("secret"), 2);
    let expected = format!("the identity of `ns/web-0` has changed and is not `{OWN}` any more");
    let status = soon(stream.message()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, &*expected));
    let status = client.next().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, &*expected));
    assert_eq!(mesh.metrics.access.count(RejectReason::IdentityChanged), 2);
}

#[tokio::test]
async fn whatever_else_changes_about_a_workload_its_own_stream_stays() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let pod = policy_core::WorkloadKey::pod("ns", "web-0");
    let first = vec![Kind::Hello(hello("ns:web-0"))];
    let mut client = Client::over(mesh.channel(OWN).await, first).await.unwrap();
    client.workload().await;
    client.port().await;
    mesh.index.set(&pod, 81, &policy("new"), 2);
    mesh.index.declare(&pod, &[80, 81]);
    assert_eq!(client.workload().await.declared_ports, [80, 81]);
}

#[tokio::test]
async fn a_stale_watch_ends_every_stream_once_and_the_next_is_served() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let channel = mesh.channel(OWN).await;
    let mut stream = soon(watch_port(channel.clone(), "ns:web-0")).await.unwrap();
    let first = vec![Kind::Hello(hello("ns:web-0"))];
    let mut client = Client::over(channel.clone(), first).await.unwrap();
    client.workload().await;
    client.port().await;
    let what = "policy.linkerd.io/Server";
    mesh.stale.send_replace(StaleNotice { times: 1, watch: what.into() });
    let expected = format!("the watch of {what} is stale: another replica may be current");
    let status = soon(stream.message()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, &*expected));
    let status = client.next().await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, &*expected));
    let mut again = soon(watch_port(channel, "ns:web-0")).await.unwrap();
    let silence = tokio::time::timeout(Duration::from_millis(300), again.message()).await;
    assert!(silence.is_err(), "{silence:?}");
}

#[tokio::test]
async fn a_connection_ends_with_the_certificate_of_its_client() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let brief = mesh.authority.client(OWN, 3, &mesh.authority);
    let channel = mesh.connect(brief).await.unwrap();
    let mut stream = soon(watch_port(channel, "ns:web-0")).await.unwrap();
    assert!(soon(stream.message()).await.unwrap().is_none(), "it ends with OK");
}

#[tokio::test]
async fn identities_at_one_address_do_not_use_up_each_others_share() {
    let config = ServeConfig {
        max_streams_per_peer: 1,
        max_connections_per_peer: 2,
        ..ServeConfig::default()
    };
    let mesh = Mesh::with(AuthzConfig::default(), config).await;
    let workload = mesh.index.external("vm-0", "vm.example", &[80]);
    mesh.index.set(&workload, 80, &policy("vm"), 1);
    let first = mesh.channel(OWN).await;
    let _stream = soon(watch_port(first.clone(), "ns:web-0")).await.unwrap();
    let second = mesh.channel(OWN).await;
    let status = soon(watch_port(second, "ns:web-0")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let token = "{\"ns\":\"ns\",\"external_workload\":\"vm-0\"}";
    let _other = soon(watch_port(mesh.channel("vm.example").await, token)).await.unwrap();
}

#[tokio::test]
async fn renewed_files_are_in_force_for_new_connections_and_a_root_that_goes_ends_open_ones() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    let following = mesh.tls.clone().follow_every(Duration::from_millis(20));
    let following = tokio::spawn(following);
    let mut stream = soon(watch_port(mesh.channel(OWN).await, "ns:web-0")).await.unwrap();
    // What cannot be used changes nothing.
    std::fs::write(mesh.directory.path().join("certs.pem"), "nothing").unwrap();
    let failed = "policy_watch_certificate_reloads_total{result=\"failed\"} 1";
    until(|| text(&mesh).contains(failed)).await;
    soon(get(mesh.channel(OWN).await, "ns:web-0")).await.unwrap();
    let other = Authority::new();
    let files = mesh.authority.write(mesh.directory.path(), CONTROLLER);
    let renewed = |times: u32| {
        format!("policy_watch_certificate_reloads_total{{result=\"renewed\"}} {times}")
    };
    until(|| text(&mesh).contains(&renewed(1))).await;
    // A root that comes is trusted by new connections.
    let both = format!("{}{}", mesh.authority.root.pem(), other.root.pem());
    std::fs::write(&files.roots, both).unwrap();
    until(|| text(&mesh).contains(&renewed(2))).await;
    let channel = mesh.connect(other.client(OWN, 3600, &mesh.authority)).await.unwrap();
    let mut newer = soon(watch_port(channel, "ns:web-0")).await.unwrap();
    let pod = policy_core::WorkloadKey::pod("ns", "web-0");
    mesh.index.set(&pod, 80, &policy("new"), 2);
    for stream in [&mut stream, &mut newer] {
        soon(stream.message()).await.unwrap().unwrap();
    }
    // A root that goes takes along whom it alone vouched for.
    std::fs::write(&files.roots, other.root.pem()).unwrap();
    until(|| text(&mesh).contains(&renewed(3))).await;
    assert_eq!(soon(stream.message()).await.unwrap(), None, "it ends with OK");
    mesh.index.set(&pod, 80, &policy("newest"), 3);
    soon(newer.message()).await.unwrap().unwrap();
    let old = mesh.authority.client(OWN, 3600, &mesh.authority);
    let refused = match mesh.connect(old).await {
        Ok(channel) => get(channel, "ns:web-0").await.is_err(),
        Err(_) => true,
    };
    assert!(refused, "the root is trusted no more");
    following.abort();
}

fn text(mesh: &Mesh) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    mesh.metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

#[tokio::test]
async fn the_expiry_of_the_certificate_and_the_results_of_handshakes_are_metrics() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    soon(get(mesh.channel(OWN).await, "ns:web-0")).await.unwrap();
    let channel = mesh.connect(mesh.authority.stranger()).await.unwrap();
    soon(get(channel, "ns:web-0")).await.unwrap_err();
    let text = text(&mesh);
    let name = "policy_watch_certificate_expiry_timestamp_seconds ";
    let expiry = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let left = expiry.parse::<i64>().unwrap() - i64::try_from(now.as_secs()).unwrap();
    assert!((3000..=3600).contains(&left), "{left}");
    assert!(text.contains("policy_watch_tls_handshakes_total{result=\"identity\"} 1"), "{text}");
    assert!(text.contains("policy_watch_tls_handshakes_total{result=\"anonymous\"} 1"), "{text}");
}

/// Deletes the pod that is watched and makes another of its name, which is another account's.
fn replace(index: &Index) {
    let pod = policy_core::WorkloadKey::pod("ns", "web-0");
    index.delete(&pod);
    index.pod("web-0", &[80]);
    index.change(&pod, |state| state.identity = format!("other.ns.{SUFFIX}").into());
    index.set(&pod, 80, &policy("secret"), 2);
}

#[tokio::test]
async fn a_pod_made_anew_while_it_is_looked_up_is_not_shown_to_who_it_was_before() {
    let mesh = Mesh::start(AuthzConfig::default()).await;
    mesh.index.before_next_port(replace);
    let status = soon(get(mesh.channel(OWN).await, "ns:web-0")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status:?}");

    let mesh = Mesh::start(AuthzConfig::default()).await;
    mesh.index.before_next_port(replace);
    let status = soon(watch_port(mesh.channel(OWN).await, "ns:web-0")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status:?}");

    let mesh = Mesh::start(AuthzConfig::default()).await;
    mesh.index.before_next_port(replace);
    let first = vec![Kind::Hello(hello("ns:web-0"))];
    let mut client = Client::over(mesh.channel(OWN).await, first).await.unwrap();
    assert_eq!(client.next().await.unwrap(), None);
}

#[tokio::test]
async fn watches_of_health_count_against_their_client_like_any_others() {
    let config = ServeConfig { max_streams_per_peer: 2, ..ServeConfig::default() };
    let mesh = Mesh::with(AuthzConfig::default(), config).await;
    let channel = mesh.channel(OWN).await;
    let watch = async || {
        let mut client = HealthClient::new(channel.clone());
        let asked = client.watch(HealthCheckRequest::default());
        let mut stream = soon(asked).await?.into_inner();
        soon(stream.message()).await?.expect("a first message");
        Ok::<_, Status>(stream)
    };
    let (first, _second) = (watch().await.unwrap(), watch().await.unwrap());
    let status = watch().await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    drop(first);
    while let Err(status) = watch().await {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
