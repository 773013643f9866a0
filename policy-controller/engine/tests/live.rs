//! The running controller: a scripted source on one side, subscribers on the other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

mod common;

use common::*;
use policy_core::{AccessLogs, Logs, Owner, WorkloadKey};
use policy_crds::{Kind, Object};
use policy_engine::source::{
    Batch, Change, Diagnostic, Health, Source, SourceContext, SourceError,
};
use policy_engine::{Controller, ControllerConfig, LookupError, start};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

struct Script(mpsc::Receiver<Batch>);

impl Source for Script {
    fn epoch(&self) -> Arc<str> {
        "script".into()
    }

    fn diagnostics(&self) -> watch::Receiver<Arc<[Diagnostic]>> {
        watch::channel(Arc::from([])).1
    }

    fn health(&self) -> watch::Receiver<Arc<Health>> {
        watch::channel(Arc::default()).1
    }

    async fn run(mut self, context: SourceContext) -> Result<(), SourceError> {
        let sink = context.sink;
        while let Some(batch) = self.0.recv().await {
            if sink.send(batch).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

struct Stage {
    controller: Controller,
    script: mpsc::Sender<Batch>,
    version: u64,
}

impl Stage {
    fn new(config: ControllerConfig) -> Self {
        let (script, batches) = mpsc::channel(8);
        Self { controller: start(config, Script(batches)), script, version: 0 }
    }

    async fn synced(documents: &[&str]) -> Self {
        let mut stage = Self::new(ControllerConfig::default());
        stage.send(apply(documents).chain([Change::Synced])).await;
        stage
    }

    /// Sends a batch and waits until it has been published.
    async fn send(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.version += 10;
        let changes: Vec<Change> = changes.into_iter().collect();
        let kinds = changes.iter().filter_map(|change| match change {
            Change::Apply(object) => Some(object.meta.key.kind),
            Change::Delete(key) | Change::Keep(key) => Some(key.kind),
            Change::Synced => None,
        });
        let versions: BTreeMap<Kind, u64> = kinds.map(|kind| (kind, self.version)).collect();
        let mut seen = self.controller.policies.seen();
        seen.mark_unchanged();
        self.script.send(Batch { changes, versions, ..Batch::default() }).await.unwrap();
        tokio::time::timeout(Duration::from_secs(5), seen.changed()).await.unwrap().unwrap();
    }
}

fn apply(documents: &[&str]) -> impl Iterator<Item = Change> + use<> {
    objects(documents).into_iter().map(|object: Object| Change::Apply(Arc::new(object)))
}

fn delete(kind: Kind, namespace: &str, name: &str) -> Change {
    Change::Delete(policy_crds::ObjectKey { kind, namespace: namespace.into(), name: name.into() })
}

fn web_key() -> WorkloadKey {
    WorkloadKey::pod("shop", "web")
}

#[tokio::test]
async fn nothing_is_answered_before_everything_is_listed() {
    let mut stage = Stage::new(ControllerConfig::default());
    let policies = stage.controller.policies.clone();
    stage.send(apply(&[POD])).await;
    assert!(!*policies.synced().borrow());
    assert_eq!(policies.workload(&web_key()).await.unwrap_err(), LookupError::NotSynced);
    assert_eq!(policies.port(&web_key(), port(8080)).await.unwrap_err(), LookupError::NotSynced);
    assert_eq!(policies.workloads().await.unwrap_err(), LookupError::NotSynced);
    stage.send([Change::Synced]).await;
    assert!(*policies.synced().borrow());
    assert_eq!(policies.workloads().await.unwrap(), [web_key()]);
    let nobody = WorkloadKey::pod("shop", "nobody");
    assert_eq!(policies.workload(&nobody).await.unwrap_err(), LookupError::NotFound);
    assert_eq!(policies.seen().borrow().lists, 1);
}

#[tokio::test]
async fn equal_pods_share_one_policy() {
    let (second, third) = (
        POD.replace("name: web, namespace", "name: two, namespace"),
        POD.replace(
            "name: web, namespace: shop, labels: {app: web}",
            "name: three, namespace: shop, labels: {app: web, pod: x}",
        )
        .replace("10.42.1.7", "10.42.1.8"),
    );
    let server = server("HTTP/1", "deny");
    let stage = Stage::synced(&[POD, &second, &third, &server]).await;
    let policies = &stage.controller.policies;
    let first = policies.port(&web_key(), port(8080)).await.unwrap();
    for name in ["two", "three"] {
        let other = policies.port(&WorkloadKey::pod("shop", name), port(8080)).await.unwrap();
        assert!(Arc::ptr_eq(&first.current().policy, &other.current().policy), "{name}");
    }
    // Ports without a Server share as well, also with other pods.
    let a = policies.port(&web_key(), port(1)).await.unwrap();
    let b = policies.port(&WorkloadKey::pod("shop", "two"), port(2)).await.unwrap();
    assert!(Arc::ptr_eq(&a.current().policy, &b.current().policy));
}

#[tokio::test]
async fn only_changes_that_matter_are_published_and_say_what_they_reflect() {
    let server = server("HTTP/1", "deny");
    let mut stage = Stage::synced(&[POD, &server]).await;
    let mut watched = stage.controller.policies.port(&web_key(), port(8080)).await.unwrap();
    let before = watched.read();
    assert_eq!(&*before.revision.epoch, "script");
    assert_eq!(before.revision.versions["policy.linkerd.io/Server"], 10);

    stage
        .send(apply(&[&server
            .replace("name: web,", "name: elsewhere,")
            .replace("app: web", "app: x")]))
        .await;
    stage.send(apply(&[&mesh_tls("shop", "unused", "'*'")])).await;
    assert!(!watched.has_changed());

    stage.send(apply(&[&policy("p", ON_SERVER, "")])).await;
    let after = watched.read();
    assert_ne!(before.policy, after.policy);
    assert_ne!(before.revision.content, after.revision.content);
    assert_eq!(after.revision.versions["policy.linkerd.io/AuthorizationPolicy"], 40);
    assert_eq!(after.revision.versions["policy.linkerd.io/Server"], 20);
    assert!(after.revision.has_caught_up_with(&before.revision));
    let seen = stage.controller.policies.seen();
    assert!(seen.borrow().revision.has_caught_up_with(&after.revision));

    stage.send([delete(Kind::AuthorizationPolicy, "shop", "p")]).await;
    let last = watched.read();
    assert_eq!(last.policy, before.policy);
    assert_eq!(last.revision.content, before.revision.content);
    assert_eq!(last.revision.versions["policy.linkerd.io/AuthorizationPolicy"], 50);
}

/// Their versions change all the time: every replica would seem behind every other one.
#[tokio::test]
async fn versions_of_what_discovery_alone_reads_are_in_no_revision() {
    let mut stage = Stage::synced(&[POD, &server("HTTP/1", "deny")]).await;
    let mut watched = stage.controller.policies.port(&web_key(), port(8080)).await.unwrap();
    let before = watched.read();
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, \
                   spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}";
    let slice = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, \
                 namespace: shop, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, \
                 ports: [{port: 8080}], endpoints: [{addresses: [10.1.0.7]}]}";
    stage.send(apply(&[service, slice])).await;
    assert!(!watched.has_changed());
    stage.send(apply(&[&policy("p", ON_SERVER, "")])).await;
    let (after, seen) = (watched.read(), stage.controller.policies.seen());
    assert_ne!(before.policy, after.policy);
    let seen = seen.borrow().revision.clone();
    for kind in ["/Service", "discovery.k8s.io/EndpointSlice"] {
        assert_eq!(after.revision.versions.get(kind), None, "{kind}");
        assert_eq!(seen.versions.get(kind), None, "{kind}");
    }
    assert_eq!(seen.versions["policy.linkerd.io/AuthorizationPolicy"], 30);
}

#[tokio::test]
async fn deleting_or_breaking_an_authentication_revokes_what_it_granted() {
    let refs = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: friends}";
    let friends = mesh_tls("shop", "friends", "'*'");
    let documents = [POD, &server("HTTP/1", "deny"), &policy("p", ON_SERVER, refs), &friends];
    let mut stage = Stage::synced(&documents).await;
    let mut watched = stage.controller.policies.port(&web_key(), port(8080)).await.unwrap();
    let granted = watched.read().policy.clone();
    assert_eq!(granted.authorizations.len(), 1);
    let broken = mesh_tls("shop", "friends", "'**'");
    for change in
        [delete(Kind::MeshTlsAuthentication, "shop", "friends"), apply(&[&broken]).next().unwrap()]
    {
        stage.send([change]).await;
        let revoked = watched.read().policy.clone();
        assert!(revoked.authorizations.is_empty());
        assert_eq!(revoked.withheld.len(), 1);
        stage.send(apply(&[&friends])).await;
        assert_eq!(watched.read().policy, granted);
    }
}

#[tokio::test]
async fn a_batch_is_one_transaction() {
    let old = server("HTTP/1", "deny");
    let mut stage = Stage::synced(&[POD, &old]).await;
    let mut watched = stage.controller.policies.port(&web_key(), port(8080)).await.unwrap();
    _ = watched.read();
    let new = old.replace("name: web,", "name: other,");
    let swap = [delete(Kind::Server, "shop", "web")].into_iter().chain(apply(&[&new]));
    let task = tokio::spawn(async move {
        assert!(watched.changed().await);
        watched.read().policy.owner.clone()
    });
    tokio::task::yield_now().await;
    stage.send(swap).await;
    let Owner::Server(owner) = task.await.unwrap() else { panic!("the default was in between") };
    assert_eq!(owner.name(), "other");
}

#[tokio::test]
async fn a_pod_that_changes_moves_and_one_that_goes_closes_its_channels() {
    let mut stage = Stage::synced(&[POD, &server("HTTP/1", "deny")]).await;
    let policies = stage.controller.policies.clone();
    let mut watched = policies.port(&web_key(), port(8080)).await.unwrap();
    let mut state = policies.workload(&web_key()).await.unwrap();
    _ = watched.read();
    _ = state.read();

    stage.send(apply(&[&POD.replace("10.42.1.7", "10.42.1.77")])).await;
    assert!(!watched.has_changed(), "an address is a fact, not policy");
    assert_eq!(state.read().facts.pod_addresses[0].to_string(), "10.42.1.77");

    stage.send(apply(&[&POD.replace("app: web", "app: other")])).await;
    let moved = watched.read();
    assert!(matches!(moved.policy.owner, Owner::Default(_)));
    assert!(moved.revision.versions.contains_key("/Pod"));

    stage.send([delete(Kind::Node, "", "node-1")]).await;
    assert!(state.read().facts.node_local.is_empty());

    stage.send([delete(Kind::Pod, "shop", "web")]).await;
    assert!(watched.is_closed(), "closed");
    assert!(state.is_closed(), "closed");
    assert_eq!(policies.port(&web_key(), port(8080)).await.unwrap_err(), LookupError::NotFound);
}

#[tokio::test]
async fn what_a_running_pod_is_to_log_follows_its_annotations() {
    let mut stage = Stage::synced(&[POD, &server("HTTP/1", "deny")]).await;
    let policies = stage.controller.policies.clone();
    let mut watched = policies.port(&web_key(), port(8080)).await.unwrap();
    let mut state = policies.workload(&web_key()).await.unwrap();
    _ = watched.read();
    assert_eq!(state.read().facts.logs, Logs::default());
    let annotated = |annotations: &str| {
        let metadata = format!("namespace: shop, annotations: {{{annotations}}}, labels");
        POD.replacen("namespace: shop, labels", &metadata, 1)
    };
    let filter = |text: &str| Some(Arc::from(text));
    for (annotations, logs) in [
        (
            "portcullis.dev/access-log: json, config.linkerd.io/proxy-log-level: 'warn,policy_proxy=debug'",
            Logs { filter: filter("warn,policy_proxy=debug"), access_log: Some(AccessLogs::Json) },
        ),
        (
            "portcullis.dev/proxy-log-level: debug, config.linkerd.io/proxy-log-level: warn",
            Logs { filter: filter("debug"), access_log: None },
        ),
        (
            "config.linkerd.io/access-log: apache, portcullis.dev/proxy-log-level: 'a=loud'",
            Logs { filter: None, access_log: Some(AccessLogs::Apache) },
        ),
        ("portcullis.dev/access-log: xml", Logs::default()),
    ] {
        stage.send(apply(&[&annotated(annotations)])).await;
        assert_eq!(state.read().facts.logs, logs, "{annotations}");
        assert!(!watched.has_changed(), "a fact, not policy: {annotations}");
    }
}

#[tokio::test]
async fn undeclared_ports_are_bounded_per_workload() {
    let mut config = ControllerConfig::default();
    config.limits.undeclared_ports_per_workload = 2.try_into().unwrap();
    let mut stage = Stage::new(config);
    stage.send(apply(&[POD]).chain([Change::Synced])).await;
    let policies = &stage.controller.policies;
    let first = policies.port(&web_key(), port(1)).await.unwrap();
    let _second = policies.port(&web_key(), port(2)).await.unwrap();
    let refused = policies.port(&web_key(), port(3)).await.unwrap_err();
    assert_eq!(refused, LookupError::TooManyPorts);
    assert!(policies.port(&web_key(), port(8080)).await.is_ok(), "declared ports do not count");
    assert!(policies.port(&web_key(), port(2)).await.is_ok(), "watched already");
    drop(first);
    assert!(policies.port(&web_key(), port(3)).await.is_ok(), "nobody watches 1 any more");
}

#[tokio::test]
async fn conditions_follow_and_the_end_is_told() {
    let stage = &mut Stage::synced(&[POD, &policy("p", ON_SERVER, "")]).await;
    let conditions = stage.controller.conditions.clone();
    let mut changed = conditions.changed();
    changed.mark_unchanged();
    let accepted = |table: policy_engine::conditions::ConditionTable| {
        table
            .iter()
            .filter(|(k, _)| &*k.name == "p")
            .flat_map(|(_, c)| c.iter())
            .next()
            .unwrap()
            .status
    };
    assert!(!accepted(conditions.table().await.unwrap()));
    stage.send(apply(&[&server("HTTP/1", "deny")])).await;
    assert!(changed.has_changed().unwrap());
    assert!(accepted(conditions.table().await.unwrap()));
    stage.controller.shutdown();
    assert!(conditions.table().await.is_none());
    let policies = &stage.controller.policies;
    assert_eq!(policies.workload(&web_key()).await.unwrap_err(), LookupError::Stopped);
}

/// Clients that come back by the thousand look policies up for a long time.
#[tokio::test]
async fn conditions_are_told_while_lookups_keep_coming() {
    let stage = Stage::synced(&[POD]).await;
    let asking: Vec<_> = (0..512)
        .map(|_| {
            let policies = stage.controller.policies.clone();
            tokio::spawn(async move { while policies.workloads().await.is_ok() {} })
        })
        .collect();
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    let table = stage.controller.conditions.table();
    let answer = tokio::time::timeout(Duration::from_secs(20), table).await;
    asking.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(answer.expect("lookups went first, all the time").is_some());
}
