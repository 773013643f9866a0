//! DNS is away.

use super::super::super::away::controller_stays;
use super::super::super::world::node;
use super::super::{AUTHENTICATED, workloads};
use super::caller::{ask_once, cluster_address, only, outside};
use super::{Caller, Calls};
use policy_tests::cluster::node::{Node, Place, Sandbox};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};

/// Where pods here ask for names: nobody's address, unless [`answer`] leads from it to the cluster's
/// DNS. So others keep theirs.
const NAMES: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 53);

/// An address outside the networks whose addresses are looked up.
const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 22));

/// Fields of a pod that asks [`NAMES`].
fn names(namespace: &str) -> Value {
    let searches = [format!("{namespace}.svc.cluster.local"), "svc.cluster.local".to_owned()];
    json!({
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": [NAMES], "searches": searches,
            "options": [{"name": "ndots", "value": "5"}],
        },
    })
}

/// Leads from [`NAMES`] to the cluster's DNS, or no longer.
async fn answer(node: &Node, answers: bool) {
    let action = if answers { "-I" } else { "-D" };
    let (names, dns) = (NAMES.to_string(), Sandbox::NODE.to_string());
    for protocol in ["udp", "tcp"] {
        let rule = ["-t", "nat", action, "PREROUTING", "-d", &names, "-p", protocol];
        let target = ["--dport", "53", "-j", "DNAT", "--to-destination", &dns];
        let command = [&["iptables", "-w"][..], &rule, &target].concat();
        node.run_at(Place::Node, &command).await.unwrap().output().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_dns_connections_by_address_go_on_and_new_pods_wait_for_it() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = workloads(node, "names", AUTHENTICATED, &[("web", "")]).await;
    let spec = names(&namespace);
    let web = format!("http://{}/page", cluster_address(node, &namespace, "web").await);
    let lines = web.replace("/page", "/lines");
    let named = format!("http://web.{namespace}/page");
    let (_server, outside) = outside(node, OUTSIDE).await;
    let called = [("web", web.as_str()), ("outside", outside.as_str())];
    answer(node, true).await;
    let calls = Calls { new: &called, open: &[("web", &lines)] };
    let caller = Caller::make(node, &namespace, "caller", &calls, &spec).await;
    caller.wait_ready().await;
    let container = caller.container().await;
    caller.goes_on("web").await;
    assert_eq!(ask_once(node, &container, &named).await, "200 0", "by name");

    answer(node, false).await;
    let calls = Calls { new: &called, open: &[] };
    let newcomer = Caller::make(node, &namespace, "newcomer", &calls, &spec).await;
    let (asked, ..) = tokio::join!(
        ask_once(node, &container, &named),
        caller.goes_on("web"),
        caller.goes_on("outside"),
        caller.reads_on("web"),
        // Its sidecar finds neither issuer nor controller.
        newcomer.comes_to("outside", "200"),
        newcomer.comes_to("web", "000"),
    );
    assert!(["000 6", "000 28"].contains(&asked.as_str()), "by name: {asked}");
    only("a new pod", &newcomer.statuses("web").await, &["000"]);
    assert!(!newcomer.is_ready().await, "ready without a policy");

    answer(node, true).await;
    newcomer.wait_ready().await;
    newcomer.comes_to("web", "200").await;
    newcomer.goes_on("web").await;
    assert_eq!(ask_once(node, &container, &named).await, "200 0", "by name");
    caller.reads_on("web").await;
    only("by address", &caller.statuses("web").await, &["200"]);
    only("a new pod", &newcomer.statuses("web").await, &["000", "200"]);
    answer(node, false).await;
    node.remove_namespace(&namespace).await.unwrap();
}
