//! Pods that are not injected, and pods that are refused.

use super::{asks, injected, refused, settings, shop, skipped, value};
use crate::injector::{
    ENFORCE_LABEL, MissingSidecar, PodFacts, Settings, SkipReason, Trust, missing_sidecar,
};
use serde_json::{Value, json};

fn pod(metadata: &str, spec: &str) -> Value {
    value(&format!("metadata: {metadata}\nspec: {spec}\n"))
}

pub(super) fn plain(annotations: &str) -> Value {
    pod(&format!("{{name: web, annotations: {annotations}}}"), "{containers: [{name: web}]}")
}

pub(super) fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn who_does_not_ask_gets_none_and_is_told_nothing() {
    assert_eq!(skipped(&plain("{}"), &shop("{}")), (SkipReason::NotRequested, none()));
    let off = plain("{portcullis.dev/inject: disabled}");
    assert_eq!(skipped(&off, &asks()), (SkipReason::DisabledByPod, none()));
    let no = SkipReason::DisabledByNamespace("shop".to_owned());
    assert_eq!(skipped(&plain("{}"), &shop("{linkerd.io/inject: disabled}")), (no, none()));
}

/// An affinity with two terms that require these operating systems.
fn nodes(one: &str, other: &str) -> String {
    let term = |os: &str| {
        format!("{{matchExpressions: [{{key: kubernetes.io/os, operator: In, values: [{os}]}}]}}")
    };
    format!(
        "{{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{}, {}]}}}}}}",
        term(one),
        term(other)
    )
}

#[test]
fn what_cannot_have_a_sidecar_is_left_as_it_is_with_a_warning() {
    let container = "containers: [{name: web}]";
    for (spec, reason, words) in [
        (
            format!("{{{container}, hostNetwork: true}}"),
            SkipReason::HostNetwork,
            "the pod has hostNetwork: true; its connections cannot be distinguished from its node's",
        ),
        (
            format!("{{{container}, os: {{name: windows}}}}"),
            SkipReason::Windows,
            "the pod's os is windows, the sidecar runs on Linux",
        ),
        (
            format!("{{{container}, affinity: {}}}", nodes("windows", "windows")),
            SkipReason::Windows,
            "the pod's os is windows, the sidecar runs on Linux",
        ),
        (
            "{containers: [{name: web}, {name: linkerd-proxy}]}".to_owned(),
            SkipReason::OtherMesh("linkerd-proxy"),
            "the pod has the sidecar of another mesh, container `linkerd-proxy`",
        ),
        (
            format!("{{{container}, initContainers: [{{name: istio-proxy}}]}}"),
            SkipReason::OtherMesh("istio-proxy"),
            "the pod has the sidecar of another mesh, container `istio-proxy`",
        ),
    ] {
        let warning = format!("no sidecar was injected: {words}");
        assert_eq!(skipped(&pod("{name: web}", &spec), &asks()), (reason, vec![warning]), "{spec}");
    }
    // It may run on Linux.
    let either =
        pod("{name: web}", &format!("{{{container}, affinity: {}}}", nodes("windows", "linux")));
    injected(&either, &asks(), &settings(true));
    let mirror = plain("{kubernetes.io/config.mirror: x}");
    assert_eq!(skipped(&mirror, &asks()).0, SkipReason::Static);
}

#[test]
fn a_level_of_pod_security_that_refuses_sidecars_is_warned_of() {
    let warnings = |level: &str| {
        let mut around = asks();
        around.labels.insert(ENFORCE_LABEL.to_owned(), level.to_owned());
        injected(&plain("{}"), &around, &settings(true)).1
    };
    for level in ["baseline", "restricted"] {
        let expected = format!(
            "namespace shop enforces Pod Security `{level}`, which refuses every injected pod: its init \
             container needs NET_ADMIN and NET_RAW; `pod-security.kubernetes.io/enforce: privileged` admits \
             it"
        );
        assert_eq!(warnings(level), [expected]);
    }
    assert_eq!(warnings("privileged"), none());
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
        assert_eq!(skipped(&broken, &asks()).0, SkipReason::Unreadable, "{broken}");
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
        assert_eq!(skipped(&borrowed, &shop("{}")), (SkipReason::NotRequested, none()));
    }
}

#[test]
fn two_containers_that_borrow_the_names_of_the_sidecar_are_not_taken_for_one() {
    let mut fake = json!({"metadata": {"annotations": {"portcullis.dev/proxy-version": "1"}},
        "spec": {"initContainers": [{"name": "portcullis-init", "args": ["redirect"]}],
                 "containers": [{"name": "web"}, {"name": "portcullis-proxy", "args": ["run"]}]},
        "status": {"phase": "Running"}});
    let words = refused(&fake, &asks());
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[0].starts_with("spec.initContainers[0].name: `portcullis-init` is the name"));
    let lacks = |pod: &Value| missing_sidecar(&PodFacts::of(pod), &asks(), "portcullis");
    assert_eq!(lacks(&fake), Some(MissingSidecar::ByNamespace));
    // An injected pod is recognized, with a native sidecar and without.
    for native in [true, false] {
        fake["spec"] = json!({"containers": [{"name": "web"}]});
        let (mut pod, _) = super::injected(&fake, &asks(), &super::settings(native));
        assert!(matches!(skipped(&pod, &asks()).0, SkipReason::AlreadyInjected { .. }));
        assert_eq!(lacks(&pod), None);
        // Another command than the image's runs another program.
        let list = if native { "initContainers" } else { "containers" };
        let at = usize::from(native);
        pod["spec"][list][at]["command"] = json!(["sleep"]);
        assert_eq!(lacks(&pod), Some(MissingSidecar::ByNamespace));
        let words = refused(&pod, &asks());
        assert!(
            words.iter().any(|one| one.contains("`portcullis-proxy` is the name")),
            "{words:?}"
        );
    }
}

#[test]
fn an_annotation_of_a_later_version_does_not_keep_pods_from_starting() {
    let later = plain("{portcullis.dev/proxy-of-next-year: many}");
    let (_, warnings) = super::injected(&later, &asks(), &super::settings(true));
    assert!(warnings[0].contains("has no effect: this version ("), "{warnings:?}");
    let context = shop("{portcullis.dev/inject: enabled, portcullis.dev/proxy-of-next-year: many}");
    let (_, warnings) = super::injected(&plain("{}"), &context, &super::settings(true));
    assert!(warnings[0].starts_with("Namespace shop: metadata.annotations"), "{warnings:?}");
    // A known name with a value of a later version is different, because its setting would not take
    // effect.
    let value = plain("{portcullis.dev/access-log: of-next-year}");
    assert_eq!(refused(&value, &asks()).len(), 1);
}

#[test]
fn whoever_wants_no_sidecar_gets_the_pod_whatever_else_is_mistyped() {
    let off = plain("{portcullis.dev/inject: disabled, portcullis.dev/proxy-loglevel: info}");
    let (reason, warnings) = skipped(&off, &asks());
    assert_eq!(reason, SkipReason::DisabledByPod);
    assert!(warnings[0].contains("did you mean `portcullis.dev/proxy-log-level`?"), "{warnings:?}");
}

#[test]
fn every_setting_that_is_advised_reaches_the_sidecar() {
    let pod = plain(
        "{portcullis.dev/maximum-policy-age: 1h, portcullis.dev/pending-policy: default, \
          portcullis.dev/pending-default-policy: deny, portcullis.dev/max-connections: '100', \
          portcullis.dev/idle-timeout: 5m, portcullis.dev/proxy-admin-log-level: enabled}",
    );
    let (pod, _) = super::injected(&pod, &asks(), &super::settings(true));
    let env = pod["spec"]["initContainers"][1]["env"].as_array().unwrap().clone();
    for (name, value) in [
        ("MAXIMUM_POLICY_AGE", "1h"),
        ("PENDING_POLICY", "default"),
        ("DEFAULT_POLICY", "deny"),
        ("MAX_CONNECTIONS", "100"),
        ("IDLE_TIMEOUT", "5m"),
        ("ADMIN_LOG_LEVEL", "true"),
    ] {
        let wanted = json!({"name": format!("PORTCULLIS_{name}"), "value": value});
        assert!(env.contains(&wanted), "{name}");
    }
    let alone = plain("{portcullis.dev/pending-policy: default}");
    assert_eq!(
        refused(&alone, &asks()),
        ["metadata.annotations[\"portcullis.dev/pending-policy\"]: `default` needs \
          pending-default-policy, which says which one"]
    );
}

#[test]
fn roots_that_sidecars_begin_with_are_in_the_pod_where_nobody_can_change_them() {
    let env = |trust: Trust| {
        let settings = Settings { trust, ..super::settings(true) };
        let (pod, _) = super::injected(&plain("{}"), &asks(), &settings);
        let mounts = pod["spec"]["volumes"].as_array().unwrap().len();
        let env = pod["spec"]["initContainers"][1]["env"].as_array().unwrap().clone();
        let roots = |env: &Value| {
            let name = env["name"].as_str().unwrap().strip_prefix("PORTCULLIS_IDENTITY_")?;
            ["ROOTS", "ANCHORS", "SIGNED_ROOTS"].contains(&name).then(|| env.clone())
        };
        (env.iter().filter_map(roots).collect::<Vec<_>>(), mounts)
    };
    let folder = "/var/run/portcullis/roots";
    let plain = |name: &str, value: &str| json!({"name": format!("PORTCULLIS_IDENTITY_{name}"), "value": value});
    let file = plain("ROOTS", &format!("{folder}/ca-bundle.crt"));
    assert_eq!(env(Trust::ConfigMap), (vec![file], 3));
    let signed = plain("SIGNED_ROOTS", &format!("{folder}/ca-bundle.signed"));
    assert_eq!(env(Trust::Followed("PEM".to_owned())), (vec![plain("ANCHORS", "PEM"), signed], 3));
    assert_eq!(env(Trust::Fixed("PEM".to_owned())), (vec![plain("ANCHORS", "PEM")], 2));
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
    let context = shop("{linkerd.io/inject: enabled, portcullis.dev/default-alow: deny}");
    let words = "Namespace shop: metadata.annotations[\"portcullis.dev/default-alow\"]: there is \
                 no such annotation; did you mean `portcullis.dev/default-allow`?";
    assert_eq!(refused(&plain("{}"), &context), [words]);
    let off = plain("{portcullis.dev/inject: disabled}");
    assert_eq!(skipped(&off, &context), (SkipReason::DisabledByPod, none()));
}

#[test]
fn values_that_are_not_allowed_are_refused_all_at_once_with_where_they_stand() {
    let wrong = plain(
        "{config.linkerd.io/skip-inbound-ports: '80,smtp', portcullis.dev/proxy-workers: '0'}",
    );
    let context = shop("{linkerd.io/inject: enabled, config.linkerd.io/proxy-cpu-limit: lots}");
    assert_eq!(
        refused(&wrong, &context),
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
    let context =
        shop("{linkerd.io/inject: enabled, config.linkerd.io/skip-inbound-ports: '25,smtp'}");
    let (pod, _) = super::injected(&plain("{}"), &context, &super::settings(true));
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
