//! The clients against the controller: they follow, acknowledge, come back, and prove who they are.

use crate::clients::{Language, event};
use crate::process::{Controller, MANIFESTS, Program, route};
use policy_testkit::{Authority, wait_until_blocking};

#[test]
fn the_example_clients_follow_acknowledge_and_come_back() {
    for language in Language::ALL {
        follows_acknowledges_and_comes_back(language);
    }
}

fn follows_acknowledges_and_comes_back(language: Language) {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    std::fs::write(manifests.path().join("a.yaml"), route("a")).unwrap();
    let alone = ["--proxy-ports="];
    let mut controller = Controller::start(manifests.path(), "127.0.0.1:0", &alone);
    controller.ready();
    let watch = language.watch(controller.grpc, &["shop:web", "--ack"]);
    let workload = event(&watch, "workload");
    assert_eq!(workload["name"], "shop/web");
    assert_eq!(workload["declared_ports"], serde_json::json!([8080]));
    let port = event(&watch, "port");
    assert_eq!((&port["owner"], &port["full"]), (&"web".into(), &true.into()));
    assert_eq!(port["routes"], serde_json::json!(["a"]));

    // One more route: a change that carries that route alone.
    std::fs::write(manifests.path().join("b.yaml"), route("b")).unwrap();
    let port = event(&watch, "port");
    assert_eq!(port["routes"], serde_json::json!(["a", "b"]));
    assert_eq!((&port["full"], &port["routes_changed"]), (&false.into(), &1.into()));
    wait_until_blocking("acknowledged", || {
        controller.get("/metrics").1.contains("\npolicy_watch_ack_seconds_count 2\n")
    });

    // A restart: the stream ends with OK, and the client comes back with what it has.
    controller.program.signal("TERM");
    assert_eq!(event(&watch, "ended")["code"], "OK");
    assert!(controller.program.wait().success());
    std::fs::remove_file(manifests.path().join("a.yaml")).unwrap();
    let again = Controller::start(manifests.path(), &controller.grpc.to_string(), &alone);
    let port = event(&watch, "port");
    assert_eq!(port["routes"], serde_json::json!(["b"]));
    wait_until_blocking("acknowledged", || {
        again.get("/metrics").1.contains("\npolicy_watch_ack_seconds_count 1\n")
    });
}

#[test]
fn the_example_clients_give_up_on_a_token_that_is_none() {
    for language in Language::ALL {
        gives_up_on_a_token_that_is_none(language);
    }
}

fn gives_up_on_a_token_that_is_none(language: Language) {
    let manifests = tempfile::tempdir().unwrap();
    std::fs::write(manifests.path().join("base.yaml"), MANIFESTS).unwrap();
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", &[]);
    controller.ready();
    let mut watch = language.watch(controller.grpc, &["web"]);
    let ended = event(&watch, "ended");
    assert_eq!(ended["code"], "INVALID_ARGUMENT");
    let details = ended["details"].as_str().unwrap();
    assert!(details.starts_with("hello.workload: expected `namespace:pod`"), "{details}");
    assert_eq!(watch.wait().code(), Some(1));
}

/// The controller's identity, and that of the pod of [`MANIFESTS`] with a service account.
const CONTROLLER: &str = "policy-controller.linkerd.serviceaccount.identity.linkerd.cluster.local";
const WEB: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";

#[test]
fn the_example_clients_prove_an_identity_and_ask_again_until_they_are_permitted() {
    for language in Language::ALL {
        proves_an_identity_and_asks_again(language);
    }
}

fn proves_an_identity_and_asks_again(language: Language) {
    let manifests = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let write = |account: &str| {
        let spec = format!("spec:\n  serviceAccountName: {account}\n  containers:");
        let text = MANIFESTS.replace("spec:\n  containers:", &spec);
        std::fs::write(manifests.path().join("base.yaml"), text).unwrap();
    };
    write("somebody-else");
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let mesh = Authority::new();
    std::fs::write(path("roots.pem"), mesh.pem()).unwrap();
    mesh.certify(CONTROLLER).write(files.path(), "controller.pem", "controller.key");
    mesh.certify(WEB).write(files.path(), "web.pem", "web.key");
    let flags = [
        "--proxy-ports=",
        "--grpc-tls-key",
        &path("controller.key"),
        "--grpc-tls-certs",
        &path("controller.pem"),
        "--grpc-tls-roots",
        &path("roots.pem"),
    ];
    let controller = Controller::start(manifests.path(), "127.0.0.1:0", &flags);
    controller.ready();
    let (roots, chain, key) = (path("roots.pem"), path("web.pem"), path("web.key"));
    let proof = ["--tls-cert", &chain, "--tls-key", &key];
    let with = |name: &str, proof: &[&str]| {
        let server = ["shop:web", "--tls-roots", &roots, "--tls-name", name];
        language.watch(controller.grpc, &[&server, proof].concat())
    };

    // A certificate of the mesh, for another workload as yet.
    let web = with(CONTROLLER, &proof);
    for _ in 0..2 {
        let ended = event(&web, "ended");
        assert_eq!(ended["code"], "PERMISSION_DENIED", "{ended}");
    }
    write("web");
    assert_eq!(event(&web, "workload")["name"], "shop/web");
    assert_eq!(event(&web, "port")["owner"], "web");

    // Nothing that proves who asks: asking again would not help.
    let mut nobody = with(CONTROLLER, &[]);
    let ended = event(&nobody, "ended");
    assert_eq!(ended["code"], "UNAUTHENTICATED", "{ended}");
    assert_eq!(nobody.wait().code(), Some(1));

    // A server that does not prove the identity is told nothing.
    let other = with(WEB, &proof);
    let ended = event(&other, "ended");
    assert_eq!(ended["code"], "UNAVAILABLE", "{ended}");
    // The words of the TLS libraries.
    let words = match language {
        Language::Python => "Hostname Verification",
        Language::Node => "does not match certificate's altnames",
        Language::Go => "certificate is valid for",
    };
    assert!(ended["details"].as_str().unwrap().contains(words), "{ended}");
}

#[test]
fn the_example_clients_speak_plaintext_to_loopback_alone() {
    for language in Language::ALL {
        speaks_plaintext_to_loopback_alone(language);
    }
}

fn speaks_plaintext_to_loopback_alone(language: Language) {
    let mut command = language.client("portcullis-policy.portcullis.svc:8090", &["shop:web"]);
    let mut client = Program::start_reading_errors(&mut command);
    let refusal = "is not loopback: give --tls-roots and --tls-name";
    client.find("refusal", |line| line.contains(refusal).then_some(()));
    assert_eq!(client.wait().code(), Some(2));
}
