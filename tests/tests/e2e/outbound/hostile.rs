//! Those who try to come around the sidecars, to borrow an identity, or to make sidecars call
//! themselves.

use super::super::away::controller_stays;
use super::super::clients::{CLI, Got, How, Visitor, ask_in};
use super::super::world::{authority, eventually, identity, node};
use super::{AUTHENTICATED, address_of, call, workload, workloads};
use policy_testkit::Authority;
use policy_tests::cluster::node::{Node, Place};
use serde_json::{Value, json};

const OUTSIDE: &str = "portcullis.dev/inject: disabled";

/// Asks for the sidecar's own ports, from inside the mesh, from outside, and around the redirection.
#[tokio::test]
async fn nobody_comes_around_the_sidecars() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    // What refuses at the port of outgoing connections is no policy.
    let open = "config.linkerd.io/default-inbound-policy: all-unauthenticated";
    let names = [("web", ""), ("open", open), ("caller", ""), ("plain", OUTSIDE)];
    let namespace = workloads(node, "around", AUTHENTICATED, &names).await;
    let page = format!("http://web.{namespace}/page");
    eventually("meshed", Got::Status(200), || call(node, &namespace, "caller", &page)).await;
    let [web, open] = ["web", "open"].map(|name| address_of(node, &namespace, name));
    let (web, open) = (web.await, open.await);

    for from in ["plain", "caller"] {
        let reached = call(node, &namespace, from, &format!("http://{open}:8080/page")).await;
        assert_eq!(reached, Got::Status(200), "{from}");
        let outbound = call(node, &namespace, from, &format!("tcp://{open}:4140")).await;
        assert_eq!(outbound, Got::Nothing, "{from} at the outbound port");
        // Mesh TLS and a transport header are expected there.
        for url in [format!("http://{web}:4143/page"), format!("tcp://{web}:4143")] {
            assert_eq!(call(node, &namespace, from, &url).await, Got::Nothing, "{from}: {url}");
        }
    }
    // A certificate of somebody else's authority that names whom the policy admits.
    let folder = tempfile::tempdir().unwrap();
    let stranger = Authority::named("elsewhere");
    stranger.certify(&identity(&namespace, "caller")).write(folder.path(), "tls.crt", "tls.key");
    std::fs::write(folder.path().join("ca.crt"), authority().pem()).unwrap();
    let forger = Visitor::with(folder).at(Place::Machine);
    let server = identity(&namespace, "web");
    for how in [How::Direct(&server), How::Meshed(&server)] {
        let seen = forger.ask(node, how, &format!("http://{web}:8080/page")).await;
        assert_eq!(seen, Got::Nothing, "{how:?}");
    }
    // The sidecar's user could go around his own sidecar.
    let sneaking = workload(&namespace, "sneaking", "")
        .replace("  containers:", "  securityContext: {runAsUser: 2102}\n  containers:");
    let refused = format!("{:#}", node.apply(&sneaking).await.unwrap_err());
    assert!(refused.contains("`2102` is the user of the sidecar"), "{refused}");
    node.remove_namespace(&namespace).await.unwrap();
}

/// A Service without a selector whose only endpoint is this address, as a pod's that is not there, or
/// of this name.
fn leads_to(namespace: &str, name: &str, address: &str, port: u16, pod: Option<&str>) -> String {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"port": 80, "targetPort": port}]},
    });
    let mut endpoint = json!({"addresses": [address], "conditions": {"ready": true}});
    if let Some(pod) = pod {
        endpoint["targetRef"] = json!({"kind": "Pod", "namespace": namespace, "name": pod});
    }
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4", "ports": [{"port": port}], "endpoints": [endpoint],
    });
    format!("{service}\n---\n{slice}\n")
}

/// A pod that calls itself injected and speaks TLS with the certificate of another identity, or
/// plaintext, as the client wishes; and a Service of it.
fn impostor(namespace: &str, of: &str) -> String {
    let leaf = authority().certify(&identity(namespace, of));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "impostor", "namespace": namespace},
        "stringData": {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem},
    });
    format!(
        "{secret}
---
apiVersion: v1
kind: Service
metadata: {{name: impostor, namespace: {namespace}}}
spec: {{selector: {{app: impostor}}, ports: [{{port: 80, targetPort: 8080}}]}}
---
apiVersion: v1
kind: Pod
metadata:
  name: impostor
  namespace: {namespace}
  labels: {{app: impostor}}
  annotations: {{{OUTSIDE}}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{{name: identity, secret: {{secretName: impostor}}}}]
  containers:
  - name: app
    image: {CLI}
    args: [echo, --listen, '[::]:8080', --cert, /identity/tls.crt, --key, /identity/tls.key, --plaintext-too]
    volumeMounts: [{{name: identity, mountPath: /identity}}]
"
    )
}

/// A machine that claims an address.
fn machine(namespace: &str, name: &str, address: &str) -> String {
    let own = identity(namespace, "machine");
    let workload = json!({
        "apiVersion": "workload.linkerd.io/v1beta1", "kind": "ExternalWorkload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "meshTLS": {"identity": own, "serverName": own},
            "workloadIPs": [{"ip": address}], "ports": [{"port": 8080}],
        },
    });
    format!("{workload}\n")
}

/// Names of the application that answers `caller`, or `None`.
async fn answers(node: &Node, namespace: &str, url: &str) -> Option<String> {
    let command = ["/usr/bin/portcullis", "request", "-o", "json", "--timeout", "20", url];
    let ended = node.kubectl().exec(namespace, "caller", "app", &command).await.unwrap();
    let answer: Value = serde_json::from_str(&ended.stdout).ok()?;
    let received: Value = serde_json::from_str(answer["body"].as_str()?).ok()?;
    received["name"].as_str().map(str::to_owned)
}

/// The lines of `caller`'s metrics with all of these words.
async fn metrics(node: &Node, namespace: &str, words: &[&str]) -> Vec<String> {
    let url = "http://127.0.0.1:4191/metrics";
    let command = ["/usr/bin/portcullis", "request", "-o", "json", url];
    let ended = node.kubectl().exec(namespace, "caller", "app", &command).await.unwrap();
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let all = answer["body"].as_str().unwrap().lines();
    let found = all.filter(|line| words.iter().all(|word| line.contains(word)));
    found.map(str::to_owned).collect()
}

#[tokio::test]
async fn no_object_lends_an_identity_or_makes_a_sidecar_call_itself() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let names = [("web", ""), ("evil", ""), ("caller", ""), ("plain", OUTSIDE)];
    let namespace = workloads(node, "forged", AUTHENTICATED, &names).await;
    let own = &*namespace;
    let mut addresses = Vec::new();
    for name in ["web", "evil", "caller", "plain"] {
        addresses.push(address_of(node, own, name).await);
    }
    let [web, evil, caller, plain] = &addresses[..] else { panic!("{addresses:?}") };
    // The first two, then what is asked for below: they are known in this order.
    node.apply(&machine(own, "of-web", web)).await.unwrap();
    node.apply(&machine(own, "of-plain", plain)).await.unwrap();
    node.apply(&leads_to(own, "claimed", evil, 8080, Some("evil"))).await.unwrap();
    node.apply(&leads_to(own, "stale", evil, 8080, Some("web"))).await.unwrap();
    node.apply(&leads_to(own, "own-outbound", caller, 4140, None)).await.unwrap();
    node.apply(&leads_to(own, "own-inbound", caller, 4143, None)).await.unwrap();
    node.apply(&leads_to(own, "other-outbound", web, 4140, None)).await.unwrap();
    node.apply(&leads_to(own, "round", caller, 8080, None)).await.unwrap();
    let address = ["get", "service", "-n", own, "round", "-ojsonpath={.spec.clusterIP}"];
    let round = node.kubectl().run(&address).await.unwrap();
    node.apply(&leads_to(own, "round", &round, 80, None)).await.unwrap();
    node.apply(&impostor(own, "web")).await.unwrap();
    node.wait_ready(own, "impostor").await.unwrap();
    let impostor = address_of(node, own, "impostor").await;
    let label = ["label", "pod", "-n", own, "impostor", "portcullis.dev/proxy=injected"];

    // Who answers is whom the address belongs to, under his own identity.
    let of = |name: &str| Some(name.to_owned());
    let url = format!("http://claimed.{own}/page");
    eventually("claimed", of("evil"), || answers(node, own, &url)).await;
    let proven = identity(own, "evil");
    let carried = metrics(node, own, &["outbound_tcp_opened", "claimed", &proven]).await;
    assert_eq!(carried.len(), 1, "{carried:?}");
    // An address that another pod has than the one that is named is nobody's.
    let stale = format!("http://stale.{own}/page");
    eventually("stale", None, || answers(node, own, &stale)).await;
    // Pods hold their addresses, whatever machine claims them.
    for (address, name) in [(web, "web"), (plain, "plain")] {
        let url = format!("http://{address}:8080/page");
        assert_eq!(answers(node, own, &url).await, of(name), "{name}");
    }
    // Nothing comes back to a sidecar's own ports, and the sidecar goes on.
    let round = format!("http://round.{own}/page");
    eventually("round", Got::Nothing, || call(node, own, "caller", &round)).await;
    for name in ["own-outbound", "own-inbound", "other-outbound"] {
        let url = format!("tcp://{name}.{own}:80");
        let arguments = ["-d", "round and round"];
        let seen = ask_in(node, (own, "caller", "app"), &arguments, &url).await;
        assert_eq!(seen, Got::Nothing, "{name}");
    }
    assert_eq!(answers(node, own, &url).await, of("evil"), "after the loops");

    // Another identity than the pod's is nobody's to accept, nor is plaintext.
    let urls = [format!("http://impostor.{own}/page"), format!("http://{impostor}:8080/page")];
    for url in &urls {
        let seen = ask_in(node, (own, "caller", "app"), &[], url).await;
        assert_eq!(seen, Got::Status(200), "in plaintext before it says that it is meshed");
    }
    node.kubectl().run(&label).await.unwrap();
    for url in &urls {
        eventually(url, Got::Nothing, || call(node, own, "caller", url)).await;
    }
    let refused = metrics(node, own, &["outbound_tcp_refused", "reason=\"identity\""]).await;
    assert!(!refused.is_empty());
    node.remove_namespace(own).await.unwrap();
}
