//! Pods that call without a pause, and how they are read without an API server.

use super::super::super::clients::come_from;
use super::super::super::world::eventually;
use policy_cli::echo::{self, EchoOptions, EchoServer};
use policy_tests::cluster::node::{Node, TOOLS};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

/// Answers that a look at a load takes.
const ENOUGH: usize = 5;

/// The container that calls.
const LOAD: &str = "load";

/// Asks for each URL on a new connection, over and over, and says what came: `NAME STATUS SECONDS`,
/// the status 000 without an answer. `$1` is the name, `$2` the URL, and so on.
const NEW: &str = r#"
ask() {
  while :; do
    echo "$1 $(curl -s -o /dev/null --max-time 20 -w '%{http_code} %{time_total}' "$2")"
    sleep 0.1
  done
}
while [ $# -gt 1 ]; do ask "$1" "$2" & shift 2; done
wait"#;

/// Reads a response that goes on for ever, and says of each line that it came, and when it has ended.
const OPEN: &str = r#"
read_on() {
  curl -sN -H 'echo-stream: 1000000' -H 'echo-interval-ms: 100' "$2" |
    while read -r _; do echo "$1 line"; done
  echo "$1 ended"
}
while [ $# -gt 1 ]; do read_on "$1" "$2" & shift 2; done
wait"#;

/// URLs that a pod calls, each with a name.
pub(super) struct Calls<'a> {
    /// On new connections, again and again.
    pub(super) new: &'a [(&'a str, &'a str)],
    /// On one connection that stays open.
    pub(super) open: &'a [(&'a str, &'a str)],
}

/// A pod that calls.
pub(super) struct Caller {
    node: &'static Node,
    namespace: String,
    pod: String,
}

impl Caller {
    /// The pod, to be made. `spec` are further fields of its specification.
    pub(super) fn manifest(namespace: &str, pod: &str, calls: &Calls<'_>, spec: &Value) -> Value {
        let container = |name: &str, script: &str, urls: &[(&str, &str)]| {
            let mut command = vec!["sh", "-c", script, "sh"];
            command.extend(urls.iter().flat_map(|(name, url)| [*name, *url]));
            json!({"name": name, "image": TOOLS, "command": command})
        };
        let mut containers = vec![container(LOAD, NEW, calls.new)];
        if !calls.open.is_empty() {
            containers.push(container("open", OPEN, calls.open));
        }
        let mut manifest = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod, "namespace": namespace, "labels": {"app": pod}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": containers},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            manifest["spec"][field] = value.clone();
        }
        manifest
    }

    /// Makes the pod.
    pub(super) async fn make(
        node: &'static Node,
        namespace: &str,
        pod: &str,
        calls: &Calls<'_>,
        spec: &Value,
    ) -> Self {
        node.objects().apply_one(&Self::manifest(namespace, pod, calls, spec)).await.unwrap();
        Self::of(node, namespace, pod)
    }

    /// The pod, which somebody else makes.
    pub(super) fn of(node: &'static Node, namespace: &str, pod: &str) -> Self {
        Self { node, namespace: namespace.to_owned(), pod: pod.to_owned() }
    }

    /// What came for each request of this name, and how long it took.
    async fn answers(&self, name: &str) -> Vec<(String, f64)> {
        let said = self.node.said(&self.namespace, &self.pod, LOAD).await.unwrap();
        let answer = |line: &String| {
            let mut words = line.split(' ');
            let (found, status, took) = (words.next()?, words.next()?, words.next()?);
            (found == name).then(|| (status.to_owned(), took.parse().unwrap()))
        };
        said.iter().filter_map(answer).collect()
    }

    /// Every status of this name until now.
    pub(super) async fn statuses(&self, name: &str) -> Vec<String> {
        self.answers(name).await.into_iter().map(|(status, _)| status).collect()
    }

    /// Times of the requests of this name, in seconds.
    pub(super) async fn times(&self, name: &str) -> Vec<f64> {
        self.answers(name).await.into_iter().map(|(_, took)| took).collect()
    }

    /// Waits until a request of this name ends so.
    pub(super) async fn comes_to(&self, name: &str, status: &str) {
        let before = self.statuses(name).await.len();
        let what = format!("{}: {name} is {status}", self.pod);
        let ended = async || {
            let statuses = self.statuses(name).await;
            statuses.iter().skip(before).any(|found| found == status)
        };
        eventually(&what, true, ended).await;
    }

    /// Requests of this name that begin from now on are answered.
    pub(super) async fn goes_on(&self, name: &str) {
        // The one that is under way does not count.
        let before = self.statuses(name).await.len() + 1;
        let since = async || -> Vec<String> {
            self.statuses(name).await.into_iter().skip(before).collect()
        };
        let what = format!("{}: requests for {name}", self.pod);
        eventually(&what, true, async || since().await.len() >= ENOUGH).await;
        only(&what, &since().await, &["200"]);
    }

    /// What is open under this name goes on.
    pub(super) async fn reads_on(&self, name: &str) {
        let lines = async || self.opened(name).await.len();
        let before = lines().await;
        eventually(name, true, async || lines().await >= before + ENOUGH).await;
        assert!(!self.has_ended(name).await, "{}: {name} has ended", self.pod);
    }

    /// True if what was open under this name has ended.
    pub(super) async fn has_ended(&self, name: &str) -> bool {
        self.opened(name).await.iter().any(|word| word == "ended")
    }

    async fn opened(&self, name: &str) -> Vec<String> {
        let said = self.node.said(&self.namespace, &self.pod, "open").await.unwrap();
        let word = |line: &String| {
            line.split_once(' ')
                .filter(|(found, _)| *found == name)
                .map(|(_, word)| word.to_owned())
        };
        said.iter().filter_map(word).collect()
    }

    /// containerd's name of the container that calls.
    pub(super) async fn container(&self) -> String {
        self.node.container_id(&self.namespace, &self.pod, LOAD).await.unwrap()
    }

    /// Waits until the pod is Ready.
    pub(super) async fn wait_ready(&self) {
        self.node.wait_ready(&self.namespace, &self.pod).await.unwrap();
    }

    /// True if the pod is Ready.
    pub(super) async fn is_ready(&self) -> bool {
        let pod = self.node.pod(&self.namespace, &self.pod).await.unwrap();
        policy_tests::cluster::node::ready(&pod)
    }
}

/// Every request ended in one of these ways.
pub(super) fn only(what: &str, found: &[String], statuses: &[&str]) {
    let others: Vec<_> = found.iter().filter(|one| !statuses.contains(&one.as_str())).collect();
    assert!(others.is_empty(), "{what}: of {} not {statuses:?}: {others:?}", found.len());
}

/// One request by curl in a container: its status, 000 without an answer, and curl's exit code.
pub(super) async fn ask_once(node: &Node, container: &str, url: &str) -> String {
    let ask = ["curl", "-s", "-o", "/dev/null", "--max-time", "8"];
    let say = ["-w", "%{http_code} %{exitcode}", url];
    node.run_in_container(container, &[&ask[..], &say[..]].concat()).await.unwrap().stdout
}

/// A server outside of the cluster, on this machine.
pub(super) async fn outside(node: &Node, address: IpAddr) -> (EchoServer, String) {
    come_from(node, address).await;
    let server = echo::start(SocketAddr::new(address, 0), EchoOptions::default()).await.unwrap();
    let url = format!("http://{}/page", server.address());
    (server, url)
}

/// The cluster address of a Service.
pub(super) async fn cluster_address(node: &Node, namespace: &str, service: &str) -> String {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": service, "namespace": namespace},
    });
    let found = node.objects().get(&service).await.unwrap().unwrap();
    found["spec"]["clusterIP"].as_str().unwrap().to_owned()
}
