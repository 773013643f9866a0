//! Endpoints are those that kube-proxy chooses: the cases of `policy_testkit::endpoints`, a kube-proxy
//! that programs them, and a controller that answers a client on the same node.

use crate::NODE as SHARED;
use crate::rules::Rules;
use policy_core::destination::Destination;
use policy_enforce::{PolicyStore, StoreConfig, Telemetry};
use policy_proxy::discover::{self, DiscoverConfig};
use policy_proxy::outbound::table::{DestinationTable, EntryRef, Knowledge, TableSettings};
use policy_testkit::endpoints::{Choice, Expected, Front, NODE, ZONE, cases, last};
use policy_testkit::wait_within;
use policy_tests::cluster::ControllerProcess;
use policy_tests::cluster::node::{self, Node, TOOLS};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::IdentityHandle;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Most that kube-proxy and the controller may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is dialled, and what has to become of it.
struct Dialled {
    case: &'static str,
    address: SocketAddr,
    expected: Expected,
}

impl Dialled {
    fn expects(&self, is_in_zone: bool) -> &Choice {
        match is_in_zone {
            true => &self.expected.in_zone,
            false => &self.expected.without_zone,
        }
    }
}

/// Writes the objects of all cases, and returns what is dialled. The case that is written last is the
/// last: watches are in order, so that whoever knows it knows all.
async fn write(node: &Node, namespace: &str) -> Vec<Dialled> {
    let objects = node.objects();
    let mut dialled = Vec::new();
    for (number, case) in cases().into_iter().chain([last()]).enumerate() {
        let written = case.objects(namespace, &format!("case-{number}"), &[]);
        let (service, slices) = written.split_first().unwrap();
        let service = objects.apply_one(service).await.unwrap();
        for slice in slices {
            objects.apply_one(slice).await.unwrap();
        }
        let addresses: Vec<IpAddr> =
            serde_json::from_value(service["spec"]["clusterIPs"].clone()).unwrap();
        for expected in case.expected {
            let address = match expected.front {
                Front::V4 => *addresses.iter().find(|address| address.is_ipv4()).unwrap(),
                Front::V6 => *addresses.iter().find(|address| address.is_ipv6()).unwrap(),
                Front::External(address) => address,
            };
            let address = SocketAddr::new(address, expected.port);
            dialled.push(Dialled { case: case.name, address, expected });
        }
    }
    dialled
}

async fn set_zone(node: &Node, zone: Option<&str>) {
    let label = "topology.kubernetes.io/zone";
    let label = zone.map_or(format!("{label}-"), |zone| format!("{label}={zone}"));
    node.kubectl().run(&["label", "node", NODE, "--overwrite", &label]).await.unwrap();
}

/// Compares kube-proxy with the table, once it knows all that was written.
async fn compare_kube_proxy(node: &Node, dialled: &[Dialled], is_in_zone: bool) {
    let chosen = |rules: &Rules, it: &Dialled| rules.choice(it.address.ip(), it.address.port());
    let last: Vec<&Dialled> = dialled.iter().filter(|it| it.case == last().name).collect();
    let awaited = format!("kube-proxy knows the last case, in a zone: {is_in_zone}");
    wait_within(&awaited, PATIENCE, async || {
        let rules = Rules::read(node).await;
        last.iter().all(|it| chosen(&rules, it) == *it.expects(is_in_zone))
    })
    .await;
    let rules = Rules::read(node).await;
    let wrong: Vec<String> = dialled
        .iter()
        .filter(|it| chosen(&rules, it) != *it.expects(is_in_zone))
        .map(|it| {
            let (chosen, expected) = (chosen(&rules, it), it.expects(is_in_zone));
            format!("{}, {}: {chosen:?}, and not {expected:?}", it.case, it.address)
        })
        .collect();
    assert!(wrong.is_empty(), "kube-proxy, in a zone: {is_in_zone}\n{}", wrong.join("\n"));
}

/// What a sidecar of the pod `client` is told, by the table of its destinations.
struct Client {
    // Before the table that it answers to.
    _stop: DropGuard,
    entries: Vec<EntryRef<()>>,
}

impl Client {
    fn start(controller: &ControllerProcess, namespace: &str, dialled: &[Dialled]) -> Self {
        let table = DestinationTable::new(TableSettings::default());
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
        let controller = ControllerAddress::loopback(controller.grpc()).unwrap();
        let mut config = DiscoverConfig::new(controller, &format!("{namespace}:client"));
        config.destinations = Some(Arc::new(table.clone()));
        let stop = CancellationToken::new();
        tokio::spawn(discover::run(config, store, IdentityHandle::empty(), stop.clone()));
        let entries = dialled.iter().map(|it| table.entry(it.address).unwrap()).collect();
        Self { _stop: stop.drop_guard(), entries }
    }

    /// The answers that are not what the table expects.
    fn wrong(&self, dialled: &[Dialled], is_in_zone: bool) -> Vec<String> {
        let answers = dialled.iter().zip(&self.entries);
        let wrong = answers.filter_map(|(it, entry)| {
            let (answer, expected) = (entry.state(), it.expects(is_in_zone));
            let is_right = answered(&answer).is_some_and(|chosen| chosen == stated(expected));
            (!is_right)
                .then(|| format!("{}, {}: {answer:?}, and not {expected:?}", it.case, it.address))
        });
        wrong.collect()
    }

    async fn compare(&self, dialled: &[Dialled], is_in_zone: bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let wrong = self.wrong(dialled, is_in_zone);
            if wrong.is_empty() {
                return;
            }
            let is_over = tokio::time::Instant::now() > deadline;
            assert!(!is_over, "the controller, in a zone: {is_in_zone}\n{}", wrong.join("\n"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The choice as an answer states it, `None` for a port that is not declared: clients are refused
/// whether kube-proxy rejects or drops.
fn stated(choice: &Choice) -> Option<BTreeSet<SocketAddr>> {
    match choice {
        Choice::Endpoints(endpoints) => Some(endpoints.clone()),
        Choice::Rejected | Choice::Dropped => Some(BTreeSet::new()),
        Choice::Undeclared => None,
    }
}

/// An answer as the same; `None`: it is none about a Service.
fn answered(knowledge: &Knowledge) -> Option<Option<BTreeSet<SocketAddr>>> {
    let Knowledge::Known { destination, is_fresh: true } = knowledge else { return None };
    match &**destination {
        Destination::Service(service) => {
            Some(Some(service.endpoints.iter().map(|endpoint| endpoint.address).collect()))
        }
        Destination::UndeclaredPort(_) => Some(None),
        Destination::Unknown | Destination::Node | Destination::Workload(_) => None,
    }
}

/// A pod on the node, and a controller that has read all there is.
async fn follow(node: &Node, namespace: &str) -> ControllerProcess {
    let pod = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: client, namespace: {namespace}}}
spec:
  nodeName: {NODE}
  terminationGracePeriodSeconds: 1
  containers: [{{name: client, image: {TOOLS}, command: [sleep, '1000000']}}]
"
    );
    node.apply(&pod).await.unwrap();
    let home = format!("--control-plane-namespace={namespace}");
    let flags = ["--admission-controller-disabled", &home];
    let controller = ControllerProcess::start(node.kubeconfig(), &flags).await.unwrap();
    controller.wait_ready().await.unwrap();
    controller
}

#[tokio::test]
async fn endpoints_are_those_that_kube_proxy_chooses() {
    assert_eq!(NODE, node::NODE);
    let Some(node) = SHARED.get_or_skip().await else { return };
    node.install_crds().await.unwrap();
    let namespace = node.namespace("endpoints").await.unwrap();
    set_zone(node, Some(ZONE)).await;
    let dialled = write(node, &namespace).await;
    assert!(dialled.len() >= 60, "{}", dialled.len());
    compare_kube_proxy(node, &dialled, true).await;
    let controller = follow(node, &namespace).await;
    let client = Client::start(&controller, &namespace, &dialled);
    client.compare(&dialled, true).await;

    set_zone(node, None).await;
    compare_kube_proxy(node, &dialled, false).await;
    client.compare(&dialled, false).await;
    node.remove_namespace(&namespace).await.unwrap();
}
