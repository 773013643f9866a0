//! Kubernetes' own roles for people, which the chart adds policies to: what a user of a namespace can
//! and cannot do, by a real API server and Kubernetes' own aggregation of roles.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use policy_testkit::wait_until;
use policy_tests::chart::{Helm, folder, succeeded};
use policy_tests::cluster::{Cluster, Objects, cluster_or_skip};
use serde_json::{Value, json};

/// The namespace that users are bound in.
const SHOP: &str = "shop";

/// One that they are not.
const BANK: &str = "bank";

/// Somebody who is bound to a role in one namespace.
struct User {
    objects: Objects,
}

impl User {
    async fn bound_to(cluster: &Cluster, role: &str) -> Self {
        let user = format!("user-{role}");
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": user, "namespace": SHOP},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        cluster.objects().apply_one(&binding).await.unwrap();
        let kubeconfig = cluster.kubeconfig_for(&user, &["system:authenticated"]).unwrap();
        let file = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        Self { objects: Objects::new(Client::try_from(config.unwrap()).unwrap()) }
    }

    /// True if the API server lets this user see policies of a namespace.
    async fn sees(&self, namespace: &str) -> bool {
        self.objects.get(&policy(namespace)).await.is_ok()
    }

    /// True if it lets this user create and delete one.
    async fn writes(&self, namespace: &str) -> bool {
        let policy = policy(namespace);
        let made = self.objects.apply_one(&policy).await;
        if let Err(error) = &made {
            assert!(format!("{error:?}").contains("forbidden"), "{error:?}");
        }
        made.is_ok() && self.objects.delete(&policy.to_string()).await.is_ok()
    }
}

fn policy(namespace: &str) -> Value {
    json!({
        "apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"podSelector": {}, "port": 8080},
    })
}

#[tokio::test]
async fn view_sees_admin_writes_and_edit_writes_where_it_is_said() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    let Some(helm) = Helm::or_skip("portcullis") else { return };
    let helm = helm.on(cluster.kubeconfig());
    cluster.install_gateway_api().await.unwrap();
    let _aggregation = cluster.kubernetes_controller("clusterrole-aggregation-controller").unwrap();
    super::namespaces(&cluster, &[SHOP, BANK]).await;
    let viewer = User::bound_to(&cluster, "view").await;
    let editor = User::bound_to(&cluster, "edit").await;
    let administrator = User::bound_to(&cluster, "admin").await;

    // Nobody answers webhooks here.
    let chart = folder().display().to_string();
    let off = ["--set", "admission.enabled=false", "--set", "injector.enabled=false"];
    let helm = |arguments: &[&str]| {
        succeeded(&helm.call(&[arguments, &off[..]].concat()).unwrap()).unwrap();
    };
    helm(&["install", "portcullis", &chart, "--create-namespace"]);
    wait_until("view sees policies", async || viewer.sees(SHOP).await).await;
    wait_until("admin writes policies", async || administrator.writes(SHOP).await).await;
    wait_until("edit sees policies", async || editor.sees(SHOP).await).await;
    assert!(!viewer.writes(SHOP).await, "view writes nothing");
    assert!(!editor.writes(SHOP).await, "edit does not write by default");
    for user in [&viewer, &editor, &administrator] {
        assert!(!user.sees(BANK).await && !user.writes(BANK).await, "in their namespace alone");
    }

    helm(&["upgrade", "portcullis", &chart, "--set", "aggregateRoles.edit=true"]);
    wait_until("edit writes policies", async || editor.writes(SHOP).await).await;
    assert!(!viewer.writes(SHOP).await, "view writes nothing");

    let none = ["admin", "edit", "view"].map(|role| format!("aggregateRoles.{role}=false"));
    let [admin, edit, view] = &none;
    let sets = ["--set", admin, "--set", edit, "--set", view];
    helm(&[&["upgrade", "portcullis", &chart], &sets[..]].concat());
    wait_until("what was added is gone", async || {
        !viewer.sees(SHOP).await && !administrator.sees(SHOP).await && !editor.writes(SHOP).await
    })
    .await;
}
