//! Copies of pods, as `kubectl debug --copy-to` makes them: without the labels of the first.

use super::world::{SHOP, World, runs};
use super::{health, lines};
use policy_tests::cluster::kubectl;
use serde_json::{Value, json};
use std::process::Command;

/// The copy has both injected containers, once, and neither an Event nor `health` says that it lacks its
/// sidecar.
pub(super) async fn a_copy_of_a_pod_has_its_sidecar_and_nobody_misses_it(world: &World) {
    let objects = world.cluster.objects();
    let named = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SHOP}});
    let first = objects.get(&named("web")).await.unwrap().unwrap();
    let debug =
        ["debug", "web", "--copy-to=copy", "--image=busybox", "--attach=false", "--", "true"];
    let mut command = Command::new(kubectl().unwrap());
    command.args(["--namespace", SHOP]).args(debug);
    let output = command.env("KUBECONFIG", world.cluster.kubeconfig()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let copy = objects.get(&named("copy")).await.unwrap().unwrap();
    let names = |pod: &Value| -> Vec<String> {
        let lists = ["initContainers", "containers"].into_iter();
        let all = lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
        let mut names: Vec<String> =
            all.map(|container| container["name"].as_str().unwrap().to_owned()).collect();
        names.retain(|name| !name.starts_with("debugger-"));
        names
    };
    assert_eq!(names(&copy), names(&first));
    assert!(names(&copy).iter().any(|name| name == "portcullis-proxy"), "{copy}");
    let ready = json!([{"name": "portcullis-proxy", "ready": true, "restartCount": 0,
        "image": "proxy", "imageID": "proxy"}]);
    let status = json!({"phase": "Running", "initContainerStatuses": ready});
    runs(&world.cluster, &named("copy"), status).await;
    let report = health(&world.cluster, &[]).await.json();
    let missing = lines(&report, "missing-sidecars");
    assert!(missing.iter().all(|(outcome, _)| outcome == "pass"), "{missing:?}");
    let path = format!("/api/v1/namespaces/{SHOP}/events");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let events: Value = objects.client().request(request).await.unwrap();
    let about = events["items"].as_array().unwrap().iter();
    let warned: Vec<&Value> = about
        .filter(|event| event["type"] == "Warning" && event["involvedObject"]["name"] == "copy")
        .collect();
    assert!(warned.is_empty(), "{warned:?}");
    objects.delete(&named("copy").to_string()).await.unwrap();
}
