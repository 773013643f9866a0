//! Claims over time: objects come, change and go, the clock goes on, and the leader records what the
//! engine says, which the engine reads again.

use super::*;
use crate::status::desired::DesiredStatus;
use crate::status::merge::status;
use policy_core::{Connection, Decision, RequestView, Tls, WorkloadKey, naive};
use policy_crds::{Kind, Object, parse_all};
use policy_engine::{ControllerConfig, History};
use std::collections::BTreeMap;
use std::num::NonZeroU16;

const HOST: &str = "h.example";
const NAMESPACES: [&str; 3] = ["n1", "n2", "n3"];

/// A cluster with a pod, an open Server and at most one root in each namespace.
struct Cluster {
    history: History,
    now: Timestamp,
    roots: BTreeMap<&'static str, Value>,
}

impl Cluster {
    fn new() -> Self {
        let history = History::new(&ControllerConfig::default());
        let now = "2026-11-20T08:00:00Z".parse().unwrap();
        let mut cluster = Self { history, now, roots: BTreeMap::new() };
        for namespace in NAMESPACES {
            let metadata = json!({"name": "web", "namespace": namespace, "labels": {"app": "web"}});
            cluster.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
                "spec": {"containers": [{"name": "app", "ports": [{"containerPort": 8080}]}]}}));
            cluster.apply(&json!({"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
                "metadata": {"name": "web", "namespace": namespace},
                "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "port": 8080,
                    "proxyProtocol": "HTTP/1", "accessPolicy": "all-unauthenticated"}}));
            // The Server stays in a tree, so that it answers by claims alone.
            cluster.apply(&json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "InboundRoute",
                "metadata": {"name": "bound", "namespace": namespace},
                "spec": {"delegatedFrom": [{"fqdn": "other.example"}],
                    "routes": [{"match": "/", "servers": [{"name": "web"}]}]}}));
        }
        cluster
    }

    fn apply(&mut self, value: &Value) {
        self.history
            .apply(parse_all(value).into_iter().map(|object| Ok(object.unwrap())).collect());
    }

    fn admit(&mut self, spec: Value) {
        self.apply(&json!({"apiVersion": "portcullis.dev/v1alpha1",
            "kind": "RouteAdmissionPolicy", "metadata": {"name": "default"}, "spec": spec}));
    }

    /// Creates the root of a namespace, or edits it as the API server does.
    fn put(&mut self, namespace: &'static str, spec: Value) {
        self.pass(60);
        let created = self.now.to_string();
        let root = self.roots.entry(namespace).or_insert_with(|| {
            json!({"apiVersion": "portcullis.dev/v1alpha1", "kind": "InboundRoute",
                "metadata": {"name": "root", "namespace": namespace, "generation": 0,
                    "creationTimestamp": created},
                "status": {}})
        });
        if root.get("spec") != Some(&spec) {
            root["spec"] = spec;
            root["metadata"]["generation"] =
                json!(root["metadata"]["generation"].as_i64().unwrap().saturating_add(1));
        }
        let root = root.clone();
        self.apply(&root);
    }

    /// Somebody writes the status of a root.
    fn forge(&mut self, namespace: &str, status: Value) {
        let root = self.roots.get_mut(namespace).unwrap();
        root["status"] = status;
        let root = root.clone();
        self.apply(&root);
    }

    fn delete(&mut self, namespace: &str) {
        let root = self.object(namespace);
        self.roots.remove(namespace);
        self.history.apply(vec![Err(root.meta.key)]);
    }

    fn pass(&mut self, seconds: i64) {
        self.now = Timestamp::from_second(self.now.as_second().saturating_add(seconds)).unwrap();
    }

    fn object(&self, namespace: &str) -> Object {
        parse_all(&self.roots[namespace]).remove(0).unwrap()
    }

    /// The leader writes what is to be written, until nothing is.
    fn record(&mut self) {
        for _ in 0..5 {
            self.pass(1);
            let mut written = false;
            for namespace in self.roots.keys().copied().collect::<Vec<_>>() {
                let Object { meta, body: _ } = self.object(namespace);
                let state = Some(self.history.delegation_state(&meta.key));
                let desired = DesiredStatus {
                    generation: meta.generation,
                    uid: None,
                    conditions: vec![],
                    keep: false,
                    provisional: false,
                    parents: vec![],
                    fields: Some(StatusFields::Delegation(state)),
                };
                let item = serde_json::from_value(self.roots[namespace].clone()).unwrap();
                if let Some(next) = status(Kind::InboundRoute, &item, &desired, "us", self.now) {
                    self.forge(namespace, next);
                    written = true;
                }
            }
            if !written {
                return;
            }
        }
        panic!("the status is written over and over: {:#?}", self.roots);
    }

    /// The namespaces whose pod answers a request.
    fn answering(&mut self, path: &str) -> Vec<&'static str> {
        let mut answers = |namespace: &&str| {
            let pod = WorkloadKey::pod(namespace, "web");
            let port = NonZeroU16::new(8080).unwrap();
            let policy = self.history.followed_port(&pod, port).unwrap();
            let facts = &self.history.followed_state(&pod).unwrap().facts;
            let client = "10.9.9.9".parse().unwrap();
            let connection = Connection { client, tls: Tls::Absent, facts };
            let headers = http::HeaderMap::new();
            let (method, host) = (&http::Method::GET, Some(HOST));
            let view = RequestView { method, host, path, query: None, headers: &headers };
            matches!(naive::decide_request(&policy, &connection, &view), Decision::Permit(_))
        };
        NAMESPACES.into_iter().filter(|namespace| answers(namespace)).collect()
    }

    /// The claims of a root as its status has them: host and path, state, time, reason.
    fn claims(&self, namespace: &str) -> Vec<[String; 4]> {
        let claims = list(&self.roots[namespace]["status"], "claims").iter();
        let field = |claim: &Value, name: &str| text(claim, name).to_owned();
        claims
            .map(|claim| {
                let at = field(claim, "host") + &field(claim, "path");
                [at, field(claim, "state"), field(claim, "claimedAt"), field(claim, "reason")]
            })
            .collect()
    }
}

/// The content of a root that its namespace's Server answers.
fn root(hosts: &[&str], paths: &[&str]) -> Value {
    let target = json!({"group": "policy.linkerd.io", "kind": "Server", "name": "web"});
    let routes: Vec<Value> = paths.iter().map(|path| json!({"match": path, "serve": {}})).collect();
    json!({"virtualhost": {"fqdn": hosts[0], "aliases": &hosts[1..], "targetRef": target},
        "routes": routes})
}

fn sharing() -> Value {
    json!({"namespaceOwnership": "InterNamespaceAllowed"})
}

/// An event that ends the first claim, what undoes it, and who holds the host afterwards.
type End = (&'static str, fn(&mut Cluster), fn(&mut Cluster), &'static str);

const ENDS: [End; 4] = [
    ("deletion", |c| c.delete("n1"), |c| c.put("n1", first()), "n2"),
    (
        "the alias dropped",
        |c| c.put("n1", root(&["first.example"], &["/"])),
        |c| c.put("n1", first()),
        "n2",
    ),
    (
        "another namespace's turn",
        |c| c.admit(json!({"rootNamespaces": ["n2", "n3"]})),
        |c| c.admit(json!({"rootNamespaces": []})),
        "n2",
    ),
    (
        "sharing, and the path dropped",
        |c| {
            c.admit(sharing());
            c.put("n1", root(&["first.example", HOST], &["/other"]));
        },
        |c| c.put("n1", first()),
        "n2",
    ),
];

fn first() -> Value {
    root(&["first.example", HOST], &["/"])
}

#[test]
fn whoever_is_next_has_the_host_at_once_when_its_holder_gives_it_up() {
    for (what, end, undo, then) in ENDS {
        let mut cluster = Cluster::new();
        cluster.put("n1", first());
        cluster.put("n2", root(&[HOST], &["/"]));
        cluster.record();
        assert_eq!(cluster.answering("/"), ["n1"], "{what}");
        assert_eq!(cluster.claims("n2")[0][1], "Inactive");
        // Nothing happens to the second, and the leader has written nothing yet.
        end(&mut cluster);
        assert_eq!(cluster.answering("/"), ["n2"], "{what}");
        cluster.record();
        assert_eq!(cluster.answering("/"), ["n2"], "{what}, recorded");
        assert_eq!(cluster.claims("n2")[0][1], "Active", "{what}");
        // What did not count for a while, or was given up, is claimed anew.
        undo(&mut cluster);
        assert_eq!(cluster.answering("/"), [then], "{what}, undone");
        cluster.record();
        assert_eq!(cluster.answering("/"), [then], "{what}, undone and recorded");
    }
}

#[test]
fn of_three_each_waits_for_the_one_before() {
    let mut cluster = Cluster::new();
    for namespace in NAMESPACES {
        cluster.put(namespace, root(&[HOST], &["/"]));
    }
    cluster.record();
    assert_eq!(cluster.answering("/"), ["n1"]);
    cluster.delete("n1");
    assert_eq!(cluster.answering("/"), ["n2"]);
    cluster.record();
    let states = |cluster: &Cluster| ["n2", "n3"].map(|n| cluster.claims(n)[0][1].clone());
    assert_eq!(states(&cluster), ["Active", "Inactive"]);
    cluster.delete("n2");
    assert_eq!(cluster.answering("/"), ["n3"]);
}

#[test]
fn who_leaves_a_path_and_returns_comes_behind_whoever_waited() {
    let mut cluster = Cluster::new();
    cluster.admit(sharing());
    cluster.put("n1", root(&[HOST], &["/a"]));
    cluster.put("n2", root(&[HOST], &["/a"]));
    cluster.record();
    assert_eq!(cluster.answering("/a"), ["n1"]);
    cluster.put("n1", root(&[HOST], &["/b"]));
    assert_eq!((cluster.answering("/a"), cluster.answering("/b")), (vec!["n2"], vec!["n1"]));
    cluster.record();
    cluster.put("n1", root(&[HOST], &["/a"]));
    assert_eq!((cluster.answering("/a"), cluster.answering("/b")), (vec!["n2"], vec![]));
    cluster.record();
    assert_eq!(cluster.answering("/a"), ["n2"], "also with a recorded time");
    assert_eq!(cluster.claims("n1")[0][3], "HostAlreadyClaimed");
    cluster.delete("n2");
    assert_eq!(cluster.answering("/a"), ["n1"]);
}

#[test]
fn a_host_that_is_shared_no_more_is_its_first_claimants_and_shared_again_as_it_was() {
    let mut cluster = Cluster::new();
    cluster.admit(sharing());
    cluster.put("n1", root(&[HOST], &["/a"]));
    cluster.put("n2", root(&[HOST], &["/b"]));
    cluster.record();
    assert_eq!((cluster.answering("/a"), cluster.answering("/b")), (vec!["n1"], vec!["n2"]));
    let before = cluster.claims("n2");
    for rules in [json!({"namespaceOwnership": "Strict"}), json!({}), json!({"rootNamespaces": 7})]
    {
        cluster.admit(rules);
        assert_eq!((cluster.answering("/a"), cluster.answering("/b")), (vec!["n1"], vec![]));
        cluster.record();
        let [claim] = &cluster.claims("n2")[..] else { panic!("{:?}", cluster.roots) };
        assert_eq!([&*claim[1], &claim[3]], ["Inactive", "HostAlreadyClaimed"]);
        assert_eq!(claim[2], before[0][2], "the time stays");
        cluster.admit(sharing());
        assert_eq!((cluster.answering("/a"), cluster.answering("/b")), (vec!["n1"], vec!["n2"]));
        cluster.record();
        assert_eq!(cluster.claims("n2"), before);
    }
}

#[test]
fn a_lost_status_postpones_the_claims_of_an_edited_object_and_of_no_other() {
    let mut cluster = Cluster::new();
    cluster.put("n1", root(&[HOST], &["/"]));
    cluster.put("n2", root(&[HOST], &["/"]));
    cluster.record();
    cluster.forge("n1", json!({}));
    assert_eq!(
        cluster.answering("/"),
        ["n1"],
        "it was never edited: it has claimed since it exists"
    );
    cluster.record();
    assert_eq!(cluster.claims("n1")[0][2], cluster.roots["n1"]["metadata"]["creationTimestamp"]);
    for paths in [&["/", "/a"][..], &["/"], &["/", "/b"], &["/"]] {
        cluster.put("n1", root(&[HOST], paths));
        cluster.record();
    }
    assert_eq!(cluster.roots["n1"]["metadata"]["generation"], 5);
    assert_eq!(cluster.answering("/"), ["n1"], "edits of other paths cost nothing");
    cluster.forge("n1", json!({}));
    assert_eq!(cluster.answering("/"), ["n2"], "it may have claimed the host at any time");
    let lost = cluster.now.as_second();
    cluster.record();
    assert_eq!(cluster.answering("/"), ["n2"]);
    let recorded: Timestamp = cluster.claims("n1")[0][2].parse().unwrap();
    assert!(recorded.as_second() >= lost, "{recorded}");
}

#[test]
fn times_that_strangers_write_advance_nobody() {
    let forged = |time: &str| json!({"claims": [{"host": HOST, "path": "/", "state": "Active", "claimedAt": time}]});
    for edited in [false, true] {
        for time in
            ["2020-01-01T00:00:00Z", "2026-11-20T08:00:59Z", "soon", "-9999-01-01T00:00:00Z"]
        {
            let mut cluster = Cluster::new();
            cluster.put("n1", root(&[HOST], &["/"]));
            cluster.put("n2", root(&[HOST], &["/"]));
            if edited {
                cluster.put("n2", root(&[HOST], &["/", "/a"]));
            }
            cluster.record();
            // The first two are before the second root exists.
            cluster.forge("n2", forged(time));
            assert_eq!(cluster.answering("/"), ["n1"], "{time}");
            cluster.record();
            assert_eq!(cluster.answering("/"), ["n1"], "{time}, recorded");
            assert_ne!(cluster.claims("n2")[0][2], time, "it is replaced");
            // Nor while the root is invalid.
            cluster.put("n2", json!({"routes": []}));
            cluster.forge("n2", forged(time));
            assert_eq!(cluster.answering("/"), ["n1"], "{time}, invalid");
            cluster.record();
            assert_eq!(cluster.claims("n2"), [] as [[String; 4]; 0], "{time}, invalid");
        }
    }
    // One in the future costs the host until the leader has replaced it, and no longer.
    let mut cluster = Cluster::new();
    cluster.put("n1", root(&[HOST], &["/"]));
    cluster.put("n2", root(&[HOST], &["/"]));
    cluster.record();
    let before = cluster.claims("n1");
    cluster.forge("n1", forged("2030-01-01T00:00:00Z"));
    cluster.record();
    assert_ne!(cluster.claims("n1")[0][2], "2030-01-01T00:00:00Z");
    assert!(cluster.claims("n1")[0][2] >= before[0][2], "{:?}", cluster.claims("n1"));
}

mod invalid_roots;
