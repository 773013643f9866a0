//! What is left as it is, and what is refused.

use super::{asks, refused, shop, skipped, value};
use crate::injector::Skip;
use serde_json::{Value, json};

fn pod(metadata: &str, spec: &str) -> Value {
    value(&format!("metadata: {metadata}\nspec: {spec}\n"))
}

fn plain(annotations: &str) -> Value {
    pod(&format!("{{name: web, annotations: {annotations}}}"), "{containers: [{name: web}]}")
}

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn who_does_not_ask_gets_none_and_is_told_nothing() {
    assert_eq!(skipped(&plain("{}"), &shop("{}")), (Skip::NotAsked, none()));
    let off = plain("{portcullis.dev/inject: disabled}");
    assert_eq!(skipped(&off, &asks()), (Skip::DisabledByPod, none()));
    let no = Skip::DisabledByNamespace("shop".to_owned());
    assert_eq!(skipped(&plain("{}"), &shop("{linkerd.io/inject: disabled}")), (no, none()));
}

#[test]
fn what_cannot_have_a_sidecar_is_left_as_it_is_with_a_warning() {
    let container = "containers: [{name: web}]";
    for (spec, reason, words) in [
        (
            format!("{{{container}, hostNetwork: true}}"),
            Skip::HostNetwork,
            "the pod has hostNetwork: true; its connections cannot be told from its node's",
        ),
        (
            format!("{{{container}, os: {{name: windows}}}}"),
            Skip::Windows,
            "the pod's os is windows, the sidecar runs on Linux",
        ),
        (
            "{containers: [{name: web}, {name: linkerd-proxy}]}".to_owned(),
            Skip::Theirs("linkerd-proxy"),
            "the pod has the sidecar of another mesh, container `linkerd-proxy`",
        ),
        (
            format!("{{{container}, initContainers: [{{name: istio-proxy}}]}}"),
            Skip::Theirs("istio-proxy"),
            "the pod has the sidecar of another mesh, container `istio-proxy`",
        ),
        (
            "{initContainers: [{name: portcullis-init}], \
              containers: [{name: web}, {name: portcullis-proxy, env: []}]}"
                .to_owned(),
            Skip::Ours { version: None },
            "the pod has a sidecar already",
        ),
    ] {
        let warning = format!("no sidecar was injected: {words}");
        assert_eq!(skipped(&pod("{name: web}", &spec), &asks()), (reason, vec![warning]), "{spec}");
    }
    let mirror = plain("{kubernetes.io/config.mirror: x}");
    assert_eq!(skipped(&mirror, &asks()).0, Skip::Static);
}

#[test]
fn what_is_no_pod_is_left_to_the_api_server() {
    for broken in [
        json!(null),
        json!({}),
        json!({"spec": {}}),
        json!({"spec": {"containers": []}}),
        json!({"spec": {"containers": {"name": "web"}}}),
        json!({"spec": {"containers": [1]}}),
        json!({"spec": {"containers": [{"name": "web"}], "initContainers": "none"}}),
        json!({"metadata": 1, "spec": {"containers": [{"name": "web"}]}}),
    ] {
        assert_eq!(skipped(&broken, &asks()).0, Skip::Unreadable, "{broken}");
    }
}

#[test]
fn a_label_alone_is_no_sidecar() {
    let marked =
        pod("{name: web, labels: {portcullis.dev/proxy: injected}}", "{containers: [{name: web}]}");
    let (pod, _) = super::injected(&marked, &asks(), &super::settings(true));
    assert_eq!(pod["spec"]["initContainers"][1]["name"], "portcullis-proxy");
}

#[test]
fn a_container_that_borrows_the_name_of_the_sidecar_is_refused_rather_than_taken_for_one() {
    for list in ["containers", "initContainers"] {
        let mut borrowed = json!({"spec": {"containers": [{"name": "web"}]}});
        borrowed["spec"][list] = json!([{"name": "portcullis-proxy", "image": "web"}]);
        let words = format!(
            "spec.{list}[0].name: `portcullis-proxy` is the name of a container that is injected"
        );
        assert_eq!(refused(&borrowed, &asks()), [words]);
        assert_eq!(skipped(&borrowed, &shop("{}")), (Skip::NotAsked, none()));
    }
}

#[test]
fn a_mistyped_annotation_is_refused_whether_or_not_the_pod_asks() {
    let mistyped = plain("{portcullis.dev/injcet: enabled}");
    let words = "metadata.annotations[\"portcullis.dev/injcet\"]: there is no such annotation; did \
                 you mean `portcullis.dev/inject`?";
    assert_eq!(refused(&mistyped, &shop("{}")), [words]);
    assert_eq!(refused(&mistyped, &asks()), [words]);
}

#[test]
fn a_mistyped_annotation_of_the_namespace_is_refused_where_a_pod_is_to_have_a_sidecar() {
    let around = shop("{linkerd.io/inject: enabled, portcullis.dev/default-alow: deny}");
    let words = "Namespace shop: metadata.annotations[\"portcullis.dev/default-alow\"]: there is \
                 no such annotation; did you mean `portcullis.dev/default-allow`?";
    assert_eq!(refused(&plain("{}"), &around), [words]);
    let off = plain("{portcullis.dev/inject: disabled}");
    assert_eq!(skipped(&off, &around), (Skip::DisabledByPod, none()));
}

#[test]
fn values_that_are_not_allowed_are_refused_all_at_once_with_where_they_stand() {
    let wrong = plain(
        "{config.linkerd.io/skip-inbound-ports: '80,smtp', portcullis.dev/proxy-workers: '0'}",
    );
    let around = shop("{linkerd.io/inject: enabled, config.linkerd.io/proxy-cpu-limit: lots}");
    assert_eq!(
        refused(&wrong, &around),
        [
            "Namespace shop: metadata.annotations[\"config.linkerd.io/proxy-cpu-limit\"]: `lots` is \
             not allowed; expected a quantity such as `100m` or `64Mi`",
            "metadata.annotations[\"config.linkerd.io/skip-inbound-ports\"]: `smtp` is not the name \
             of a TCP port of this pod",
            "metadata.annotations[\"portcullis.dev/proxy-workers\"]: `0` is not allowed; expected a \
             number from 1 to 64",
        ]
    );
}

#[test]
fn a_namespace_may_name_ports_that_only_other_pods_have() {
    let around =
        shop("{linkerd.io/inject: enabled, config.linkerd.io/skip-inbound-ports: '25,smtp'}");
    let (pod, _) = super::injected(&plain("{}"), &around, &super::settings(true));
    let arguments = pod["spec"]["initContainers"][0]["args"].as_array().unwrap();
    assert_eq!(arguments.last().unwrap(), "--skip-inbound-ports=25");
}

#[test]
fn both_names_of_a_setting_may_not_differ() {
    let both =
        plain("{config.linkerd.io/proxy-log-level: info, portcullis.dev/proxy-log-level: warn}");
    assert_eq!(
        refused(&both, &asks()),
        ["metadata.annotations[\"config.linkerd.io/proxy-log-level\"]: `info` differs from \
          `portcullis.dev/proxy-log-level` on the same object: give one of them, or both the same value"]
    );
}

#[test]
fn what_the_sidecar_would_clash_with_is_refused_by_its_field() {
    let clashes = pod(
        "{name: web}",
        "{securityContext: {runAsUser: 2102}, initContainers: [{name: portcullis-init}], \
          containers: [{name: web, securityContext: {runAsUser: 2102}, ports: [{containerPort: 4191}]}], \
          volumes: [{name: portcullis-trust-roots, emptyDir: {}}]}",
    );
    let user = "`2102` is the user of the sidecar, whose traffic is not redirected; give the \
                application another one";
    assert_eq!(
        refused(&clashes, &asks()),
        [
            format!("spec.securityContext.runAsUser: {user}"),
            format!("spec.containers[0].securityContext.runAsUser: {user}"),
            "spec.initContainers[0].name: `portcullis-init` is the name of a container that is \
             injected"
                .to_owned(),
            "spec.containers[0].ports: port `4191` is one of the sidecar's own (4143 and 4191); give \
             the application another one"
                .to_owned(),
            "spec.volumes[0].name: `portcullis-trust-roots` is the name of a volume that is injected"
                .to_owned(),
        ]
    );
}

#[test]
fn a_job_on_an_old_api_server_is_told_what_ends_its_sidecar() {
    let owner = json!([{"kind": "Job", "name": "once"}]);
    let mut job = plain("{}");
    job["metadata"]["ownerReferences"] = owner;
    let warnings = |native| super::injected(&job, &asks(), &super::settings(native)).1;
    assert_eq!(warnings(true), none());
    assert_eq!(warnings(false).len(), 1);
}
