//! The Helm chart on a real API server: every object of every example is taken, rights are as small as
//! they are said to be, and installing, upgrading and removing leave what they should.

mod dangling;
mod drift;
mod roles;
mod secret;

use policy_tests::chart::{Helm, examples, folder, succeeded};
use policy_tests::cluster::{Cluster, Objects, cluster_or_skip, documents, kubectl};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The namespace of the release.
const NAMESPACE: &str = "portcullis";

/// Kinds of the Prometheus operator, whose definitions are not ours to install.
const FOREIGN: [&str; 2] = ["PodMonitor", "PrometheusRule"];

/// The Secret that only the issuer may read.
const AUTHORITY: &str = "portcullis-identity-issuer";

/// A cluster of its own, for objects of the whole cluster are installed and removed.
async fn cluster() -> Option<Cluster> {
    cluster_or_skip(Cluster::builder()).await
}

async fn namespaces(cluster: &Cluster, names: &[&str]) {
    for name in names {
        let yaml = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
        cluster.apply(&yaml).await.unwrap();
    }
}

/// True if a service account of the release is allowed to do something.
async fn may(objects: &Objects, account: &str, resource: &Value) -> bool {
    let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": resource},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer: Value = objects.post(path, &review).await.unwrap();
    answer["status"]["allowed"].as_bool().unwrap()
}

#[tokio::test]
async fn every_object_of_every_example_is_taken_and_only_the_issuer_reads_its_secret() {
    let Some(cluster) = cluster().await else { return };
    let Some(helm) = Helm::or_skip(NAMESPACE) else { return };
    cluster.install_gateway_api().await.unwrap();
    namespaces(&cluster, &[NAMESPACE, "shop", "payments"]).await;
    let objects = cluster.objects();
    for (example, values) in examples().unwrap() {
        let rendered = helm.objects(&values).unwrap();
        let (definitions, others): (Vec<_>, Vec<_>) =
            rendered.into_iter().partition(|object| object["kind"] == "CustomResourceDefinition");
        for definition in &definitions {
            objects.install_one(definition).await.unwrap();
        }
        let ours =
            others.iter().filter(|object| !FOREIGN.contains(&object["kind"].as_str().unwrap()));
        for object in ours.clone() {
            // Strict: a field that the API server does not know is refused.
            let applied = objects.apply_one(object).await;
            applied.unwrap_or_else(|error| panic!("{example}: {error:?}"));
        }
        for object in ours.clone().chain(&definitions) {
            let stored = objects.get(object).await.unwrap().unwrap();
            let lacks = drift(object, &stored, "");
            assert_eq!(lacks, Vec::<String>::new(), "{example}: {}", object["metadata"]["name"]);
        }
        secrets_are_kept(&objects, &example, &others).await;
        let ours: Vec<String> = ours.rev().map(|object| format!("{object}\n")).collect();
        objects.delete(&ours.join("---\n")).await.unwrap();
    }
}

/// The fields of a rendered object that the API server stores otherwise. GitOps tools would find them
/// at each comparison, and write the object for ever.
fn drift(rendered: &Value, stored: &Value, path: &str) -> Vec<String> {
    let (differs, none) = (vec![path.to_owned()], Vec::new());
    match (rendered, stored) {
        (Value::Object(rendered), Value::Object(stored)) => {
            let fields = rendered.iter();
            let found = fields.map(|(name, value)| {
                drift(value, stored.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}"))
            });
            found.flatten().collect()
        }
        (Value::Array(rendered), Value::Array(stored)) if rendered.len() == stored.len() => {
            let pairs = rendered.iter().zip(stored).enumerate();
            pairs
                .flat_map(|(at, (one, other))| drift(one, other, &format!("{path}[{at}]")))
                .collect()
        }
        // Quantities that are written as numbers are stored as texts, and compared as quantities.
        (Value::Number(number), Value::String(text)) if number.to_string() == *text => none,
        _ if rendered == stored => none,
        _ => differs,
    }
}

/// Of Secrets each service account has its own and no other, and none can get at them otherwise.
async fn secrets_are_kept(objects: &Objects, example: &str, rendered: &[Value]) {
    let accounts = rendered.iter().filter(|object| object["kind"] == "ServiceAccount");
    let accounts: BTreeSet<&str> =
        accounts.map(|account| account["metadata"]["name"].as_str().unwrap()).collect();
    let secret = |verb: &str, namespace: &str, name: &str| json!({"verb": verb, "resource": "secrets", "namespace": namespace, "name": name});
    let own: BTreeMap<&str, &str> = BTreeMap::from([
        ("portcullis-issuer", AUTHORITY),
        ("policy-controller", "policy-admission-tls"),
    ]);
    for account in &accounts {
        // With the right to create them and to read one, every token of the namespace is read.
        let creates = may(objects, account, &secret("create", NAMESPACE, "")).await;
        let expected = *account == "portcullis-issuer" && makes_its_own(example, account);
        assert_eq!(creates, expected, "{example}: {account} create secret");
        for verb in ["get", "list", "watch", "update", "patch", "delete", "deletecollection"] {
            for namespace in [NAMESPACE, "shop", "kube-system", ""] {
                for name in [AUTHORITY, "policy-admission-tls", "mesh-authority", "other", ""] {
                    let allowed = may(objects, account, &secret(verb, namespace, name)).await;
                    let expected = namespace == NAMESPACE
                        && ["get", "update"].contains(&verb)
                        && own.get(account) == Some(&name)
                        && makes_its_own(example, account);
                    assert_eq!(
                        allowed, expected,
                        "{example}: {account} {verb} secret {namespace:?}/{name:?}"
                    );
                }
            }
        }
        for (group, resource, verb) in [
            ("", "pods", "create"),
            ("", "pods/exec", "create"),
            ("", "pods/ephemeralcontainers", "patch"),
            ("", "serviceaccounts/token", "create"),
            ("", "serviceaccounts", "impersonate"),
            ("", "users", "impersonate"),
            ("apps", "deployments", "patch"),
            ("rbac.authorization.k8s.io", "roles", "create"),
            ("rbac.authorization.k8s.io", "roles", "escalate"),
            ("rbac.authorization.k8s.io", "rolebindings", "create"),
            ("rbac.authorization.k8s.io", "clusterroles", "bind"),
        ] {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let asked = json!({"verb": verb, "group": group, "resource": resource,
                "subresource": subresource, "namespace": NAMESPACE});
            assert!(!may(objects, account, &asked).await, "{example}: {account} {asked}");
        }
    }
}

/// True if a service account keeps a Secret of its own in an example: not where it is given one.
fn makes_its_own(example: &str, account: &str) -> bool {
    match account {
        "portcullis-issuer" => example != "supplied",
        // With Roles alone the webhook is off, or has a certificate of yours.
        "policy-controller" => !["supplied", "namespaces"].contains(&example),
        _ => false,
    }
}

/// The objects of a release.
fn manifest(helm: &Helm) -> Vec<Value> {
    let text = succeeded(&helm.call(&["get", "manifest", "portcullis"]).unwrap()).unwrap();
    documents(&text).unwrap()
}

fn webhooks() -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "portcullis-policy"}})
}

fn names(webhooks: &Value) -> Vec<&str> {
    let webhooks = webhooks["webhooks"].as_array().unwrap();
    webhooks.iter().map(|webhook| webhook["name"].as_str().unwrap()).collect()
}

/// Writes the caBundle of every webhook and nothing else, as the controller does.
async fn write_ca_bundle(objects: &Objects, bundle: &str) {
    let found = objects.get(&webhooks()).await.unwrap().expect("installed");
    let with_bundle = |name| json!({"name": name, "clientConfig": {"caBundle": bundle}});
    let part: Vec<Value> = names(&found).into_iter().map(with_bundle).collect();
    objects.merge(&webhooks(), &json!({"webhooks": part})).await.unwrap();
}

#[tokio::test]
async fn installing_upgrading_and_removing_leave_what_they_should() {
    let Some(cluster) = cluster().await else { return };
    let Some(helm) = Helm::or_skip(NAMESPACE) else { return };
    let helm = helm.on(cluster.kubeconfig());
    cluster.install_gateway_api().await.unwrap();
    let objects = cluster.objects();
    let chart = folder().display().to_string();

    let install = ["install", "portcullis", &chart, "--create-namespace"];
    let notes = succeeded(&helm.call(&install).unwrap()).unwrap();
    assert!(notes.contains("kubectl -n portcullis rollout status"), "{notes}");
    let installed = manifest(&helm);
    for object in &installed {
        assert!(objects.get(object).await.unwrap().is_some(), "{object}");
    }
    let kinds = |objects: &[Value], kind: &str| {
        objects.iter().filter(|object| object["kind"] == kind).count()
    };
    // Helm cannot create objects of kinds that it installs: the controller carries these policies.
    assert_eq!(
        (kinds(&installed, "Server"), kinds(&installed, "CustomResourceDefinition")),
        (0, 19)
    );

    // Who wrote caBundle keeps it over an upgrade that changes every object.
    let bundle = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==";
    write_ca_bundle(&objects, bundle).await;
    let upgrade = ["upgrade", "portcullis", &chart, "--set", "extraLabels.team=mesh"];
    succeeded(&helm.call(&upgrade).unwrap()).unwrap();
    let found = objects.get(&webhooks()).await.unwrap().expect("it stays");
    assert_eq!(found["metadata"]["labels"]["team"], "mesh");
    assert!(!names(&found).is_empty());
    for webhook in found["webhooks"].as_array().unwrap() {
        assert_eq!(webhook["clientConfig"]["caBundle"], bundle, "{}", webhook["name"]);
    }
    // Now that the kinds are known.
    let upgraded = manifest(&helm);
    assert_eq!((kinds(&upgraded, "Server"), kinds(&upgraded, "GRPCRoute")), (4, 2));
    for object in &upgraded {
        assert!(objects.get(object).await.unwrap().is_some(), "{object}");
    }

    // The webhook's Service has no pods here.
    objects.delete(&webhooks().to_string()).await.unwrap();
    a_further_release_has_namespaces_of_its_own(&cluster, &chart).await;
    for object in upgraded.iter().filter(|object| object["kind"] != webhooks()["kind"]) {
        assert!(objects.get(object).await.unwrap().is_some(), "{object}");
    }
    definitions_that_were_deleted_are_restored_from_the_release(&cluster, &helm, &chart).await;

    // What users wrote, and its definitions, stay; everything else of the release goes.
    let user = "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\nmetadata: {name: web, namespace: \
                default}\nspec: {podSelector: {}, port: http}\n";
    objects.delete(&webhooks().to_string()).await.unwrap();
    cluster.apply(user).await.unwrap();
    succeeded(&helm.call(&["uninstall", "portcullis"]).unwrap()).unwrap();
    for object in &upgraded {
        // The Secret holds the key of the webhooks.
        let stays =
            ["CustomResourceDefinition", "Secret"].iter().any(|kind| object["kind"] == *kind);
        assert_eq!(objects.get(object).await.unwrap().is_some(), stays, "{object}");
    }
    assert!(objects.get(&documents(user).unwrap()[0]).await.unwrap().is_some());

    // What stayed is in nobody's way.
    succeeded(&helm.call(&install).unwrap()).unwrap();
    assert_eq!(kinds(&manifest(&helm), "Server"), 4);
    the_outbound_half_stays_as_it_was(&helm, &chart);
}

/// The command that `portcullis health` names brings definitions back that somebody deleted. `helm
/// upgrade` alone cannot, because the release contains objects of their kinds.
async fn definitions_that_were_deleted_are_restored_from_the_release(
    cluster: &Cluster,
    helm: &Helm,
    chart: &str,
) {
    let objects = cluster.objects();
    let definition = |name: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name}})
    };
    for name in ["servers.policy.linkerd.io", "authorizationpolicies.policy.linkerd.io"] {
        objects.delete(&definition(name).to_string()).await.unwrap();
        while objects.get(&definition(name)).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let upgrade = ["upgrade", "portcullis", chart, "--reuse-values"];
    assert!(!helm.call(&upgrade).unwrap().status.success(), "the advice is not needed any more");
    let manifest = succeeded(&helm.call(&["get", "manifest", "portcullis"]).unwrap()).unwrap();
    let apply = || {
        let mut kubectl = Command::new(kubectl().unwrap())
            .args(["apply", "--server-side", "--force-conflicts", "-f", "-"])
            .env("KUBECONFIG", cluster.kubeconfig())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        kubectl.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
        kubectl.wait().unwrap().success()
    };
    assert!(!apply(), "kubectl knows the kinds once it has applied their definitions");
    // The webhooks' Service has no pods here.
    objects.delete(&webhooks().to_string()).await.unwrap();
    assert!(apply());
    objects.delete(&webhooks().to_string()).await.unwrap();
    succeeded(&helm.call(&upgrade).unwrap()).unwrap();
}

/// A second release beside the first: what it lacks is said, and as documented it comes and goes.
async fn a_further_release_has_namespaces_of_its_own(cluster: &Cluster, chart: &str) {
    let Some(helm) = Helm::or_skip("second") else { return };
    let helm = helm.on(cluster.kubeconfig());
    namespaces(cluster, &["team"]).await;
    let definitions = ["crds.policy=false", "crds.workload=false", "crds.portcullis=false"]
        .map(|set| ["--set", set]);
    let install = ["install", "second", chart, "--create-namespace"];
    let mut call = [&install[..], definitions.as_flattened()].concat();
    let refused = helm.call(&call).unwrap();
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{words}");
    let expected = "release portcullis of namespace portcullis watches the whole cluster";
    assert!(words.contains(expected) && words.contains("watchNamespaces={NAMESPACE}"), "{words}");
    for set in ["watchNamespaces={team}", "injector.enabled=false", "admission.enabled=false"] {
        call.extend(["--set", set]);
    }
    succeeded(&helm.call(&call).unwrap()).unwrap();
    succeeded(&helm.call(&["uninstall", "second"]).unwrap()).unwrap();
}

/// Upgrades that say nothing of the outbound half leave it as it is: on from the first installation,
/// `mesh-only` where that was said, or off in an installation that had none. So do upgrades after a
/// rollback.
fn the_outbound_half_stays_as_it_was(helm: &Helm, chart: &str) {
    let mode = || {
        let objects = manifest(helm);
        let is_controller = |object: &&Value| {
            object["kind"] == "Deployment" && object["metadata"]["name"] == "policy-controller"
        };
        let controller = objects.iter().find(is_controller).expect("it is installed");
        let flags = &controller["spec"]["template"]["spec"]["containers"][0]["args"];
        let mut flags = flags.as_array().unwrap().iter().filter_map(Value::as_str);
        let mode = flags.find_map(|flag| flag.strip_prefix("--injector-default=outbound="));
        mode.unwrap_or("disabled").to_owned()
    };
    let upgrade = ["upgrade", "portcullis", chart, "--reset-values"];
    let set = |value: &'static str| [&upgrade[..], &["--set", value]].concat();
    assert_eq!(mode(), "enabled", "after the first installation");
    for (call, expected) in [
        (upgrade.to_vec(), "enabled"),
        (upgrade.to_vec(), "enabled"),
        (set("injector.defaults.outbound=mesh-only"), "mesh-only"),
        (upgrade.to_vec(), "mesh-only"),
        (set("outbound.enabled=false"), "disabled"),
        (upgrade.to_vec(), "disabled"),
        (upgrade.to_vec(), "disabled"),
        (vec!["rollback", "portcullis", "2"], "enabled"),
        (upgrade.to_vec(), "enabled"),
    ] {
        succeeded(&helm.call(&call).unwrap()).unwrap();
        assert_eq!(mode(), expected, "{call:?}");
    }
}
