//! Sidecars that ask another issuer than the one of their control plane, as `identity.mode=external` of
//! the chart has it.

use super::world::{World, pod};
use crate::issuer::ask::{identity, token};
use crate::issuer::followed::Sidecar;
use policy_tests::cluster::ControllerProcess;
use serde_json::json;

const AUDIENCE: &str = "example.com/identity";

#[tokio::test(flavor = "multi_thread")]
async fn an_injected_sidecar_gets_its_certificate_from_another_issuer() {
    let Some(cluster) = super::cluster().await else { return };
    let (mesh, namespace) =
        (cluster.namespace("mesh").await.unwrap(), cluster.namespace("foreign").await.unwrap());
    // It issues identities of this mesh, under a name of its own.
    let flags = [
        format!("--control-plane-namespace={mesh}"),
        format!("--roots-configmap={mesh}-roots"),
        format!("--identity-audiences={AUDIENCE}"),
        "--service-account=elsewhere".to_owned(),
    ];
    let builder = ControllerProcess::issuer(cluster.kubeconfig());
    let issuer = builder.flags(flags).start().await.unwrap();
    issuer.wait_ready().await.unwrap();
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(cluster.client(), &mesh);
    let map = maps.get(&format!("{mesh}-roots")).await.unwrap();
    let files = tempfile::tempdir().unwrap();
    let roots = files.path().join("roots.pem");
    std::fs::write(&roots, &map.data.unwrap()[policy_issuer::BUNDLE]).unwrap();

    let (address, name) = (issuer.grpc(), identity("elsewhere", &mesh, &mesh));
    let flags = [
        format!("--injector-issuer-addr=localhost:{}", address.port()),
        format!("--injector-issuer-name={name}"),
        format!("--injector-token-audience={AUDIENCE}"),
        format!("--injector-roots={}", roots.display()),
        "--injector-fixed-roots".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (kubeconfig, own) = (cluster.kubeconfig(), format!("injector-{mesh}"));
    let world =
        World::flagged(&cluster, kubeconfig, (mesh.clone(), &own), &[&namespace], &flags).await;
    let web = pod("web", json!({"portcullis.dev/inject": "enabled"}));
    let is = |answer: &super::world::Answer| !answer.inits().is_empty();
    let injected = world.until(&namespace, &web, "injected", is).await;
    let spec = &injected.body["spec"];
    let volumes = spec["volumes"].as_array().unwrap();
    assert!(volumes.iter().all(|volume| volume["configMap"].is_null()), "{spec}");
    let source = volumes.iter().find_map(|volume| {
        let source = &volume["projected"]["sources"][0]["serviceAccountToken"]["audience"];
        source.as_str().filter(|_| volume["name"] == "portcullis-identity-token")
    });
    assert_eq!(source, Some(AUDIENCE));

    // What the kubelet makes of it: variables, and a token for that audience.
    let env = spec["initContainers"][1]["env"].as_array().unwrap();
    let wanted = ["IDENTITY_ADDR", "IDENTITY_SERVICE_NAME", "IDENTITY_ANCHORS"];
    let settings = env.iter().filter_map(|one| {
        let name = one["name"].as_str()?.strip_prefix("PORTCULLIS_")?;
        wanted.contains(&name).then(|| (name.to_owned(), one["value"].as_str().unwrap().to_owned()))
    });
    let account = ("IDENTITY_NAME".to_owned(), identity("web", &namespace, &mesh));
    let web = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: web, namespace: {namespace}}}\n"
    );
    cluster.apply(&web).await.unwrap();
    let token = token(&cluster, (&namespace, "web"), AUDIENCE, None).await;
    let sidecar = Sidecar::with(settings.chain([account]), &token, None);
    sidecar.trusts(1).await;
    sidecar.end().await;
}
