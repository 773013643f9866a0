//! Examples of reach, and a property: after many changes it is the same as computed from scratch.

use crate::config::ControllerConfig;
use crate::desired::DesiredTracker;
use crate::engine::Engine;
use crate::programmed::Programmed;
use crate::reach::Reach;
use crate::source::{Batch, Change};
use crate::testing::{key, objects};
use policy_crds::{Kind, ObjectKey};
use std::collections::BTreeMap;
use std::sync::Arc;

type Reaches = BTreeMap<ObjectKey, Arc<Reach>>;

/// An index with the reach of its objects.
struct Stage {
    engine: Engine,
    desired: DesiredTracker,
    known: Reaches,
    /// Number of objects reported by the last update.
    reported: usize,
}

impl Stage {
    fn new(manifests: &[String]) -> Self {
        let (desired, _) = DesiredTracker::new();
        let engine = Engine::new(Arc::new(ControllerConfig::default()));
        let mut stage = Self { engine, desired, known: Reaches::new(), reported: 0 };
        let changes = manifests.iter().flat_map(|text| applied(text)).chain([Change::Synced]);
        stage.apply(changes.collect());
        stage
    }

    fn apply(&mut self, changes: Vec<Change>) {
        let batch = Batch { changes, versions: BTreeMap::new(), ..Batch::default() };
        let changes = self.engine.apply(&batch);
        self.desired.note(&changes);
        let news = self.desired.delta(&mut self.engine).unwrap();
        self.reported = news.reaches.len();
        self.known.extend(news.reaches);
        for (key, version) in news.objects {
            if version.is_none() {
                self.known.remove(&key);
            }
        }
        // Queries without a root are dropped, as happens periodically.
        self.engine.retain(self.desired.roots());
    }

    /// The same, computed from scratch.
    fn anew(&mut self) -> Reaches {
        let (mut desired, _) = DesiredTracker::new();
        desired.delta(&mut self.engine).unwrap().reaches.into_iter().collect()
    }

    fn of(&self, kind: Kind, name: &str) -> String {
        let reach = self.known[&key(kind, "ns", name)].clone();
        let programmed = Programmed::Counted { in_force: 0, concerned: 0, refused: 0, reach };
        format!("{} {} {programmed}", programmed.status(), programmed.reason())
    }
}

fn applied(text: &str) -> Vec<Change> {
    objects(text).into_iter().map(|object| Change::Apply(Arc::new(object))).collect()
}

/// The proxy that runs beside a pod.
#[derive(Clone, Copy)]
enum Runs {
    Sidecar,
    Skipping,
    Linkerd,
    Bare,
    Nothing,
}

fn pod(name: &str, app: &str, port: &str, runs: Runs) -> String {
    let mark = match runs {
        Runs::Sidecar | Runs::Skipping => ", portcullis.dev/proxy: injected",
        Runs::Linkerd => ", linkerd.io/control-plane-ns: linkerd",
        Runs::Bare | Runs::Nothing => "",
    };
    let skips = "initContainers: [{name: portcullis-init, \
                 args: [redirect, '--skip-inbound-ports=80']}], ";
    let init = if matches!(runs, Runs::Skipping) { skips } else { "" };
    let phase = if matches!(runs, Runs::Nothing) { "Pending" } else { "Running" };
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: ns, \
          labels: {{app: {app}{mark}}}}}, spec: {{{init}containers: [{{name: c, \
          ports: [{{name: {port}, containerPort: 80}}]}}]}}, status: {{phase: {phase}}}}}"
    )
}

fn server(name: &str, app: &str, port: &str) -> String {
    let (role, app) = (app, format!("app: {app}"));
    format!(
        "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
          metadata: {{name: {name}, namespace: ns, labels: {{role: {role}}}}}, \
          spec: {{podSelector: {{matchLabels: {{{app}}}}}, port: {port}}}}}"
    )
}

/// A policy with a target and, unless it is empty, an authentication.
fn policy(name: &str, kind: &str, target: &str, clients: &str) -> String {
    let (group, references) = (
        if kind == "Namespace" { "''" } else { "policy.linkerd.io" },
        match clients {
            "" => String::new(),
            name => {
                format!("{{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: {name}}}")
            }
        },
    );
    format!(
        "{{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, \
          metadata: {{name: {name}, namespace: ns}}, spec: {{targetRef: {{group: {group}, \
          kind: {kind}, name: {target}}}, requiredAuthenticationRefs: [{references}]}}}}"
    )
}

fn clients(name: &str) -> String {
    format!(
        "{{apiVersion: policy.linkerd.io/v1alpha1, kind: MeshTLSAuthentication, \
          metadata: {{name: {name}, namespace: ns}}, spec: {{identities: ['*']}}}}"
    )
}

fn route(name: &str, server: &str) -> String {
    format!(
        "{{apiVersion: policy.linkerd.io/v1beta3, kind: HTTPRoute, \
          metadata: {{name: {name}, namespace: ns}}, spec: {{parentRefs: [{{\
          group: policy.linkerd.io, kind: Server, name: {server}}}], \
          rules: [{{matches: [{{path: {{value: /}}}}]}}]}}}}"
    )
}

fn by_label(name: &str, role: &str) -> String {
    format!(
        "{{apiVersion: policy.linkerd.io/v1beta1, kind: ServerAuthorization, \
          metadata: {{name: {name}, namespace: ns}}, spec: {{server: {{selector: \
          {{matchLabels: {{role: {role}}}}}}}, client: {{unauthenticated: true}}}}}}"
    )
}

#[test]
fn what_selects_or_targets_nothing_names_what_it_looked_for() {
    let stage = Stage::new(&[
        pod("web-0", "web", "http", Runs::Bare),
        server("typo", "wbe", "80"),
        server("port", "web", "htpt"),
        policy("gone", "Server", "gone", "used"),
        policy("route", "HTTPRoute", "gone", ""),
        policy("idle", "HTTPRoute", "loose", ""),
        route("loose", "gone"),
        by_label("role", "none"),
        clients("used"),
        clients("unused"),
        policy("typo", "Server", "typo", ""),
    ]);
    let of = |kind, name| stage.of(kind, name);
    let typo = "selects no pod of namespace `ns`; is `app: web` meant?";
    assert_eq!(of(Kind::Server, "typo"), format!("False NoTarget {typo}"));
    assert_eq!(
        of(Kind::Server, "port"),
        "False NoTarget no selected pod has a port named `htpt`; they have `http` (80); is `http` \
         meant?"
    );
    let policy = |name| of(Kind::AuthorizationPolicy, name);
    assert_eq!(policy("gone"), "False NoTarget Server ns/gone does not exist");
    assert_eq!(policy("route"), "False NoTarget HTTPRoute ns/gone does not exist");
    assert_eq!(policy("idle"), "False NoTarget HTTPRoute ns/loose is attached to no Server");
    assert_eq!(policy("typo"), format!("False NoTarget Server ns/typo: {typo}"));
    let words = "False NoTarget Server ns/gone does not exist";
    assert_eq!(of(Kind::PolicyHttpRoute, "loose"), words);
    assert_eq!(
        of(Kind::ServerAuthorization, "role"),
        "False NoTarget no Server of the namespace has the labels that are selected"
    );
    assert_eq!(
        of(Kind::MeshTlsAuthentication, "used"),
        "False NoTarget no AuthorizationPolicy that refers to it has a target: Server ns/gone does \
         not exist"
    );
    assert_eq!(
        of(Kind::MeshTlsAuthentication, "unused"),
        "False NotReferenced no AuthorizationPolicy refers to it"
    );
}

/// Its owner would otherwise learn from a stranger's policy, and of the stranger's Servers.
#[test]
fn a_policy_that_may_not_use_an_authentication_is_no_reference_to_it() {
    let stranger = policy("stranger", "Server", "gone", "clients")
        .replace("namespace: ns", "namespace: other")
        .replace("name: clients}", "name: clients, namespace: ns}");
    let mut stage = Stage::new(&[clients("clients"), stranger]);
    let of = |stage: &Stage| stage.of(Kind::MeshTlsAuthentication, "clients");
    let unused = "False NotReferenced no AuthorizationPolicy refers to it";
    assert_eq!(of(&stage), unused);
    let grant = "{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, \
                  metadata: {name: g, namespace: ns}, spec: {\
                  from: [{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: other}], \
                  to: [{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: clients}]}}";
    stage.apply(applied(grant));
    assert_eq!(
        of(&stage),
        "False NoTarget no AuthorizationPolicy that refers to it has a target: Server other/gone \
         does not exist"
    );
    stage.apply(vec![Change::Delete(key(Kind::ReferenceGrant, "ns", "g"))]);
    assert_eq!(of(&stage), unused);
}

#[test]
fn what_a_server_lacks_is_told_to_its_guests_when_its_text_alone_changes() {
    let mut stage = Stage::new(&[
        pod("web-0", "web", "http", Runs::Bare),
        server("s", "wbe", "80"),
        server("invalid", "wbe", "99999"),
        policy("p", "Server", "s", "clients"),
        policy("of-invalid", "Server", "invalid", ""),
        clients("clients"),
    ]);
    let words = "selects no pod of namespace `ns`";
    let meant = format!("False NoTarget Server ns/s: {words}; is `app: web` meant?");
    assert_eq!(stage.of(Kind::AuthorizationPolicy, "p"), meant);
    assert_eq!(stage.of(Kind::MeshTlsAuthentication, "clients"), meant);
    stage.apply(applied(&server("s", "nothing-like-it", "80")));
    let anew = stage.anew();
    assert_eq!(stage.known, anew);
    let nothing = format!("False NoTarget Server ns/s: {words}");
    assert_eq!(stage.of(Kind::AuthorizationPolicy, "p"), nothing);
    assert_eq!(stage.of(Kind::MeshTlsAuthentication, "clients"), nothing);

    let unknown = "False NotUsed no pod's policy uses it";
    assert_eq!(stage.of(Kind::AuthorizationPolicy, "of-invalid"), unknown);
    stage.apply(applied(&server("invalid", "nothing-like-it", "80")));
    let anew = stage.anew();
    assert_eq!(stage.known, anew);
    let corrected = format!("False NoTarget Server ns/invalid: {words}");
    assert_eq!(stage.of(Kind::AuthorizationPolicy, "of-invalid"), corrected);
}

#[test]
fn workloads_without_a_sidecar_are_counted_for_everything_that_is_about_them() {
    let mut stage = Stage::new(&[
        pod("a", "web", "http", Runs::Bare),
        pod("b", "web", "http", Runs::Bare),
        pod("c", "db", "sql", Runs::Linkerd),
        pod("d", "db", "sql", Runs::Nothing),
        server("web", "web", "http"),
        server("db", "db", "80"),
        policy("web", "Server", "web", "clients"),
        policy("all", "Namespace", "ns", ""),
        by_label("role", "web"),
        route("route", "web"),
        clients("clients"),
    ]);
    let bare = "2 pods have no sidecar, so it is not enforced there";
    let linkerd =
        "1 workload has a proxy of Linkerd's API and does not report what is in force there";
    for (kind, name) in [
        (Kind::Server, "web"),
        (Kind::AuthorizationPolicy, "web"),
        (Kind::ServerAuthorization, "role"),
        (Kind::PolicyHttpRoute, "route"),
        (Kind::MeshTlsAuthentication, "clients"),
    ] {
        assert_eq!(stage.of(kind, name), format!("False NoSidecar {bare}"), "{kind:?}");
    }
    let unknown = format!("Unknown CompatibleProxies {linkerd}");
    assert_eq!(stage.of(Kind::Server, "db"), unknown);
    let all = stage.of(Kind::AuthorizationPolicy, "all");
    assert_eq!(all, format!("{unknown}; {bare}"), "each workload is counted once");

    stage.apply(vec![Change::Delete(key(Kind::Pod, "ns", "c"))]);
    let idle = "False NotRunning 1 pod selected, none of which runs";
    assert_eq!(stage.of(Kind::Server, "db"), idle);
    // A port that is not redirected is said, by how many pods do so.
    stage.apply(applied(&pod("a", "web", "http", Runs::Skipping)));
    stage.apply(applied(&pod("b", "web", "http", Runs::Skipping)));
    let skipped = "False PortsSkipped 2 pods take port 80 out of redirection (skip-inbound-ports), \
                   so it is not enforced there";
    assert_eq!(stage.of(Kind::Server, "web"), skipped);
}

#[test]
fn a_server_that_others_displace_names_them_and_so_does_what_is_about_it() {
    let mut stage = Stage::new(&[
        pod("a", "web", "http", Runs::Sidecar),
        server("first", "web", "80"),
        server("second", "web", "http"),
        policy("p", "Server", "second", ""),
    ]);
    let owned = "what it selects is owned by Server ns/first (the older Server counts, then the first \
                 by name)";
    let second = stage.of(Kind::Server, "second");
    assert_eq!(second, format!("False Conflicted takes no effect: {owned}"));
    let policy = stage.of(Kind::AuthorizationPolicy, "p");
    assert_eq!(policy, format!("False Conflicted Server ns/second takes no effect: {owned}"));
    // On one of its two pods it takes effect.
    let other = pod("b", "web", "http", Runs::Sidecar).replace("app: web", "app: web, tier: b");
    stage.apply(applied(&other));
    stage.apply(applied(&server("first", "web, tier: a", "80")));
    stage.apply(applied(
        &pod("a", "web", "http", Runs::Sidecar).replace("app: web", "app: web, tier: a"),
    ));
    let elsewhere = stage.known[&key(Kind::Server, "ns", "second")].elsewhere.clone();
    assert_eq!(elsewhere.as_deref(), Some(&*format!("takes no effect on some workloads: {owned}")));
    stage.apply(vec![Change::Delete(key(Kind::Server, "ns", "first"))]);
    let second = &stage.known[&key(Kind::Server, "ns", "second")];
    assert_eq!(**second, Reach::default());
}

#[test]
fn after_any_changes_it_is_as_if_it_had_been_found_out_at_once() {
    let kinds = [Runs::Sidecar, Runs::Skipping, Runs::Linkerd, Runs::Bare, Runs::Nothing];
    let mut stage = Stage::new(&[]);
    // A fixed pseudo-random sequence: every step applies or deletes one of a few objects.
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    for step in 0..600 {
        let (what, app) = (next(9), ["web", "db", "job"][next(3)]);
        let name = format!("o{}", next(4));
        let other = format!("o{}", next(4));
        let port = ["http", "sql", "80", "81"][next(4)];
        let (kind, text) = match what {
            0..=2 => (Kind::Pod, pod(&name, app, ["http", "sql"][next(2)], kinds[next(5)])),
            3 | 4 => (Kind::Server, server(&name, app, port)),
            5 => {
                let (kind, target) =
                    [("Server", &*other), ("HTTPRoute", &*other), ("Namespace", "ns")][next(3)];
                (Kind::AuthorizationPolicy, policy(&name, kind, target, ["", "o1", "o2"][next(3)]))
            }
            6 => (Kind::PolicyHttpRoute, route(&name, &other)),
            7 => (Kind::ServerAuthorization, by_label(&name, app)),
            _ => (Kind::MeshTlsAuthentication, clients(&name)),
        };
        let change = match next(3) {
            0 => vec![Change::Delete(key(kind, "ns", &name))],
            _ => applied(&text),
        };
        stage.apply(change);
        let anew = stage.anew();
        assert_eq!(stage.known, anew, "step {step}: {text}");
    }
    assert!(!stage.known.is_empty());
}

#[test]
fn an_event_of_a_pod_among_many_is_told_to_the_objects_of_its_server_alone() {
    let apps = 0..50_u32;
    let manifests: Vec<String> = apps
        .flat_map(|n| {
            let (app, name) = (format!("app-{n}"), format!("s-{n}"));
            let pods = (0..20).map(|p| pod(&format!("{app}-{p}"), &app, "http", Runs::Sidecar));
            let own = [server(&name, &app, "80"), policy(&name, "Server", &name, "")];
            pods.chain(own).collect::<Vec<_>>()
        })
        .collect();
    let mut stage = Stage::new(&manifests);
    let (_, before) = stage.engine.effort();
    stage.apply(applied(&pod("app-7-3", "app-7", "http", Runs::Bare)));
    let (_, after) = stage.engine.effort();
    assert_eq!(stage.reported, 2, "the Server and its policy");
    assert!(after - before < 10, "{} questions were answered anew", after - before);
    let server = &stage.known[&key(Kind::Server, "ns", "s-7")];
    assert_eq!((server.bare, server.gap.as_ref()), (1, None));
    // A pod that does not run yet beside others that do is not reported either.
    let next = pod("app-7-next", "app-7", "http", Runs::Sidecar);
    stage.apply(applied(&next.replace("phase: Running", "phase: Pending")));
    let anew = stage.anew();
    assert_eq!((stage.reported, &stage.known), (0, &anew));
    stage.apply(applied(&next));
    assert_eq!(stage.reported, 2, "it runs");
    // A pod that no Server selects changes nothing.
    stage.apply(applied(&pod("other", "other", "http", Runs::Bare)));
    assert_eq!(stage.reported, 0);
}
