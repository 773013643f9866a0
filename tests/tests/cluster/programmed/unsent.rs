//! Parts of an object that clients of Linkerd's API are not sent: status and an Event report them,
//! whichever replica leads, and for as long as such a client watches.

use super::{Proxy, free, leader, replica, shop, until_programmed};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use policy_crds::Kind;
use policy_proto::linkerd::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use policy_proto::linkerd::inbound::{PortSpec, Server};
use policy_testkit::wait_for;
use policy_tests::cluster::{Cluster, cluster_or_skip};
use serde_json::Value;
use std::net::SocketAddr;
use tonic::Streaming;
use tonic::transport::Endpoint;

const KIND: Kind = Kind::PolicyHttpRoute;

fn route(shop: &str, name: &str, rule: &str) -> String {
    format!(
        "apiVersion: {}/{}\nkind: {}\nmetadata: {{name: {name}, namespace: {shop}}}\n\
         spec: {{parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}], \
         rules: [{{matches: [{{path: {{type: PathPrefix, value: /{name}}}}}], {rule}}}]}}\n---\n",
        KIND.group(),
        KIND.versions()[0],
        KIND.as_str(),
    )
}

/// `Status Reason: message` of the condition that the only parent of a route has of a type.
async fn told(cluster: &Cluster, shop: &str, name: &str, kind: &str) -> Option<String> {
    let gvk = GroupVersionKind::gvk(KIND.group(), KIND.versions()[0], KIND.as_str());
    let resource = ApiResource::from_gvk_with_plural(&gvk, KIND.plural());
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), shop, &resource);
    let object = api.get(name).await.unwrap();
    let conditions = object.data["status"]["parents"][0]["conditions"].as_array()?.clone();
    let condition = conditions.into_iter().find(|condition| condition["type"] == kind)?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{} {}: {}", text("status"), text("reason"), text("message")))
}

async fn until_unsupported(cluster: &Cluster, shop: &str, name: &str, expected: Option<&str>) {
    wait_for(&format!("{name} is told {expected:?}"), || async {
        let found = told(cluster, shop, name, "ProxyUnsupported").await;
        (found.as_deref() == expected).then_some(())
    })
    .await;
}

/// `Type Reason: note` of the Events about an object, in order.
async fn events(cluster: &Cluster, shop: &str, name: &str) -> Vec<String> {
    let api: Api<Event> = Api::namespaced(cluster.client(), shop);
    let all = api.list(&ListParams::default()).await.unwrap().items;
    let about = all.iter().map(|event| serde_json::to_value(event).unwrap());
    let about = about.filter(|event| event["regarding"]["name"] == name);
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let line =
        |e: Value| format!("{} {}: {}", text(&e, "type"), text(&e, "reason"), text(&e, "note"));
    let mut lines: Vec<String> = about.map(line).collect();
    lines.sort();
    lines
}

/// A watch such as Linkerd's proxies have, of which the first message has come.
async fn watch(controller: SocketAddr, workload: &str) -> Streaming<Server> {
    let endpoint = Endpoint::from_shared(format!("http://{controller}")).unwrap();
    let mut client = InboundServerPoliciesClient::new(endpoint.connect().await.unwrap());
    let spec = PortSpec { workload: workload.to_owned(), port: 8080 };
    let mut stream = client.watch_port(spec).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    stream
}

#[tokio::test]
async fn what_clients_of_linkerds_api_are_not_sent_is_told_while_one_of_them_watches() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let (home, shop) = shop(&cluster, &["a"]).await;
    let redirect = "filters: [{type: RequestRedirect, requestRedirect: \
                    {path: {type: ReplacePrefixMatch, replacePrefixMatch: ''}}}]";
    let routes = [route(&shop, "slow", "timeouts: {request: 1s}"), route(&shop, "away", redirect)];
    cluster.apply(&routes.concat()).await.unwrap();
    let [first, second, _] = free();
    let all = [first, second];
    let mut replicas = Vec::new();
    for own in all {
        replicas.push(replica(cluster.kubeconfig(), &home, own, &all).await);
    }
    let leader = leader(&replicas).await;

    // Our own sidecar is sent everything.
    let workload = format!("{shop}:a");
    let _proxy = Proxy::of(&workload, &all);
    let in_force = "True Programmed: in force on 1 of 1 proxies";
    until_programmed(&cluster, &shop, in_force).await;
    for name in ["slow", "away"] {
        assert_eq!(told(&cluster, &shop, name, "ProxyUnsupported").await, None);
        assert!(events(&cluster, &shop, name).await.is_empty());
    }

    // The client is not the leader's.
    let watching = watch(all[1 - leader], &workload).await;
    let slow = format!(
        "clients of Linkerd's API: effect of HTTPRoute {shop}/slow: a timeout (`timeouts`): not sent"
    );
    until_unsupported(&cluster, &shop, "slow", Some(&format!("True LeftOut: {slow}"))).await;
    let away = format!(
        "clients of Linkerd's API: route HTTPRoute {shop}/away: has an effect that the client cannot \
         apply: the route is denied; clients of Linkerd's API: effect of HTTPRoute {shop}/away: a \
         redirect to a path that does not begin with `/`: requests that need it are denied"
    );
    let found = wait_for("the denied route is told", || async {
        told(&cluster, &shop, "away", "ProxyUnsupported").await
    })
    .await;
    let parts = |text: &str| {
        let mut parts: Vec<String> = text.split("; ").map(str::to_owned).collect();
        parts.sort();
        parts
    };
    let found = found.strip_prefix("True Denied: ").unwrap_or_default();
    assert_eq!(parts(found), parts(&away));
    let expected = [format!("Warning ProxyUnsupported: ProxyUnsupported=True: {slow}")];
    wait_for("an event tells it", || async {
        (events(&cluster, &shop, "slow").await == expected).then_some(())
    })
    .await;
    let lines = wait_for("an event tells what is denied", || async {
        Some(events(&cluster, &shop, "away").await).filter(|lines| !lines.is_empty())
    })
    .await;
    let denied = "Warning ProxyUnsupported: ProxyUnsupported=True: ";
    assert!(lines.iter().all(|line| line.starts_with(denied)), "{lines:?}");
    // It says nothing of what is in force on our own.
    until_programmed(&cluster, &shop, in_force).await;
    let accepted = told(&cluster, &shop, "slow", "Accepted").await;
    assert_eq!(accepted.as_deref(), Some("True Accepted: "));

    // Nobody watches any more.
    drop(watching);
    until_unsupported(&cluster, &shop, "slow", None).await;
    until_unsupported(&cluster, &shop, "away", None).await;
    let expected = ["Normal ProxySupported: all watching clients receive it in full"]
        .into_iter()
        .map(str::to_owned)
        .chain(expected)
        .collect::<Vec<String>>();
    wait_for("an event tells that it is over", || async {
        (events(&cluster, &shop, "slow").await == expected).then_some(())
    })
    .await;
}
