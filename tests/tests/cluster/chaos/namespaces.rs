//! Several watched namespaces, each with watches of its own, of which one may be late.

use super::live::{Live, PATIENCE};
use super::manifests::{CLIENT, MESH, ON_SERVER, policy, shop, web};
use crate::programmed::watching::Watch;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use kube::client::Body;
use policy_kube::source::{KubernetesConfig, Scope};
use policy_proto::messages::Revision;
use policy_proto::native::PortState;
use policy_tests::cluster::{Cluster, cluster_or_skip};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Holds back what the API server says of a namespace, and lets everything else through.
struct HeldBack {
    held: watch::Sender<bool>,
}

impl HeldBack {
    /// A client of `cluster` whose answers about `namespace` can be held back.
    fn of(cluster: &Cluster, namespace: &str) -> (Self, kube::Client) {
        let (held, holding) = watch::channel(false);
        let (inner, namespace) = (cluster.client(), format!("/namespaces/{namespace}/"));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, mut holding) = (inner.clone(), holding.clone());
            let concerned = request.uri().path().contains(&namespace)
                && !request.uri().path().contains("/leases");
            async move {
                if concerned {
                    _ = holding.wait_for(|held| !*held).await;
                }
                let (head, body) = inner.send(request).await?.into_parts();
                let frames =
                    stream::unfold((body, holding), move |(mut body, mut holding)| async move {
                        let frame = body.frame().await?;
                        if concerned {
                            _ = holding.wait_for(|held| !*held).await;
                        }
                        Some((frame, (body, holding)))
                    });
                Ok::<_, kube::Error>(Response::from_parts(head, StreamBody::new(frames)))
            }
        });
        (Self { held }, kube::Client::new(service, "default"))
    }

    fn hold(&self) {
        self.held.send_replace(true);
    }

    fn let_go(&self) {
        self.held.send_replace(false);
    }
}

/// The resource version of a policy.
async fn version_of(cluster: &Cluster, namespace: &str) -> u64 {
    let object = json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "AuthorizationPolicy",
        "metadata": {"name": "clients", "namespace": namespace},
    });
    let object: Value = cluster.objects().get(&object).await.unwrap().unwrap();
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// The next revision of port 8080 without a grant.
async fn revoked(watch: &mut Watch, state: &mut PortState) -> Revision {
    loop {
        let (revision, policy) = watch.next(8080, state, PATIENCE).await.expect("not revoked");
        if policy.authorizations.is_empty() {
            return revision;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_another_namespace_overtook_is_not_undone_by_a_replica_that_lags() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let late = cluster.namespace("late").await.unwrap();
    let other = cluster.namespace("other").await.unwrap();
    let grant = |namespace: &str| policy(namespace, ON_SERVER, MESH);
    let both = shop(&late) + &shop(&other);
    cluster.objects().apply_with_status(&both).await.unwrap();
    let config = KubernetesConfig {
        scope: Scope::Namespaces([late.as_str().into(), other.as_str().into()].into()),
        control_plane_namespace: late.as_str().into(),
        ..KubernetesConfig::default()
    };
    let (first, client) = HeldBack::of(&cluster, &late);
    let current = Live::of(client, config.clone()).await;
    let (second, client) = HeldBack::of(&cluster, &late);
    let lagging = Live::of(client, config).await;
    let workload = format!("{late}:web");
    let mut watch = Watch::open(&workload, current.embedded.addr, &BTreeMap::new()).await.unwrap();
    let mut state = PortState::default();
    let (before, policy) = watch.next(8080, &mut state, PATIENCE).await.unwrap();
    assert_eq!(policy.authorizations.len(), 1);

    // The revocation is late at both. What is written after it in the other namespace is not, and
    // changes nothing that a policy is made of.
    let modified = |live: &Live| live.metric("kube_watch_events_total{op=\"modified\"");
    let heard = [modified(&current), modified(&lagging)];
    first.hold();
    second.hold();
    cluster.delete(&grant(&late)).await.unwrap();
    let kept = "labels: {app: web}, finalizers: [portcullis.dev/test]}";
    cluster.apply(&grant(&other).replace("labels: {app: web}}", kept)).await.unwrap();
    let newest = version_of(&cluster, &other).await;
    for (live, heard) in [&current, &lagging].into_iter().zip(heard) {
        let all = async {
            while modified(live) == heard {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, all).await.expect("the other namespace is late as well");
    }
    first.let_go();
    let revision = revoked(&mut watch, &mut state).await;
    let label = |revision: &Revision| revision.versions["policy.linkerd.io/AuthorizationPolicy"];
    assert!(label(&revision) >= newest, "{before:?} {revision:?}, {newest}");

    let has = BTreeMap::from([(8080, revision)]);
    let mut moved = Watch::open(&workload, lagging.embedded.addr, &has).await.unwrap();
    let mut state = PortState::default();
    let sent = moved.next(8080, &mut state, Duration::from_secs(5)).await;
    assert!(sent.is_none(), "an older policy was sent: {sent:?}");
    assert!(lagging.permits(&web(&late), 8080, CLIENT).await, "it does not lag");
    second.let_go();
    let mut fresh = Watch::open(&workload, lagging.embedded.addr, &BTreeMap::new()).await.unwrap();
    timeout(PATIENCE, revoked(&mut fresh, &mut PortState::default())).await.unwrap();
}
