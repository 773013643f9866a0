//! The API server, the issuer and the controller are away, one after the other.

use super::super::super::away::{controller_alone, scale};
use super::super::super::chaos::{CONTROLLER, ISSUER, nothing_left, scale_issuer};
use super::super::super::world::{CONTROL_PLANE, node};
use super::super::{AUTHENTICATED, workloads};
use super::caller::{ask_once, cluster_address, only, outside};
use super::{Caller, Calls};
use futures_util::future::join_all;
use policy_cli::echo::EchoServer;
use policy_tests::cluster::node::Node;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};

/// An address outside the networks whose addresses are looked up.
const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 21));

/// What pods here call: the mesh, a pod without a sidecar, and the outside.
const CALLED: [&str; 3] = ["web", "plain", "outside"];

/// Fields of a pod that waits until it is let go.
const GATE: &str = r#"[{"name": "tests/controller-is-away"}]"#;

/// A pod that has called all of it for a while, and what else is called.
struct Trial {
    node: &'static Node,
    namespace: String,
    caller: Caller,
    /// URLs of [`CALLED`].
    urls: [String; 3],
    /// URLs of Services that nobody has called yet.
    late: [String; 2],
    _outside: EchoServer,
}

impl Trial {
    async fn start(node: &'static Node) -> Self {
        let names = [("web", ""), ("plain", "portcullis.dev/inject: disabled")];
        let namespace = workloads(node, "matrix", AUTHENTICATED, &names).await;
        for late in ["late", "later"] {
            node.apply(&service(&namespace, late)).await.unwrap();
        }
        let url = async |name: &str| {
            format!("http://{}/page", cluster_address(node, &namespace, name).await)
        };
        let (server, out) = outside(node, OUTSIDE).await;
        let urls = [url("web").await, url("plain").await, out];
        let late = [url("late").await, url("later").await];
        let lines = urls[0].replace("/page", "/lines");
        let calls = Calls { new: &called(&urls), open: &[("web", &lines)] };
        let caller = Caller::make(node, &namespace, "caller", &calls, &json!({})).await;
        caller.wait_ready().await;
        let trial = Self { node, namespace, caller, urls, late, _outside: server };
        trial.all_goes_on(&trial.caller).await;
        trial
    }

    /// Makes a pod that calls the same.
    async fn newcomer(&self, name: &str, spec: &serde_json::Value) -> Caller {
        let calls = Calls { new: &called(&self.urls), open: &[] };
        Caller::make(self.node, &self.namespace, name, &calls, spec).await
    }

    /// New connections to all that is called, and the open one.
    async fn all_goes_on(&self, caller: &Caller) {
        let new = join_all(CALLED.map(|name| caller.goes_on(name)));
        tokio::join!(new, self.caller.reads_on("web"));
    }

    /// The pod runs, reaches the outside and nobody inside, in plaintext or otherwise; it is not Ready.
    async fn reaches_nobody_inside(&self, newcomer: &Caller) {
        let inside = ["web", "plain"];
        let refused = join_all(inside.map(|name| newcomer.comes_to(name, "000")));
        tokio::join!(refused, newcomer.comes_to("outside", "200"));
        for name in inside {
            only(name, &newcomer.statuses(name).await, &["000"]);
        }
        assert!(!newcomer.is_ready().await, "ready without an identity or a policy");
    }

    /// The API server answers nobody. Nothing changes for those who are there.
    async fn without_the_api_server(&self) {
        let container = self.caller.container().await;
        let frozen = Frozen::freeze(self.node);
        let calls = Calls { new: &called(&self.urls), open: &[] };
        let pod = Caller::manifest(&self.namespace, "asked-for", &calls, &json!({}));
        let node = self.node;
        let made = tokio::spawn(async move { node.objects().apply_one(&pod).await });
        self.all_goes_on(&self.caller).await;
        let [late, _] = &self.late;
        assert_eq!(ask_once(node, &container, late).await, "200 0", "called for the first time");
        assert!(!made.is_finished(), "nobody makes pods");
        drop(frozen);
        made.await.unwrap().unwrap();
        let newcomer = Caller::of(node, &self.namespace, "asked-for");
        newcomer.wait_ready().await;
        for name in CALLED {
            newcomer.comes_to(name, "200").await;
            only(name, &newcomer.statuses(name).await, &["200"]);
        }
    }

    /// New pods get no certificate. Tells the one that waits for it.
    async fn without_the_issuer(&self) -> Caller {
        scale_issuer(self.node, 0).await;
        nothing_left(self.node, ISSUER).await;
        let newcomer = self.newcomer("uncertified", &json!({})).await;
        self.reaches_nobody_inside(&newcomer).await;
        self.all_goes_on(&self.caller).await;
        newcomer
    }

    /// New pods get no answers and no policy. Tells the one that waits for them, which was asked for
    /// before.
    async fn without_the_controller(&self) -> Caller {
        let node = self.node;
        let gates: serde_json::Value = serde_json::from_str(GATE).unwrap();
        let newcomer = self.newcomer("gated", &json!({"schedulingGates": gates})).await;
        scale_issuer(node, 2).await;
        scale(node, 0).await;
        nothing_left(node, CONTROLLER).await;
        node.wait_rolled_out(CONTROL_PLANE, "deployment/portcullis-issuer").await.unwrap();
        let patch = r#"{"spec":{"schedulingGates":null}}"#;
        let pod = ["patch", "pod", "gated", "-n", &self.namespace, "--type=merge", "-p", patch];
        node.kubectl().run(&pod).await.unwrap();

        let refused = Calls { new: &[], open: &[] };
        let refused = Caller::manifest(&self.namespace, "refused", &refused, &json!({}));
        let refused = format!("{:#}", node.objects().apply_one(&refused).await.unwrap_err());
        assert!(refused.contains("failed calling webhook"), "{refused}");
        let [_, later] = &self.late;
        let container = self.caller.container().await;
        let (asked, (), ()) = tokio::join!(
            ask_once(node, &container, later),
            self.reaches_nobody_inside(&newcomer),
            // Who has no sidecar may have one by now.
            self.caller.comes_to("plain", "000"),
        );
        assert!(asked.starts_with("000 "), "called for the first time: {asked}");
        let new = join_all(["web", "outside"].map(|name| self.caller.goes_on(name)));
        tokio::join!(new, self.caller.reads_on("web"));
        newcomer
    }
}

/// The URLs with their names.
fn called(urls: &[String; 3]) -> [(&str, &str); 3] {
    std::array::from_fn(|index| (CALLED[index], urls[index].as_str()))
}

/// Another Service of the pod `web`.
fn service(namespace: &str, name: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]}}
"
    )
}

/// The API server, stopped until this is dropped.
struct Frozen<'a>(&'a Node);

impl<'a> Frozen<'a> {
    fn freeze(node: &'a Node) -> Self {
        node.freeze_api_server();
        Self(node)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.thaw_api_server();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_part_of_the_control_plane_pods_that_are_there_go_on_and_new_ones_wait() {
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let trial = Trial::start(node).await;
    trial.without_the_api_server().await;
    let uncertified = trial.without_the_issuer().await;
    let gated = trial.without_the_controller().await;

    scale(node, 2).await;
    node.wait_rolled_out(CONTROL_PLANE, "deployment/policy-controller").await.unwrap();
    let goes_on_again = async |caller: &Caller| {
        caller.wait_ready().await;
        join_all(["web", "plain"].map(|name| caller.comes_to(name, "200"))).await;
        trial.all_goes_on(caller).await;
    };
    join_all([&uncertified, &gated, &trial.caller].map(goes_on_again)).await;
    let [_, later] = &trial.late;
    assert_eq!(ask_once(node, &trial.caller.container().await, later).await, "200 0");

    // Not one failed or went in plaintext, in all this time.
    for name in ["web", "outside"] {
        only(name, &trial.caller.statuses(name).await, &["200"]);
    }
    for caller in [&uncertified, &gated, &trial.caller] {
        for name in CALLED {
            only(name, &caller.statuses(name).await, &["200", "000"]);
        }
    }
    node.remove_namespace(&trial.namespace).await.unwrap();
}
