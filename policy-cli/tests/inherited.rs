//! Every annotation that Linkerd's injector copies from a Namespace to its pods, and its effect
//! here: on a Namespace it has the effect that it has on the pod, or a warning says that it has
//! none. Runs the built program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use policy_crds::{annotation, document};
use policy_webhooks::injector::Setting;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// Effect of an annotation of a Namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// The controller reads it live: the policies are those of a pod that states it.
    Inherited,
    /// Our injector reads it: the pod becomes what it becomes if it states it.
    Injected,
    /// Both: it is injected and a policy too.
    Both,
    /// No pod is created, because of this.
    Refused(&'static str),
    /// No sidecar is injected.
    Skipped,
    /// It has no meaning here, and `inject` and `check` report that.
    Ignored,
}

use Becomes::{Both, Ignored, Inherited, Injected, Refused, Skipped};

/// Linkerd's annotations, with a value that is not the usual one.
const TABLE: [(&str, &str, Becomes); 65] = [
    ("config.linkerd.io/default-inbound-policy", "deny", Inherited),
    ("config.linkerd.io/proxy-require-identity-inbound-ports", "http,9000", Inherited),
    ("config.linkerd.io/opaque-ports", "http", Both),
    ("portcullis.dev/inject", "disabled", Skipped),
    ("portcullis.dev/inject", "ingress", Refused("`ingress` is not supported")),
    ("config.linkerd.io/access-log", "json", Injected),
    ("config.linkerd.io/image-pull-policy", "Always", Injected),
    ("config.linkerd.io/proxy-admin-shutdown", "enabled", Injected),
    ("config.linkerd.io/proxy-cpu-limit", "2", Injected),
    ("config.linkerd.io/proxy-cpu-request", "20m", Injected),
    ("config.linkerd.io/proxy-ephemeral-storage-limit", "2Gi", Injected),
    ("config.linkerd.io/proxy-ephemeral-storage-request", "1Gi", Injected),
    ("config.linkerd.io/proxy-log-format", "json", Injected),
    ("config.linkerd.io/proxy-log-level", "debug", Injected),
    ("config.linkerd.io/proxy-memory-limit", "64Mi", Injected),
    ("config.linkerd.io/proxy-memory-request", "32Mi", Injected),
    ("config.linkerd.io/shutdown-grace-period", "5s", Injected),
    ("config.linkerd.io/skip-inbound-ports", "http,25", Both),
    // What cannot be read is refused, on the Namespace as on the pod.
    ("config.linkerd.io/skip-inbound-ports", "70000", Refused("`70000`")),
    ("config.linkerd.io/opaque-ports", "9-8", Refused("`9-8`")),
    ("config.linkerd.io/proxy-cpu-limit", "much", Refused("expected a quantity")),
    ("config.linkerd.io/access-log", "yes", Refused("expected one of")),
    ("config.linkerd.io/shutdown-grace-period", "1m30s", Refused("expected a whole number")),
    // Of our own sidecar the image, the ports, the user and the privileges are ours to choose.
    ("config.linkerd.io/admin-port", "8080", Ignored),
    ("config.linkerd.io/control-port", "4190", Ignored),
    ("config.linkerd.io/inbound-port", "4140", Ignored),
    ("config.linkerd.io/outbound-port", "4141", Ignored),
    ("config.linkerd.io/pod-inbound-ports", "8080", Ignored),
    ("config.linkerd.io/init-image", "a/init", Ignored),
    ("config.linkerd.io/init-image-version", "v2", Ignored),
    ("config.linkerd.io/proxy-image", "a/proxy", Ignored),
    ("config.linkerd.io/proxy-version", "v2", Ignored),
    ("config.linkerd.io/proxy-uid", "2103", Ignored),
    ("config.linkerd.io/proxy-gid", "2103", Ignored),
    ("config.linkerd.io/proxy-additional-env", "[]", Ignored),
    ("config.linkerd.io/proxy-cpu-ratio-limit", "0.5", Ignored),
    ("config.linkerd.io/proxy-enable-native-sidecar", "false", Ignored),
    ("config.alpha.linkerd.io/proxy-enable-native-sidecar", "false", Ignored),
    ("config.beta.linkerd.io/proxy-enable-native-sidecar", "false", Ignored),
    ("config.alpha.linkerd.io/proxy-wait-before-exit-seconds", "5", Ignored),
    ("config.linkerd.io/proxy-await", "disabled", Ignored),
    ("config.linkerd.io/close-wait-timeout", "1m", Ignored),
    // Connections to the application, and how its protocol is found out.
    ("config.linkerd.io/proxy-inbound-connect-timeout", "200ms", Ignored),
    ("config.linkerd.io/proxy-inbound-discovery-cache-unused-timeout", "60s", Ignored),
    ("config.linkerd.io/proxy-disable-inbound-protocol-detect-timeout", "true", Ignored),
    ("config.linkerd.io/enable-gateway", "true", Ignored),
    // More is redirected than there: nothing is open that was closed.
    ("config.linkerd.io/skip-subnets", "172.17.0.0/16", Ignored),
    ("config.linkerd.io/skip-outbound-ports", "3306", Injected),
    // Port names are those of a pod's own ports.
    ("config.linkerd.io/skip-outbound-ports", "mysql", Refused("`mysql` is a name")),
    // There is no protocol on the outbound side, no debug container, no tap and no tracing.
    ("config.linkerd.io/proxy-outbound-connect-timeout", "2s", Ignored),
    ("config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout", "60s", Ignored),
    ("config.linkerd.io/proxy-disable-outbound-protocol-detect-timeout", "true", Ignored),
    ("config.linkerd.io/enable-external-profiles", "true", Ignored),
    ("config.linkerd.io/proxy-destination-get-networks", "10.0.0.0/8", Ignored),
    ("config.linkerd.io/proxy-log-http-headers", "insecure", Ignored),
    ("config.linkerd.io/debug-image", "a/debug", Ignored),
    ("config.linkerd.io/debug-image-pull-policy", "Always", Ignored),
    ("config.linkerd.io/debug-image-version", "v2", Ignored),
    ("config.linkerd.io/enable-debug-sidecar", "true", Ignored),
    ("config.linkerd.io/disable-tap", "true", Ignored),
    ("config.linkerd.io/trace-collector", "collector:55678", Ignored),
    ("config.alpha.linkerd.io/trace-collector-service-account", "collector", Ignored),
    // An identity is never switched off.
    ("config.linkerd.io/disable-identity", "true", Ignored),
    // Nor is what Linkerd will invent next left aside in silence.
    ("config.linkerd.io/not-invented-yet", "true", Ignored),
    ("config.beta.linkerd.io/not-invented-yet", "true", Ignored),
];

/// Object that carries an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Nowhere,
    OnTheNamespace,
    OnThePod,
}

use Stands::{Nowhere, OnTheNamespace, OnThePod};

fn manifests(stands: Stands, (name, value): (&str, &str)) -> String {
    let annotations = |of: Stands, others: Value| {
        let mut annotations = others.as_object().unwrap().clone();
        if of == stands {
            annotations.insert(name.to_owned(), value.into());
        }
        Value::Object(annotations)
    };
    let asks = if name == "portcullis.dev/inject" {
        json!({})
    } else {
        json!({"portcullis.dev/inject": "enabled"})
    };
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "shop", "annotations": annotations(OnTheNamespace, asks)},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "shop", "annotations": annotations(OnThePod, json!({})),
        },
        "spec": {"containers": [{"name": "web", "image": "web", "ports": [
            {"name": "http", "containerPort": 8080}, {"name": "more", "containerPort": 7070},
        ]}]},
    });
    format!("{namespace}\n---\n{pod}\n")
}

/// Runs the program: exit code, standard output, standard error.
fn portcullis(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(arguments).env_remove("KUBECONFIG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may exit before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Result of injecting and checking manifests.
struct Outcome {
    /// True if anything was written.
    written: bool,
    /// The pod, without Linkerd's annotations.
    pod: Value,
    /// Effective authorization of its ports.
    policies: Value,
    /// Notes of `inject`.
    told: String,
    /// Findings of `check` for the manifests.
    checked: String,
}

fn outcome(stands: Stands, annotation: (&str, &str)) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let stated = manifests(stands, annotation);
    std::fs::write(folder.path().join("all.yaml"), &stated).unwrap();
    let (_, checked, _) = portcullis(&["check", path], "");
    let (code, yaml, told) = portcullis(&["inject", "--set", "outbound=enabled", "-"], &stated);
    let mut outcome =
        Outcome { written: code == 0, pod: Value::Null, policies: Value::Null, told, checked };
    if !outcome.written {
        return outcome;
    }
    let documents = document::read(&yaml).into_iter().map(|document| document.value.unwrap());
    outcome.pod = documents.into_iter().find(|document| document["kind"] == "Pod").unwrap();
    if let Some(Value::Object(annotations)) = outcome.pod.pointer_mut("/metadata/annotations") {
        annotations.remove(annotation.0);
        // How the pod was written before differs.
        annotations.remove("portcullis.dev/uninject");
    }
    std::fs::write(folder.path().join("all.yaml"), &yaml).unwrap();
    let (_, policies, _) = portcullis(&["authz", "-o", "json", "-f", path, "pod/web"], "");
    outcome.policies =
        serde_json::from_str::<Map<String, Value>>(&policies).unwrap()["workloads"].clone();
    without_reasons(&mut outcome.policies);
    outcome
}

/// Leaves out the reasons why no sidecar guards something, which name the object that says so.
fn without_reasons(policies: &mut Value) {
    match policies {
        Value::Array(items) => items.iter_mut().for_each(without_reasons),
        Value::Object(fields) => {
            if let Some(reason) = fields.get_mut("unguarded") {
                *reason = Value::Bool(!reason.is_null());
            }
            fields.values_mut().for_each(without_reasons);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn an_annotation_of_a_namespace_does_what_it_does_on_the_pod_or_says_that_it_does_nothing() {
    for (name, value, becomes) in TABLE {
        let annotation = (name, value);
        let none = outcome(Nowhere, annotation);
        let [namespace, pod] = [OnTheNamespace, OnThePod].map(|on| outcome(on, annotation));
        assert_eq!(namespace.written, pod.written, "{name}: {}", namespace.told);
        assert_eq!(namespace.pod, pod.pod, "{name}={value}: the pod differs");
        assert_eq!(namespace.policies, pod.policies, "{name}={value}: the policies differ");
        let changes = (namespace.pod != none.pod, namespace.policies != none.policies);
        let expected = match becomes {
            Inherited => (false, true),
            Injected => (true, false),
            // The sidecar's own port is among those of the pod that has one.
            Skipped => (true, changes.1),
            Both => (true, true),
            Refused(_) => (true, true),
            Ignored => (false, false),
        };
        assert_eq!(changes, expected, "{name}={value}: it changes (the pod, its policies)");
        let field = annotation::field(name);
        match becomes {
            Inherited | Injected | Both => {
                assert_eq!(namespace.told, "Pod shop/web: injected\n", "{name}");
                assert!(!namespace.checked.contains(&field), "{name}: {}", namespace.checked);
            }
            Skipped => {
                let told = "Pod shop/web: not injected: namespace shop says `disabled`\n";
                assert_eq!(namespace.told, told, "{name}");
            }
            Refused(why) => {
                let says = namespace.told.contains(&format!("Namespace shop: {field}: "));
                assert!(says && namespace.told.contains(why), "{name}: {}", namespace.told);
            }
            Ignored => {
                let words = format!("Namespace shop: {field}: has no effect on this sidecar");
                assert!(namespace.told.contains(&words), "{name}: {}", namespace.told);
                let words = format!("{field}: has no effect on this sidecar");
                assert!(pod.told.contains(&words), "{name}: {}", pod.told);
                let words = "has no effect on the sidecars of Portcullis";
                let checked =
                    namespace.checked.contains(&field) && namespace.checked.contains(words);
                assert!(checked, "{name}: {}", namespace.checked);
            }
        }
    }
}

/// Fails if an annotation that has a meaning here has no row: its effect on a Namespace would be
/// untested.
#[test]
fn every_annotation_of_linkerd_that_is_read_has_a_row() {
    let rows: BTreeSet<String> = TABLE.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let settings = Setting::ALL.into_iter().flat_map(Setting::annotations);
    let policy = [
        annotation::DEFAULT_INBOUND_POLICY,
        annotation::OPAQUE_PORTS,
        annotation::REQUIRE_IDENTITY,
        annotation::ADMIN_PORT,
    ];
    let read = settings.chain(policy.map(str::to_owned));
    let without: Vec<String> = read
        .filter(|name| name.starts_with("config.linkerd.io/") && !rows.contains(name))
        .collect();
    assert_eq!(without, Vec::<String>::new());
}

#[test]
fn a_namespace_that_asks_for_no_sidecar_is_reported_nothing_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    for (annotations, told) in [
        ("linkerd.io/inject: disabled", false),
        ("portcullis.dev/inject: disabled", false),
        // Which injector will read it is not known.
        ("linkerd.io/inject: enabled", true),
        ("portcullis.dev/inject: enabled", true),
    ] {
        let namespace = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  annotations:\n    \
             {annotations}\n    config.linkerd.io/proxy-await: enabled\n"
        );
        std::fs::write(folder.path().join("a.yaml"), namespace).unwrap();
        let (_, checked, _) = portcullis(&["check", folder.path().to_str().unwrap()], "");
        assert_eq!(checked.contains("proxy-await"), told, "{annotations}: {checked}");
    }
}

#[test]
fn check_says_what_is_wrong_with_the_list_of_a_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  annotations:\n    \
                     config.linkerd.io/proxy-require-identity-inbound-ports: \"metrics,8o80\"\n";
    std::fs::write(folder.path().join("a.yaml"), namespace).unwrap();
    let (code, checked, _) = portcullis(&["check", folder.path().to_str().unwrap()], "");
    assert_eq!(code, 1, "{checked}");
    let words = "`8o80` is neither a port from 1 to 65535, nor a range of them, nor the name of a \
                 port, every port requires an identity until it is corrected";
    assert!(checked.contains(words) && !checked.contains("`metrics`"), "{checked}");
    // A name may be mistyped too, which the workloads tell.
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec: {containers: \
               [{name: a, ports: [{name: metrics, containerPort: 9091}]}]}\n";
    for (list, told) in [("metrics", false), ("metrisc", true), ("9091,9o91", false)] {
        let namespace = namespace.replace("metrics,8o80", list);
        std::fs::write(folder.path().join("a.yaml"), format!("{namespace}---\n{pod}")).unwrap();
        let (_, checked, _) = portcullis(&["check", folder.path().to_str().unwrap()], "");
        let words = "is the name of no port of a workload here; did you mean `metrics`?";
        assert_eq!(checked.contains(words), told, "{list}: {checked}");
    }
}
