//! An installation as the chart renders it, without nodes: its pods are objects, and a controller and
//! an issuer run beside, with the rights of their service accounts.

use crate::guard::outside_or_skip;
use policy_testkit::{free_port, wait_until};
use policy_tests::chart::{Helm, folder, succeeded};
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip, documents};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::PathBuf;

/// The namespace of the control plane.
const HOME: &str = "portcullis";

/// A namespace that asks for sidecars.
pub(crate) const SHOP: &str = "shop";

/// Flags of rendered containers that name what only a pod has: addresses, files, a certificate.
const POD_ALONE: [&str; 7] = [
    "--grpc-addr",
    "--admin-addr",
    "--server-addr",
    "--identity=",
    "--identity-addr",
    "--identity-service-name",
    "--injector-roots",
];

/// The installation.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) controller: ControllerProcess,
    _issuer: ControllerProcess,
}

impl World {
    /// Installs it and waits until everything that runs is ready; absent: the test is to return.
    pub(crate) async fn start() -> Option<Self> {
        // The API server reaches pods by their addresses, and no loopback is one.
        let address = outside_or_skip()?;
        let cluster = cluster_or_skip(Cluster::builder()).await?;
        let helm = Helm::or_skip(HOME)?.on(cluster.kubeconfig());
        cluster.install_gateway_api().await.unwrap();
        let chart = folder().display().to_string();
        let single = ["--set", "controller.replicas=1", "--set", "issuer.replicas=1"];
        let install = ["install", "portcullis", &chart, "--create-namespace"];
        succeeded(&helm.call(&[&install[..], &single].concat()).unwrap()).unwrap();
        let rendered = succeeded(&helm.call(&["get", "manifest", "portcullis"]).unwrap()).unwrap();
        let rendered = documents(&rendered).unwrap();
        let place = Place { cluster: &cluster, rendered: &rendered, address };
        let issuer = place.run("portcullis-issuer", &[]).await;
        let more = ["--webhook-names=127.0.0.1".to_owned(), format!("--host-ips={address}")];
        let controller = place.run("policy-controller", &more).await;
        place.webhooks(&controller).await;
        let world = Self { cluster, controller, _issuer: issuer };
        world.shop().await;
        Some(world)
    }

    /// A namespace that asks, with a pod that the injector gave its sidecar and that runs.
    async fn shop(&self) {
        let yaml = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {SHOP}, annotations: \
             {{portcullis.dev/inject: enabled}}}}\n---\n\
             apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: web, namespace: {SHOP}}}\n"
        );
        self.cluster.apply(&yaml).await.unwrap();
        let objects = self.cluster.objects();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": SHOP},
            "spec": {"serviceAccountName": "web", "containers": [{"name": "web", "image": "web"}]},
        });
        let injected = |pod: &Value| {
            let all = pod["spec"]["initContainers"].as_array().into_iter().flatten();
            all.into_iter().any(|container| container["name"] == "portcullis-proxy")
        };
        wait_until("the injector is asked", async || {
            let made = objects.apply_one(&pod).await;
            if made.as_ref().is_ok_and(injected) {
                return true;
            }
            if made.is_ok() {
                objects.delete(&pod.to_string()).await.unwrap();
            }
            false
        })
        .await;
        let ready = json!([{"name": "portcullis-proxy", "ready": true, "restartCount": 0,
            "image": "proxy", "imageID": "proxy"}]);
        let status = json!({"phase": "Running", "initContainerStatuses": ready});
        runs(&self.cluster, &pod, status).await;
    }

    /// Takes the rules about a resource out of a role of the controller's.
    pub(crate) async fn without_rights(&self, kind: &str, name: &str, resource: &str) {
        let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": HOME}});
        let objects = self.cluster.objects();
        let found = objects.get(&role).await.unwrap().expect("rendered");
        let rules = found["rules"].as_array().unwrap().iter();
        let others: Vec<&Value> = rules
            .filter(|rule| {
                let mut all = rule["resources"].as_array().unwrap().iter();
                !all.any(|one| one.as_str().unwrap().starts_with(resource))
            })
            .collect();
        assert!(others.len() < found["rules"].as_array().unwrap().len(), "{found}");
        role["rules"] = json!(others);
        objects.merge(&role, &json!({ "rules": others })).await.unwrap();
    }
}

/// Namespaces and names of the installation's parts.
struct Place<'a> {
    cluster: &'a Cluster,
    rendered: &'a [Value],
    address: IpAddr,
}

impl Place<'_> {
    fn object(&self, kind: &str, name: &str) -> &Value {
        let is = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        self.rendered.iter().find(is).unwrap_or_else(|| panic!("{kind} {name} is rendered"))
    }

    /// The pod of a Deployment, and the process that stands for it.
    async fn run(&self, deployment: &str, more: &[String]) -> ControllerProcess {
        let template = self.object("Deployment", deployment)["spec"]["template"].clone();
        let arguments = template["spec"]["containers"][0]["args"].as_array().unwrap().iter();
        let admin = format!("--admin-addr={}:{}", self.address, free_port().unwrap());
        let mut flags: Vec<String> = arguments
            .map(|argument| argument.as_str().unwrap().to_owned())
            .filter(|flag| !POD_ALONE.iter().any(|alone| flag.starts_with(alone)))
            .collect();
        flags.push(admin);
        flags.extend_from_slice(more);
        let pod = format!("{deployment}-0");
        self.pod(&pod, &template, &flags).await;
        let account = template["spec"]["serviceAccountName"].as_str().unwrap();
        let kubeconfig = self.kubeconfig(account);
        let builder = match deployment {
            "portcullis-issuer" => ControllerProcess::issuer(&kubeconfig),
            _ => ControllerProcess::builder(&kubeconfig),
        };
        let flags = flags.iter().skip(1).filter(|flag| !flag.starts_with("--log-format"));
        let started = builder.flags(flags).env("HOSTNAME", &pod).start().await.unwrap();
        started.wait_ready().await.unwrap();
        started
    }

    fn kubeconfig(&self, account: &str) -> PathBuf {
        let user = format!("system:serviceaccount:{HOME}:{account}");
        let groups = ["system:serviceaccounts", "system:authenticated"];
        self.cluster.kubeconfig_for(&user, &groups).unwrap()
    }

    /// The pod as its Deployment makes it, with the flags of what stands for it.
    async fn pod(&self, name: &str, template: &Value, flags: &[String]) {
        let mut spec = template["spec"].clone();
        spec["containers"][0]["args"] = json!(flags);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": HOME,
                "labels": template["metadata"]["labels"]},
            "spec": spec,
        });
        self.cluster.objects().apply_one(&pod).await.unwrap();
        let status = json!({
            "phase": "Running", "podIP": self.address, "podIPs": [{"ip": self.address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        runs(self.cluster, &pod, status).await;
    }

    /// Nothing answers at a Service here: the webhooks are at an address.
    async fn webhooks(&self, controller: &ControllerProcess) {
        let objects = self.cluster.objects();
        let address = controller.admission().unwrap();
        for (kind, name, path) in [
            ("ValidatingWebhookConfiguration", "portcullis-policy", ""),
            ("MutatingWebhookConfiguration", "portcullis-injector", "inject"),
        ] {
            let rendered = self.object(kind, name);
            let url = format!("https://{address}/{path}");
            let webhooks = rendered["webhooks"].as_array().unwrap().iter();
            let part: Vec<Value> = webhooks
                .map(|webhook| {
                    json!({"name": webhook["name"],
                           "clientConfig": {"service": null, "url": url}})
                })
                .collect();
            objects.merge(rendered, &json!({ "webhooks": part })).await.unwrap();
        }
    }
}

pub(crate) async fn runs(cluster: &Cluster, pod: &Value, status: Value) {
    let mut pod = pod.clone();
    pod["status"] = status;
    cluster.apply_status(&pod.to_string()).await.unwrap();
}
