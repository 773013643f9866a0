//! `portcullis` on a real API server: what is found there, what may not be seen, who answers.

mod why;

use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// A pod behind a Server, one that names a port wrongly, and grants that lead nowhere.
fn shop(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {{name: front, namespace: {namespace}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-0
  namespace: {namespace}
  labels: {{app: web}}
spec: {{containers: [{{name: web, image: web, ports: [{{name: http, containerPort: 8080}}]}}]}}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: web, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: http, proxyProtocol: HTTP/1}}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: wrong, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: htpp}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: idle, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: wrong}}
  requiredAuthenticationRefs: [{{kind: ServiceAccount, name: frnot}}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: lost, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: gone}}
  requiredAuthenticationRefs: [{{kind: ServiceAccount, name: front}}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: fronts, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}
  requiredAuthenticationRefs: [{{kind: ServiceAccount, name: front}}]
"
    )
}

/// Exit status and output of a command.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }
}

/// Runs `portcullis` on a cluster.
pub(crate) async fn portcullis(kubeconfig: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis-under-test"));
    command.args(arguments).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn namespace(cluster: &Cluster) -> String {
    let namespace = cluster.namespace("cli").await.unwrap();
    cluster.apply(&shop(&namespace)).await.unwrap();
    namespace
}

#[tokio::test]
async fn check_names_what_matches_nothing_any_more() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = namespace(cluster).await;
    let said = portcullis(cluster.kubeconfig(), &["check", "-n", &ns, "-o", "json"]).await;
    let report = said.json();
    let finding = |severity: &str, object: &str, field: &str, message: String| {
        json!({
            "severity": severity, "file": null, "line": null, "column": null,
            "object": object, "field": field, "message": message,
        })
    };
    let expected = json!([
        finding(
            "error",
            &format!("Server {ns}/wrong"),
            "spec.port",
            "no selected pod has a port named `htpp`; they have `http` (8080); is `http` \
             meant?"
                .to_owned(),
        ),
        finding(
            "warning",
            &format!("AuthorizationPolicy {ns}/idle"),
            "spec.requiredAuthenticationRefs[0].name",
            format!("ServiceAccount {ns}/frnot does not exist; is `front` meant?"),
        ),
        finding(
            "warning",
            &format!("AuthorizationPolicy {ns}/idle"),
            "spec.targetRef.name",
            format!("grants nothing: Server {ns}/wrong owns no port of any workload"),
        ),
        finding(
            "error",
            &format!("AuthorizationPolicy {ns}/lost"),
            "spec.targetRef.name",
            format!("Server {ns}/gone does not exist"),
        ),
    ]);
    assert_eq!(report["findings"], expected, "{report:#}");
    assert_eq!(said.code, Some(1));
    assert_eq!(report["asked"]["namespace"], json!(ns));
    assert!(report["asked"]["context"].is_string() && report["asked"]["server"].is_string());
    assert_eq!((&report["gaps"], &report["notKnown"]), (&json!([]), &json!([])));
    assert_eq!(report["complete"], json!(true));
}

#[tokio::test]
async fn check_names_services_whose_outbound_policy_has_no_effect() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = cluster.namespace("cli").await.unwrap();
    let service = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: {ns}, annotations: \
         {{retry.linkerd.io/http: 5xx}}}}\nspec: {{ports: [{{port: 80}}]}}\n"
    );
    cluster.apply(&service).await.unwrap();
    let check = ["check", "-n", &ns, "-o", "json"];
    let found = portcullis(cluster.kubeconfig(), &check).await.json()["findings"].take();
    let [finding] = &found.as_array().unwrap()[..] else { panic!("{found:#}") };
    let said = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let field = "metadata.annotations[\"retry.linkerd.io/http\"]".to_owned();
    let expected = ["warning".to_owned(), format!("Service {ns}/web"), field];
    assert_eq!(["severity", "object", "field"].map(said), expected, "{finding:#}");
    assert!(said("message").starts_with("has no effect: "), "{finding:#}");
    let beside = [&check[..], &["--beside-linkerd"]].concat();
    let report = portcullis(cluster.kubeconfig(), &beside).await.json();
    assert_eq!(report["findings"], json!([]), "{report:#}");
}

#[tokio::test]
async fn identities_are_compared_with_those_of_a_mesh_that_is_known() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = cluster.namespace("cli").await.unwrap();
    let identity = "a.b.serviceaccount.identity.portcullis.cluster.local";
    let object = format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: MeshTLSAuthentication\n\
         metadata: {{name: m, namespace: {ns}}}\nspec: {{identities: [{identity}]}}\n"
    );
    cluster.apply(&object).await.unwrap();
    // No controller runs here, and the defaults of one are those of nobody.
    let check = ["check", "-n", &ns, "-o", "json"];
    let said = portcullis(cluster.kubeconfig(), &check).await.json();
    let told = said["notKnown"][0]["message"].as_str().unwrap_or_default();
    assert!(told.starts_with("whether its identities are of this mesh is not known"), "{said:#}");
    assert!(!said["findings"].to_string().contains("trust domain"), "{said:#}");
    for (namespace, own) in [("portcullis", true), ("linkerd", false)] {
        let stated = [&check[..], &["--control-plane-namespace", namespace]].concat();
        let said = portcullis(cluster.kubeconfig(), &stated).await.json();
        assert_eq!(said["notKnown"], json!([]), "{said:#}");
        let foreign = said["findings"].to_string().contains("ends in no trust domain");
        assert_eq!(foreign, !own, "{namespace}: {said:#}");
    }
}

#[tokio::test]
async fn what_may_not_be_listed_is_not_known_and_one_line_at_the_end_says_so() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = namespace(cluster).await;
    let role = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
         metadata: {{name: some, namespace: {ns}}}\nrules:\n\
         - {{apiGroups: [\"\"], resources: [pods], verbs: [list]}}\n\
         - {{apiGroups: [policy.linkerd.io], resources: [authorizationpolicies], verbs: [list]}}\n\
         ---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
         metadata: {{name: some, namespace: {ns}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: some}}\n\
         subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: sam-{ns}}}]\n"
    );
    cluster.apply(&role).await.unwrap();
    let groups = ["system:authenticated"];
    let sam = cluster.kubeconfig_for(&format!("sam-{ns}"), &groups).unwrap();
    let report = portcullis(&sam, &["check", "-n", &ns, "-o", "json"]).await;
    assert_eq!(report.json()["findings"], json!([]), "{}", report.out);
    assert_eq!(report.json()["complete"], json!(false), "{}", report.out);
    let unknown = report.json()["notKnown"].as_array().unwrap().len();
    assert_eq!(unknown, 6, "each policy's Server, and each client: {}", report.out);
    assert!(!report.err.contains("may not list"), "`gaps` says it: {}", report.err);
    let gaps = report.json()["gaps"].as_array().unwrap().len();

    let said = portcullis(&sam, &["authz", "-n", &ns, "-o", "json"]).await;
    let lines: Vec<&str> = said.err.lines().filter(|line| line.contains("may not list")).collect();
    assert_eq!(lines.len(), 1, "{gaps} kinds in one line: {}", said.err);
    let not_known = &said.json()["workloads"][0]["notKnown"];
    let servers = format!("servers.policy.linkerd.io of namespace {ns}");
    assert_eq!(not_known[0], json!(servers), "{}{}", said.out, said.err);

    // What is there and may not be listed is not told as absent.
    let denied = portcullis(&sam, &["check", "-n", &ns, "--deny-warnings"]).await;
    assert_eq!(denied.code, Some(1), "{}{}", denied.out, denied.err);
    let last = denied.out.lines().last().unwrap_or_default();
    let words = "; you may not list servers.policy.linkerd.io and ";
    assert!(last.contains(words) && last.ends_with("not everything was checked"), "{last}");
    let said = portcullis(&sam, &["authz", "-n", &ns, "server/web"]).await;
    let told = "whether a Server web owns a port of any workload in ";
    assert!(said.err.contains(told) && said.code == Some(1), "{}", said.err);
    let said = portcullis(&sam, &["status", "-n", &ns, "server/web", "pod/web-0"]).await;
    let told = format!("server/web (which is not known, because {servers} may not be listed)");
    assert!(said.err.contains(&told) && said.code == Some(1), "{}", said.err);

    let nobody = cluster.kubeconfig_for("nobody", &groups).unwrap();
    let said = portcullis(&nobody, &["authz", "-n", &ns]).await;
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("lets you list nothing that policy depends on"), "{}", said.err);
}

#[tokio::test]
async fn authz_knows_the_pods_of_a_deployment_by_their_owners() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = namespace(cluster).await;
    let owner = |kind: &str, name: &str| {
        format!("[{{apiVersion: apps/v1, kind: {kind}, name: {name}, uid: u-{name}}}]")
    };
    let owned = format!(
        "apiVersion: apps/v1\nkind: ReplicaSet\n\
         metadata: {{name: front-1, namespace: {ns}, ownerReferences: {}}}\n\
         spec: {{selector: {{matchLabels: {{app: front}}}}, template: {{metadata: {{labels: \
         {{app: front}}}}, spec: {{containers: [{{name: c, image: c}}]}}}}}}\n---\n\
         apiVersion: v1\nkind: Pod\n\
         metadata: {{name: front-1-a, namespace: {ns}, ownerReferences: {}}}\n\
         spec: {{containers: [{{name: c, image: c, ports: [{{containerPort: 80}}]}}]}}\n",
        owner("Deployment", "front"),
        owner("ReplicaSet", "front-1"),
    );
    cluster.apply(&owned).await.unwrap();
    let names = |said: &Said| said.json()["workloads"][0]["names"].clone();
    let of = |target: &'static str| {
        let ns = ns.clone();
        async move {
            let arguments = ["authz", "-n", &ns, "-o", "json", target];
            portcullis(cluster.kubeconfig(), &arguments).await
        }
    };
    assert_eq!(names(&of("deploy/front").await), json!(["front-1-a"]));
    let server = of("server/web").await;
    assert_eq!(names(&server), json!(["web-0"]));
    let access = &server.json()["workloads"][0]["ports"][0]["access"][0];
    assert_eq!(access["by"], json!(format!("AuthorizationPolicy {ns}/fronts")));
    assert_eq!(of("deploy/nothing").await.code, Some(1));
}

#[tokio::test]
async fn what_the_controller_does_not_watch_takes_no_effect() {
    let Some(cluster) = crate::shared().await else { return };
    let (ns, other) = (namespace(cluster).await, namespace(cluster).await);
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: policy-controller-0, namespace: {ns}, \
         labels: {{app.kubernetes.io/component: policy-controller}}}}\n\
         spec: {{containers: [{{name: c, image: c, env: [{{name: HOME, valueFrom: {{fieldRef: \
         {{fieldPath: metadata.namespace}}}}}}], args: [run, --watch-namespace=$(HOME), \
         --default-policy=deny]}}]}}\n"
    );
    cluster.apply(&pod).await.unwrap();
    let all = ["authz", "-A", "-o", "json", "--controller-namespace", &ns, "pod/web-0"];
    let said = portcullis(cluster.kubeconfig(), &all).await;
    let report = said.json();
    let expected = json!({
        "from": format!("pod {ns}/policy-controller-0"), "known": true, "defaultPolicy": "deny",
        "watched": [ns],
    });
    assert_eq!(report["settings"], expected);
    let told: Vec<&Value> =
        report["workloads"].as_array().unwrap().iter().map(|w| &w["namespace"]).collect();
    assert_eq!(told, [&json!(ns)]);
    assert!(said.err.contains(&format!("watches {ns} only")), "{}", said.err);
    let elsewhere = ["authz", "-n", &other, "--controller-namespace", &ns];
    assert_eq!(portcullis(cluster.kubeconfig(), &elsewhere).await.code, Some(1));
}

#[tokio::test]
async fn status_is_the_controllers_or_says_why_it_is_not() {
    // The controller leads, and writes status everywhere.
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let cluster = &cluster;
    let ns = namespace(cluster).await;
    let alone = ["status", "-n", &ns, "-o", "json", "--controller-namespace", &ns, "server/web"];
    let said = portcullis(cluster.kubeconfig(), &alone).await;
    let report = said.json();
    let why = report["noController"].as_str().unwrap();
    assert!(why.starts_with("no pod with the labels"), "{why}");
    assert_eq!(report["objects"][0]["conditions"][0]["source"], json!("computed"));

    let home = cluster.namespace("home").await.unwrap();
    let flag = format!("--control-plane-namespace={home}");
    let flags = [&*flag, "--admission-controller-disabled"];
    let controller = ControllerProcess::start(cluster.kubeconfig(), &flags).await.unwrap();
    controller.wait_ready().await.unwrap();
    let address = controller.grpc().to_string();
    let asking = ["status", "-n", &ns, "-o", "json", "--controller", &address, "server/web"];
    let said = portcullis(cluster.kubeconfig(), &asking).await;
    let report = said.json();
    assert_eq!(report["controller"], json!(format!("controller at {address}")));
    let object = &report["objects"][0];
    assert_eq!((&object["kind"], &object["name"]), (&json!("Server"), &json!("web")));
    let condition = &object["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Accepted"), &json!("True")));
    assert_eq!(condition["source"], json!("controller"));

    // Why it is in force nowhere, for programs and people, and what is wrong with the namespace.
    let annotated = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {ns}, annotations: \
         {{config.linkerd.io/default-inbound-policy: denny}}}}\n"
    );
    cluster.apply(&annotated).await.unwrap();
    let asking = ["status", "-n", &ns, "--controller", &address];
    let mut said = portcullis(cluster.kubeconfig(), &asking).await;
    for _ in 0..100 {
        // The counts come once everything has been listed.
        if said.out.contains("denny") && said.out.contains("NotRunning") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        said = portcullis(cluster.kubeconfig(), &asking).await;
    }
    for words in [
        "Programmed=False (NotRunning): 1 pod selected, none of which runs".to_owned(),
        "Programmed=False (NoTarget): no selected pod has a port named `htpp`".to_owned(),
        format!("Programmed=False (NoTarget): Server {ns}/gone does not exist"),
        format!("\nNamespace {ns}\n  AnnotationsValid=False (UnsupportedValue): "),
    ] {
        assert!(said.out.contains(&words), "{words}: {}{}", said.out, said.err);
    }
    let row = |name: &str| {
        let found = said.out.lines().find(|line| line.starts_with(&format!("Server {ns}/{name} ")));
        found.map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(row("web").as_deref(), Some("True - NotRunning"), "{}", said.out);
    assert_eq!(row("wrong").as_deref(), Some("True - NoTarget"), "{}", said.out);
}

#[tokio::test]
async fn authz_says_where_no_sidecar_runs_and_where_a_server_grants_nobody() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = namespace(cluster).await;
    let pod = |name: &str, labels: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\n\
             metadata: {{name: {name}, namespace: {ns}, labels: {{app: db{labels}}}}}\n\
             spec: {{containers: [{{name: a, image: a, \
             ports: [{{containerPort: 5432}}, {{containerPort: 4143}}]}}]}}\n---\n"
        )
    };
    let db = format!(
        "{}{}{}apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: db, namespace: {ns}}}\n\
         spec: {{podSelector: {{matchLabels: {{app: db}}}}, port: 5432, proxyProtocol: opaque}}\n",
        pod("db-0", ", portcullis.dev/proxy: injected"),
        pod("db-1", ", linkerd.io/control-plane-ns: linkerd"),
        pod("db-2", ""),
    );
    cluster.apply(&db).await.unwrap();
    let runs = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {ns}}}\n\
             status: {{phase: Running}}\n---\n"
        )
    };
    cluster.apply_status(&["db-0", "db-1", "db-2"].map(runs).concat()).await.unwrap();
    let said = portcullis(cluster.kubeconfig(), &["authz", "-n", &ns]).await;
    let section = |name: &str| {
        let heading = format!("\nPod {ns}/{name}\n");
        let from = said.out.split_once(&heading).unwrap_or_else(|| panic!("{}", said.out)).1;
        from.split("\nPod ").next().unwrap_or_default().to_owned()
    };
    let nobody = "grants nobody: every request to these ports is refused";
    for (name, begins) in [
        ("db-0", "\n  port 5432"),
        ("db-1", "enforced by a proxy of Linkerd's API\n"),
        ("db-2", "no sidecar: nothing of this holds\n"),
        ("web-0", "not running: this holds once it runs with a sidecar\n"),
    ] {
        assert!(section(name).starts_with(begins), "{name}: {}", said.out);
        assert_eq!(section(name).contains(nobody), name != "web-0", "{name}: {}", said.out);
        assert!(!section(name).contains("4143"), "{}", said.out);
    }
    let said = portcullis(cluster.kubeconfig(), &["authz", "-n", &ns, "--all-ports"]).await;
    assert!(said.out.contains("port 4143"), "{}", said.out);
    let of_json =
        portcullis(cluster.kubeconfig(), &["authz", "-n", &ns, "-o", "json"]).await.json();
    let sidecar = |name: &str| {
        let all = of_json["workloads"].as_array().unwrap();
        let own = all.iter().find(|w| w["names"] == json!([name])).unwrap();
        own["sidecar"].clone()
    };
    assert_eq!(
        ["db-0", "db-1", "db-2", "web-0"].map(sidecar),
        ["here", "compatible", "missing", "notRunning"].map(|word| json!(word))
    );
}

#[tokio::test]
async fn a_port_forward_that_fails_says_at_which_step() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = namespace(cluster).await;
    let target = format!("{ns}/web-0:8080");
    let watch = ["watch", "--once", "--controller-namespace", &ns, &target];
    let error = || async { portcullis(cluster.kubeconfig(), &watch).await.err };
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: policy-controller-0, namespace: {ns}, \
         labels: {{app.kubernetes.io/component: policy-controller}}}}\n\
         spec: {{containers: [{{name: c, image: c, args: [run]}}]}}\n"
    );
    cluster.apply(&pod).await.unwrap();
    assert!(error().await.contains("the roots of the mesh are not known"), "{}", error().await);
    let root = rcgen::generate_simple_self_signed(["root".to_owned()]).unwrap().cert.pem();
    let bundle = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"ca-bundle.crt": root},
        "metadata": {"name": "linkerd-identity-trust-roots", "namespace": ns},
    });
    cluster.apply(&bundle.to_string()).await.unwrap();
    // Our issuer's come first, even where they are of no use.
    let ours = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "portcullis-identity-trust-roots", "namespace": ns},
    });
    cluster.apply(&ours.to_string()).await.unwrap();
    let empty = format!("ConfigMap {ns}/portcullis-identity-trust-roots has no `ca-bundle.crt`");
    assert!(error().await.contains(&empty), "{}", error().await);
    cluster.delete(&ours.to_string()).await.unwrap();
    let missing = format!("there is no ServiceAccount {ns}/portcullis-viewer");
    assert!(error().await.contains(&missing), "{}", error().await);
    let viewer = format!(
        "apiVersion: v1\nkind: ServiceAccount\n\
         metadata: {{name: portcullis-viewer, namespace: {ns}}}\n"
    );
    cluster.apply(&viewer).await.unwrap();
    // No node runs the pod, so that there is nothing to forward to: everything before that works.
    let said = error().await;
    let step = format!("cannot connect to controller {ns}/policy-controller-0, port 8090");
    assert!(said.contains(&step) && said.contains("port-forward: "), "{said}");
}
