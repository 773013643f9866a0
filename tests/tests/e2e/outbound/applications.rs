//! Applications call Services, pods and names as before, and policies about identities hold.

use super::super::away::controller_stays;
use super::super::clients::Got;
use super::super::world::{eventually, identity, node};
use super::{CLOSED, addresses_of, admits, call, workloads};
use policy_tests::cluster::node::{Node, Place};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

/// URLs of a workload by the addresses of its Service and of its pod, of both families.
async fn addresses(node: &Node, namespace: &str, name: &str) -> Vec<String> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
    });
    let service = node.objects().get(&service).await.unwrap().unwrap();
    let of_service = service["spec"]["clusterIPs"].as_array().unwrap().iter();
    let of_service = of_service.map(|own| own.as_str().unwrap().parse::<IpAddr>().unwrap());
    let of_pod = addresses_of(node, namespace, name).await.into_iter();
    let all = of_service.map(|own| (own, 80)).chain(of_pod.map(|own| (own, 8080)));
    all.map(|all| format!("http://{}/page", SocketAddr::from(all))).collect()
}

#[tokio::test]
async fn applications_call_with_the_identity_of_their_service_account() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let names = [("web", ""), ("granted", ""), ("stranger", "")];
    let namespace = workloads(node, "calls", CLOSED, &names).await;
    node.apply(&admits(&namespace, "web", &["granted"])).await.unwrap();
    let mut ways = vec![
        format!("http://web.{namespace}.svc.cluster.local/page"),
        format!("http://web.{namespace}/page"),
    ];
    ways.extend(addresses(node, &namespace, "web").await);
    assert_eq!(ways.len(), 6, "{ways:?}");
    for url in &ways {
        // A Service is reachable once DNS and the controller know of it.
        eventually(url, Got::Status(200), || call(node, &namespace, "granted", url)).await;
        assert_eq!(call(node, &namespace, "stranger", url).await, Got::Status(403), "{url}");
    }
    // A port that the Service does not declare is nobody's.
    let undeclared = format!("http://web.{namespace}:81/page");
    assert_eq!(call(node, &namespace, "granted", &undeclared).await, Got::Nothing);
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_pod_without_the_outbound_half_is_a_stranger_and_still_calls_in_plaintext() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let none = "portcullis.dev/outbound: disabled";
    let outside = "portcullis.dev/inject: disabled";
    let names = [("web", ""), ("granted", none), ("plain", outside), ("other", "")];
    let namespace = workloads(node, "plain", CLOSED, &names).await;
    node.apply(&admits(&namespace, "web", &["granted", "other"])).await.unwrap();
    let (web, plain) =
        (format!("http://web.{namespace}/page"), format!("http://plain.{namespace}/page"));
    eventually("meshed", Got::Status(200), || call(node, &namespace, "other", &web)).await;
    assert_eq!(call(node, &namespace, "granted", &web).await, Got::Status(403), "no identity");
    assert_eq!(call(node, &namespace, "plain", &web).await, Got::Status(403), "no sidecar");
    // Whoever is not meshed is reached as he is.
    for from in ["other", "granted", "plain"] {
        assert_eq!(call(node, &namespace, from, &plain).await, Got::Status(200), "{from}");
    }
    let web = identity(&namespace, "web");
    let expected = [("plain", json!(null), json!("unmeshed")), ("web", json!(web), json!(null))];
    let expected = expected.map(|(name, identity, reason)| {
        let (tls, owner) = (reason.is_null(), format!("pod/{name}"));
        json!({
            "from": {"namespace": namespace, "owner": "pod/other"}, "namespace": namespace,
            "service": name, "port": 80, "owner": owner, "tls": tls, "identity": identity,
            "reason": reason,
        })
    });
    eventually("edges", json!(expected), || edges(node, &namespace, &["pod/other"])).await;
    // Nobody else has an outbound half and calls.
    eventually("edges of all", json!(expected), || edges(node, &namespace, &[])).await;
    node.remove_namespace(&namespace).await.unwrap();
}

/// What `portcullis edges` says of the connections of a workload, or of all without one, without the
/// counts. Errors are words.
async fn edges(node: &Node, namespace: &str, workload: &[&str]) -> Value {
    let kubeconfig = node.kubeconfig().display().to_string();
    let program = env!("CARGO_BIN_EXE_portcullis-under-test");
    let command = [program, "edges", "-n", namespace, "-o", "json", "--kubeconfig", &kubeconfig];
    let command = [&command, workload].concat();
    let ended = node.run_at(Place::Machine, &command).await.unwrap();
    let Ok(mut report) = serde_json::from_str::<Value>(&ended.stdout) else {
        return json!(format!("{}{}", ended.stdout, ended.stderr));
    };
    let mut edges = report["edges"].take();
    for edge in edges.as_array_mut().into_iter().flatten() {
        let edge = edge.as_object_mut().unwrap();
        assert!(edge["opened"].as_u64() > Some(0), "{edge:?}");
        for count in ["opened", "closed", "sent", "received"] {
            edge.remove(count).unwrap();
        }
    }
    edges
}

/// A caller is judged alike, whichever replica is chosen.
#[tokio::test]
async fn a_service_that_leads_to_the_caller_itself_is_under_its_own_policy() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = workloads(node, "itself", CLOSED, &[("own", ""), ("web", "")]).await;
    node.apply(&admits(&namespace, "own", &["own"])).await.unwrap();
    node.apply(&admits(&namespace, "web", &["own"])).await.unwrap();
    let [own, web] = ["own", "web"].map(|name| format!("http://{name}.{namespace}/page"));
    eventually("itself", Got::Status(200), || call(node, &namespace, "own", &own)).await;
    assert_eq!(call(node, &namespace, "web", &web).await, Got::Status(403));
    node.remove_namespace(&namespace).await.unwrap();
}
