//! An editor of one namespace changes nothing for another (bypass rule 30).

use super::live::{Live, PORTS};
use super::manifests::{
    CLIENT, MESH, ON_SERVER, STRANGER, mesh, object, pod, policy, server, shop, web,
};
use policy_kube::rbac;
use policy_tests::cluster::{Cluster, Objects, cluster_or_skip};
use std::path::Path;

async fn objects_of(kubeconfig: &Path) -> Objects {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
    Objects::new(kube::Client::try_from(config).unwrap())
}

/// Everything in a namespace, and nothing else.
fn editor(namespace: &str, user: &str) -> String {
    let all = k8s_openapi::api::rbac::v1::PolicyRule {
        api_groups: Some(vec!["*".to_owned()]),
        resources: Some(vec!["*".to_owned()]),
        verbs: vec!["*".to_owned()],
        ..Default::default()
    };
    let role = rbac::yaml(&rbac::role(namespace, "editor", vec![all])).unwrap();
    format!(
        "{role}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: \
         editor, namespace: {namespace}}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: \
         Role, name: editor}}\nsubjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: \
         {user}}}]\n"
    )
}

/// The labels that the other's Server selects, objects of the same names, references to the other's,
/// claims of its identities.
fn hostile(other: &str, victim: &str) -> Vec<String> {
    let route = format!(
        "parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web, namespace: {victim}}}], \
         rules: [{{matches: [{{path: {{value: /get}}}}]}}]"
    );
    vec![
        pod(other, "web", "web", "config.linkerd.io/default-inbound-policy: all-unauthenticated"),
        pod(other, "web2", "web", "portcullis.dev/default-allow: audit"),
        server(other, "accessPolicy: all-unauthenticated"),
        mesh(other, "*"),
        policy(other, ON_SERVER, ""),
        object("HTTPRoute", other, "r", &route),
        object(
            "ServerAuthorization",
            other,
            "g",
            "server: {selector: {matchLabels: {app: web}}}, client: {unauthenticated: true}",
        ),
        object(
            "ReferenceGrant",
            other,
            "g",
            &format!(
                "from: [{{group: policy.linkerd.io, kind: HTTPRoute, namespace: {other}}}], to: \
                 [{{group: policy.linkerd.io, kind: Server}}]"
            ),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_objects_of_one_namespace_give_nothing_in_another() {
    // What everybody is served is compared.
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let victim = cluster.namespace("victim").await.unwrap();
    let other = cluster.namespace("mallory").await.unwrap();
    cluster.objects().apply_with_status(&shop(&victim)).await.unwrap();
    let user = format!("user-of-{other}");
    cluster.apply(&editor(&other, &user)).await.unwrap();
    let kubeconfig = cluster.kubeconfig_for(&user, &["system:authenticated"]).unwrap();
    let mallory = objects_of(&kubeconfig).await;
    let live = Live::start(cluster.client()).await;
    let key = web(&victim);
    live.until("granted", &key, CLIENT, true).await;
    let sampler = live.sample(key.clone(), vec![STRANGER]);
    let mut before = Vec::new();
    for port in PORTS {
        before.push(live.port(&key, port).await.unwrap());
    }

    // The other namespace's objects are out of reach, which is what all the rest builds on.
    for yaml in [pod(&victim, "web", "other", ""), mesh(&victim, "*"), server(&victim, "")] {
        let refused = format!("{:#}", mallory.apply(&yaml).await.unwrap_err());
        assert!(refused.contains("forbidden"), "{refused}");
    }
    // Within one's own everything goes.
    for yaml in hostile(&other, &victim) {
        mallory.apply(&yaml).await.unwrap();
    }
    // A policy cannot even say that it is for another namespace's Server.
    let target = format!("{ON_SERVER}, namespace: {victim}");
    let said = mallory.apply(&policy(&other, &target, MESH)).await.unwrap_err();
    assert!(format!("{said:#}").contains("namespace"), "{said:#}");
    for round in 0..30 {
        let app = ["web", "other", "clients"][round % 3];
        mallory
            .apply(&pod(&other, "web", app, "a: b").replace("app:", "other: x, app:"))
            .await
            .unwrap();
    }
    mallory.apply(&pod(&other, "web", "web", "")).await.unwrap();
    live.converges(cluster.client()).await;
    for (port, before) in PORTS.into_iter().zip(before) {
        assert_eq!(live.port(&key, port).await.unwrap(), before, "{port}");
    }
    sampler.was_never_wider().await;
}
