//! The binary, as a user who loses a right and gets it back. What one watch loses takes nothing from
//! the others: neither readiness, which the webhooks' Service goes by, nor revocations.

use super::live::PATIENCE;
use super::manifests::{mesh, shop};
use crate::programmed::watching::Watch;
use policy_kube::rbac;
use policy_proto::native::PortState;
use policy_testkit::long_or;
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

const USER: &str = "policy-controller";

/// Seconds, the shortest bound there is, so that a watch that cannot be renewed counts as late soon.
const FRESHNESS: usize = 61;

/// Time for several looks at what has fallen behind: there is one every second.
const LOOKS: Duration = Duration::from_secs(3);

/// The right to read what is watched, save one kind.
fn rights(without: Option<&str>) -> String {
    let mut rules = rbac::cluster_rules();
    rules.extend(rbac::discovery_rules());
    rules.extend(rbac::namespace_rules());
    rules.extend(rbac::control_plane_rules());
    for rule in &mut rules {
        let resources = rule.resources.iter_mut();
        resources.for_each(|named| named.retain(|resource| Some(&**resource) != without));
    }
    rules.retain(|rule| rule.resources.as_ref().is_some_and(|named| !named.is_empty()));
    let role = rbac::yaml(&rbac::cluster_role(USER, rules)).unwrap();
    format!(
        "{role}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: \
         {{name: {USER}}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: \
         {USER}}}\nsubjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {USER}}}]\n"
    )
}

/// Waits until `/ready?verbose` answers so.
async fn until(controller: &ControllerProcess, status: u16, says: &str, within: Duration) {
    let deadline = Instant::now() + within;
    loop {
        let (answered, body) = controller.get("/ready?verbose").await.unwrap();
        if answered == status && body.contains(says) {
            return;
        }
        let late = Instant::now() > deadline;
        assert!(!late, "wanted {status} {says}, is {answered} {body}\n{}", controller.logs());
        sleep(Duration::from_millis(100)).await;
    }
}

/// A controller that watched everything and has lost the right to one kind.
struct Loser {
    cluster: Cluster,
    namespace: String,
    controller: ControllerProcess,
    kind: &'static str,
}

impl Loser {
    /// Without the kind at first, which is named.
    async fn of(kind: &'static str) -> Option<Self> {
        let cluster = cluster_or_skip(Cluster::builder()).await?;
        cluster.install_crds().await.unwrap();
        cluster.install_gateway_api().await.unwrap();
        let namespace = cluster.namespace("shop").await.unwrap();
        cluster.objects().apply_with_status(&shop(&namespace)).await.unwrap();
        cluster.apply(&rights(Some(kind))).await.unwrap();
        let kubeconfig = cluster.kubeconfig_for(USER, &["system:authenticated"]).unwrap();
        let freshness = long_or("FRESHNESS", FRESHNESS).to_string();
        let flags = ["--watch-freshness", freshness.as_str(), "--admission-controller-disabled"];
        let controller = ControllerProcess::start(&kubeconfig, &flags).await.unwrap();
        until(&controller, 500, &format!("may not list and watch {kind}"), PATIENCE).await;
        Some(Self { cluster, namespace, controller, kind })
    }

    async fn granted(&self) {
        self.cluster.apply(&rights(None)).await.unwrap();
        until(&self.controller, 200, "ready\n", PATIENCE).await;
    }

    /// Takes the right away and waits until the watch is late. The controller is ready all the time.
    async fn lose(&mut self) {
        self.cluster.apply(&rights(Some(self.kind))).await.unwrap();
        // A watch that runs is not asked for its rights again; one that begins anew is.
        self.cluster.kill_api_server();
        self.cluster.start_api_server().await.unwrap();
        let bound = Duration::from_secs(2 * long_or("FRESHNESS", FRESHNESS) as u64);
        let deadline = Instant::now() + bound;
        loop {
            let (status, body) = self.controller.get("/ready?verbose").await.unwrap();
            assert_eq!(status, 200, "{body}");
            let late = |line: &str| {
                line.starts_with(&format!("remark: {}.", self.kind))
                    && line.contains("no list, event or bookmark for")
            };
            if body.lines().any(late) {
                return;
            }
            assert!(Instant::now() < deadline, "not late: {body}\n{}", self.controller.logs());
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn watch(&self) -> (Watch, PortState) {
        let workload = format!("{}:web", self.namespace);
        let watch = Watch::open(&workload, self.controller.grpc(), &BTreeMap::new()).await;
        let (mut watch, mut state) = (watch.expect("watches begin"), PortState::default());
        let (_, policy) = watch.next(8080, &mut state, PATIENCE).await.expect("a policy");
        assert_eq!(policy.authorizations.len(), 1);
        (watch, state)
    }

    /// Takes the permission away by another kind, and waits for it.
    async fn revoke(&self, watch: &mut Watch, state: &mut PortState) {
        self.cluster.delete(&mesh(&self.namespace, "x.y")).await.unwrap();
        loop {
            let next = watch.next(8080, state, PATIENCE).await;
            let (_, policy) = next.expect("the revocation does not come");
            if policy.authorizations.is_empty() {
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_taken_away_takes_neither_readiness_nor_revocations_of_other_kinds() {
    let Some(mut loser) = Loser::of("networkauthentications").await else { return };
    loser.granted().await;
    let (mut watch, _) = loser.watch().await;
    loser.lose().await;
    // Once, to look for a replica that is current.
    let ended = async {
        loop {
            match watch.stream.message().await {
                Ok(message) => assert!(message.is_some(), "it ends with OK"),
                Err(status) => return status,
            }
        }
    };
    let ended = timeout(PATIENCE, ended).await.expect("the watch goes on");
    assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
    assert!(ended.message().contains("networkauthentications.policy.linkerd.io is stale"));
    let (mut watch, mut state) = loser.watch().await;
    sleep(LOOKS).await;
    loser.revoke(&mut watch, &mut state).await;

    loser.granted().await;
    let healthy = async || {
        let (_, body) = loser.controller.get("/ready?verbose").await.unwrap();
        !body.contains("networkauthentications")
    };
    policy_testkit::wait_until("nothing is late", healthy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_optional_kind_that_is_stale_ends_no_stream() {
    let Some(mut loser) = Loser::of("grpcroutes").await else { return };
    loser.granted().await;
    let (mut watch, mut state) = loser.watch().await;
    loser.lose().await;
    sleep(LOOKS).await;
    loser.revoke(&mut watch, &mut state).await;
    let (status, body) = loser.controller.ready().await;
    assert_eq!(status, 200, "{body}");
}
