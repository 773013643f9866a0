//! Tests that the desired policies follow the objects and the tracked workloads.

use super::*;
use crate::config::ControllerConfig;
use crate::engine::Engine;
use crate::source::{Batch, Change};
use crate::subscriptions::Subscriptions;
use crate::testing;
use policy_crds::Kind;
use std::collections::BTreeMap;

fn pod(name: &str) -> WorkloadKey {
    WorkloadKey::pod("ns", name)
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

/// An index with its tracked policies.
struct Stage {
    engine: Engine,
    active: Tracking,
}

impl Stage {
    fn new(manifests: &str) -> Self {
        let mut engine = Engine::new(Arc::new(ControllerConfig::default()));
        let objects = testing::objects(manifests).into_iter();
        let changes = objects.map(|object| Change::Apply(Arc::new(object)));
        let changes = changes.chain([Change::Synced]).collect();
        engine.apply(&Batch { changes, versions: BTreeMap::new(), ..Batch::default() });
        let active = Tracking::everything(&engine);
        Self { engine, active }
    }

    fn apply(&mut self, change: Change) -> DesiredDelta {
        let batch = Batch { changes: vec![change], versions: BTreeMap::new(), ..Batch::default() };
        let changes = self.engine.apply(&batch);
        self.active.note(&changes);
        self.active.delta(&mut self.engine)
    }

    fn apply_text(&mut self, text: &str) -> DesiredDelta {
        self.apply(Change::Apply(testing::object(text)))
    }
}

/// A pod of namespace `ns` with port 80; `metadata` and `status` are added to it.
fn manifest(name: &str, app: &str, mark: &str, metadata: &str, phase: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: ns{metadata}, \
          labels: {{app: {app}, portcullis.dev/proxy: {mark}}}}}, \
          spec: {{containers: [{{name: c, ports: [{{containerPort: 80}}]}}]}}, \
          status: {{phase: {phase}}}}}\n"
    )
}

fn running(name: &str, app: &str) -> String {
    manifest(name, app, "injected", "", "Running")
}

fn server(app: &str, protocol: &str) -> String {
    format!(
        "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
          metadata: {{name: {app}, namespace: ns, generation: 3}}, \
          spec: {{podSelector: {{matchLabels: {{app: {app}}}}}, port: 80, \
                  proxyProtocol: {protocol}}}}}\n"
    )
}

/// The objects of each port of a shape.
fn told(ports: &DesiredPorts) -> Vec<(u16, Vec<String>)> {
    let names =
        |desired: &DesiredPolicy| desired.objects.iter().map(|o| o.name().to_string()).collect();
    ports.iter().map(|(port, desired)| (port.get(), names(desired))).collect()
}

#[test]
fn a_port_that_is_not_redirected_counts_for_nothing() {
    let skips = |list: &str| {
        // An annotation can be changed at any time, the arguments of a container cannot.
        let claims = ", annotations: {portcullis.dev/skipped-inbound-ports: '1-65535'}";
        let init = format!(
            "initContainers: [{{name: portcullis-init, \
             args: [redirect, --inbound-port=4143, '--skip-inbound-ports={list}']}}], containers"
        );
        manifest("a", "web", "injected", claims, "Running").replacen("containers", &init, 1)
    };
    for (list, expected) in [("70-90", vec![]), ("81", vec![(80, vec!["web".to_owned()])])] {
        let mut stage =
            Stage::new(&format!("---\n{}---\n{}", server("web", "HTTP/1"), skips(list)));
        let news = stage.active.delta(&mut stage.engine);
        let ports: Vec<_> = news.shapes.iter().map(|(_, ports)| told(ports)).collect();
        assert_eq!(ports, [expected], "{list}");
    }
}

#[test]
fn running_pods_that_carry_the_mark_are_expected_to_answer_and_no_others() {
    let manifests = [
        running("web-0", "web"),
        running("web-1", "web"),
        manifest("pending", "web", "injected", "", "Pending"),
        manifest("done", "web", "injected", "", "Succeeded"),
        manifest(
            "ending",
            "web",
            "injected",
            ", deletionTimestamp: '2026-11-21T12:00:00Z'",
            "Running",
        ),
        manifest("bare", "web", "none", "", "Running"),
        "{apiVersion: workload.linkerd.io/v1beta1, kind: ExternalWorkload, \
          metadata: {name: vm, namespace: ns, labels: {portcullis.dev/proxy: injected}}, \
          spec: {meshTLS: {identity: vm.example, serverName: vm.example}, ports: [{port: 80}]}}\n"
            .to_owned(),
        server("web", "HTTP/1"),
    ];
    let mut stage = Stage::new(&manifests.join("---\n"));
    let news = stage.active.delta(&mut stage.engine);
    let names: Vec<_> =
        news.workloads.iter().map(|(key, shape)| (key.to_string(), *shape)).collect();
    let web = news.workloads[0].1;
    let vm = news.workloads[2].1;
    assert!(web.is_some() && vm.is_some() && web != vm, "{names:?}");
    assert_eq!(
        names,
        [
            ("ns/web-0".to_owned(), web),
            ("ns/web-1".to_owned(), web),
            ("ns/externalworkload/vm".to_owned(), vm),
        ]
    );
    let shapes: BTreeMap<_, _> =
        news.shapes.iter().map(|(n, ports)| (Some(*n), told(ports))).collect();
    assert_eq!(
        shapes,
        BTreeMap::from([(web, vec![(80, vec!["web".to_owned()])]), (vm, vec![(80, vec![])])])
    );
    let versions: Vec<_> = news.objects.iter().map(|(key, v)| (key.kind, v.clone())).collect();
    let version = Version { uid: None, generation: Some(3) };
    assert_eq!(versions, [(Kind::Server, Some(version))]);
}

#[test]
fn what_changes_is_told_and_nothing_else() {
    let manifests = [running("web", "web"), running("api", "api"), server("web", "HTTP/1")];
    let mut stage = Stage::new(&manifests.join("---\n"));
    let first = stage.active.delta(&mut stage.engine);
    let number = |name: &str| first.workloads.iter().find(|(key, _)| *key == pod(name)).unwrap().1;
    let (web, api) = (number("web").unwrap(), number("api").unwrap());

    let news = stage.apply_text(&server("web", "gRPC"));
    assert!(news.workloads.is_empty(), "{news:?}");
    let shapes: Vec<_> = news.shapes.iter().map(|(number, _)| *number).collect();
    assert_eq!(shapes, [web], "the other shape has the default policy as before");
    assert_eq!(news.objects.len(), 1);

    // A Server for the other: it now declares nothing new, and has a policy of its own.
    let news = stage.apply_text(&server("api", "HTTP/2"));
    let shapes: Vec<_> = news.shapes.iter().map(|(number, ports)| (*number, told(ports))).collect();
    assert_eq!(shapes, [(api, vec![(80, vec!["api".to_owned()])])]);

    // A pod that changes its shape takes the other's ports.
    let news = stage.apply_text(&running("api", "web"));
    assert_eq!(news.workloads, [(pod("api"), Some(web))]);
    assert!(news.shapes.is_empty(), "{news:?}");

    let news = stage.apply_text(&manifest("api", "web", "injected", "", "Failed"));
    assert_eq!(news.workloads, [(pod("api"), None)]);
    let news = stage.apply(Change::Delete(testing::key(Kind::Pod, "ns", "api")));
    assert!(news.workloads.is_empty() && news.shapes.is_empty(), "{news:?}");
    let news = stage.apply(Change::Delete(testing::key(Kind::Server, "ns", "web")));
    assert_eq!(news.objects, [(testing::key(Kind::Server, "ns", "web"), None)]);
    let shapes: Vec<_> = news.shapes.iter().map(|(number, ports)| (*number, told(ports))).collect();
    assert_eq!(shapes, [(web, vec![(80, vec![])])]);
}

#[test]
fn a_change_among_many_pods_costs_what_it_concerns() {
    let pods = (0..1000).map(|n| running(&format!("web-{n}"), &format!("app-{}", n % 50)));
    let servers = (0..50).map(|n| server(&format!("app-{n}"), "HTTP/1"));
    let manifests: Vec<String> = pods.chain(servers).collect();
    let mut stage = Stage::new(&manifests.join("---\n"));
    let first = stage.active.delta(&mut stage.engine);
    assert_eq!((first.workloads.len(), first.shapes.len()), (1000, 50));
    let (_, before) = stage.engine.effort();
    let news = stage.apply_text(&server("app-7", "gRPC"));
    let (_, after) = stage.engine.effort();
    assert_eq!((news.workloads.len(), news.shapes.len()), (0, 1));
    assert!(after - before < 100, "{} questions were answered anew", after - before);
}

#[test]
fn equal_policies_are_told_as_one() {
    let pods: Vec<String> =
        (0..20).map(|n| running(&format!("web-{n}"), &format!("app-{n}"))).collect();
    // Two Servers tell the shapes apart; the rest has the same default policy.
    let mut stage = Stage::new(&(pods.join("---\n") + "---\n" + &server("app-0", "HTTP/1")));
    let news = stage.active.delta(&mut stage.engine);
    let defaults = news.shapes.iter().filter_map(|(_, ports)| {
        let desired = ports.get(&port(80))?;
        desired.objects.is_empty().then_some(desired)
    });
    let defaults: Vec<_> = defaults.collect();
    assert!(defaults.len() > 1, "nothing to compare: {}", defaults.len());
    assert!(defaults.iter().all(|desired| Arc::ptr_eq(desired, defaults[0])));
}

#[test]
fn nothing_is_kept_once_nobody_asks() {
    let (mut desired, _changed) = DesiredTracker::new();
    let mut stage = Stage::new(&(running("web", "web") + "---\n" + &server("web", "HTTP/1")));
    assert_eq!(desired.delta(&mut stage.engine).unwrap().workloads.len(), 1);
    stage.engine.retain(desired.roots());
    let kept = stage.engine.effort().0;
    desired.stop();
    assert_eq!(desired.roots().count(), 0);
    stage.engine.retain(desired.roots());
    assert!(stage.engine.effort().0 < kept);
}

#[test]
fn what_ought_to_be_in_force_is_followed_whoever_asks_for_ports_meanwhile() {
    let mut stage = Stage::new(&(running("web", "web") + "---\n" + &server("web", "HTTP/1")));
    let first = stage.active.delta(&mut stage.engine);
    let mut subscriptions = Subscriptions::new("e".into(), &ControllerConfig::default());
    // The declared port is watched and let go, and then one other port after the other.
    for number in [80].into_iter().chain(1000..2000) {
        let port = subscriptions.port(&mut stage.engine, &pod("web"), port(number));
        drop(port.unwrap());
    }
    let news = stage.apply_text(&server("web", "gRPC"));
    let numbers = |news: &DesiredDelta| news.shapes.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    assert_eq!(numbers(&news), numbers(&first));
    assert_ne!(news.shapes[0].1, first.shapes[0].1);
}
