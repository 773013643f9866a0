//! The chart's default policy, and whom it lets read metrics.

use super::super::clients::{Got, How, ask_at};
use super::super::world::eventually;
use super::release::{Release, release};
use policy_tests::cluster::node::Place;

const REFUSED: Got = Got::Status(403);
const ADMITTED: Got = Got::Status(200);

#[tokio::test]
async fn upgraded_to_deny_pods_without_annotations_are_closed_and_become_ready() {
    let Some(release) = release().await else { return };
    let _turn = release.turn.read().await;
    let node = release.node;
    let (pod, address) = release.start_server("closed").await;
    let visitor = release.visitor("visitor").await;
    let server = release.identity_of("closed");
    let page = format!("http://{address}:8080/page");
    let asked = async || {
        let plain = visitor.ask(node, How::Plain, &page).await;
        [plain, visitor.ask(node, How::Meshed(&server), &page).await]
    };
    assert_eq!(asked().await, [REFUSED, ADMITTED], "installed with all-authenticated");
    release.upgrade("policy.default=deny").await;
    eventually("upgraded to deny", [REFUSED, REFUSED], asked).await;
    assert_eq!(ask_at(node, Place::Node, &[], &page).await, REFUSED, "the node");
    let probe = format!("http://{address}:8080/ready");
    assert_eq!(ask_at(node, Place::Node, &[], &probe).await, ADMITTED, "a probe");

    let annotate = async |annotation: &str| {
        let arguments = ["annotate", "pod", &pod, "-n", &release.watched, annotation];
        node.kubectl().run(&arguments).await.unwrap();
    };
    annotate("config.linkerd.io/default-inbound-policy=all-unauthenticated").await;
    eventually("the pod says otherwise", [ADMITTED, ADMITTED], asked).await;
    annotate("config.linkerd.io/default-inbound-policy-").await;
    eventually("it says nothing", [REFUSED, REFUSED], asked).await;
    // One that starts now is Ready only if its probes pass.
    let (_, address) = release.start_server("closed-from-the-start").await;
    let page = format!("http://{address}:8080/page");
    assert_eq!(visitor.ask(node, How::Plain, &page).await, REFUSED, "one that starts now");
}

#[tokio::test]
async fn metrics_are_read_by_whom_the_chart_names_and_the_pod_itself_alone() {
    let Some(release) = release().await else { return };
    let _turn = release.turn.read().await;
    let node = release.node;
    let (_, address) = release.start_server("measured").await;
    let url = format!("http://{address}:4191/metrics");
    // From elsewhere than the network that may read.
    let reader = release.visitor(Release::READER).await.at(Place::Second);
    let visitor = release.visitor("visitor").await.at(Place::Second);
    let server = release.identity_of("measured");
    let meshed = How::Meshed(&server);
    assert_eq!(ask_at(node, Place::Machine, &[], &url).await, ADMITTED, "its network is named");
    assert_eq!(reader.ask(node, meshed, &url).await, ADMITTED, "its identity is named");
    assert_eq!(visitor.ask(node, meshed, &url).await, REFUSED, "another identity");
    assert_eq!(reader.ask(node, How::Plain, &url).await, REFUSED, "without its identity");
    for place in [Place::Second, Place::Node] {
        assert_eq!(ask_at(node, place, &[], &url).await, REFUSED, "{place:?}");
    }
    let ready = format!("http://{address}:4191/ready");
    assert_eq!(ask_at(node, Place::Node, &[], &ready).await, ADMITTED, "the kubelet's probe");
}
