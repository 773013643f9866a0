//! `portcullis inject` as people run it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {annotations: {portcullis.dev/inject: enabled}}
    spec: {containers: [{name: web, image: example.com/web, ports: [{containerPort: 80}]}]}
";

fn inject(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.arg("inject").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may exit before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn standard_input_is_injected_and_a_second_time_changes_nothing() {
    let (code, once, told) = texts(&inject(&["-"], DEPLOYMENT));
    assert_eq!((code, told.as_str()), (Some(0), "Deployment shop/web: injected\n"));
    assert!(once.contains("image: \"ghcr.io/portcullis/proxy:0.1.0\""), "{once}");
    let (code, twice, told) = texts(&inject(&["-"], &once));
    assert_eq!((code, &twice), (Some(0), &once));
    let why =
        "Deployment shop/web: not injected: the pod has a sidecar already, of version 0.1.0\n";
    assert_eq!(told, why);
}

#[test]
fn files_are_injected_with_the_settings_that_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.yaml");
    std::fs::write(&path, DEPLOYMENT).unwrap();
    let file = path.to_str().unwrap();
    let (code, yaml, _) = texts(&inject(&["--set", "proxy-version=v9", file], ""));
    assert_eq!(code, Some(0));
    assert!(yaml.contains("image: \"ghcr.io/portcullis/proxy:v9\""), "{yaml}");
    let (code, out, told) = texts(&inject(&["--set", "proxy-versoin=v9", file], ""));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(told.contains("did you mean `proxy-version`?"), "{told}");
    let (code, out, told) = texts(&inject(&["absent.yaml"], ""));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(told.contains("cannot read `absent.yaml`"), "{told}");
}

#[test]
fn where_something_is_refused_nothing_is_written() {
    let wrong =
        DEPLOYMENT.replace("portcullis.dev/inject: enabled", "portcullis.dev/inejct: enabled");
    let input = format!("{DEPLOYMENT}---\n{wrong}");
    let (code, out, told) = texts(&inject(&["-"], &input));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let words = "Deployment shop/web: metadata.annotations[\"portcullis.dev/inejct\"]: there is no \
                 such annotation; did you mean `portcullis.dev/inject`?";
    assert!(told.contains(words), "{told}");
    assert_eq!(texts(&inject(&[], DEPLOYMENT)).0, Some(2), "standard input is read if asked for");
}

#[test]
fn the_outbound_half_is_added_where_it_is_asked_for() {
    let (_, plain, _) = texts(&inject(&["-"], DEPLOYMENT));
    assert!(!plain.contains("OUTBOUND") && !plain.contains("--outbound"), "{plain}");
    assert!(plain.contains(r#"\"outbound\":\"none\""#), "{plain}");
    let (code, once, told) = texts(&inject(&["--set", "outbound=enabled", "-"], DEPLOYMENT));
    assert_eq!((code, told.as_str()), (Some(0), "Deployment shop/web: injected\n"));
    let identity = "default.shop.serviceaccount.identity.portcullis.cluster.local";
    for part in [
        "--outbound-port=4140",
        "name: PORTCULLIS_OUTBOUND_MODE",
        r#"\"outbound\":\"on\""#,
        &format!(r#"\"identity\":\"{identity}\""#),
    ] {
        assert!(once.contains(part), "{part} is not in {once}");
    }
    // What is there already stays, whatever the default of another run.
    let (code, twice, _) = texts(&inject(&["-"], &once));
    assert_eq!((code, twice), (Some(0), once));
    let anywhere = DEPLOYMENT.replace(", namespace: shop", "");
    let (_, anywhere, _) = texts(&inject(&["-"], &anywhere));
    assert!(!anywhere.contains(r#"\"identity\""#), "{anywhere}");
    let strict = DEPLOYMENT
        .replace("inject: enabled", "inject: enabled, portcullis.dev/outbound: mesh-only");
    let (code, out, told) = texts(&inject(&["--sidecar", "container", "-"], &strict));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(told.contains("`mesh-only` needs a native sidecar"), "{told}");
}

#[test]
fn a_folder_is_read_whole_and_an_address_is_answered_with_the_pipe() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let other = DEPLOYMENT.replace("name: web, namespace", "name: api, namespace");
    std::fs::write(folder.path().join("a.yaml"), DEPLOYMENT).unwrap();
    std::fs::write(folder.path().join("sub/b.yml"), other).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "a: [").unwrap();
    let (code, _, told) = texts(&inject(&[folder.path().to_str().unwrap()], ""));
    let both = "Deployment shop/web: injected\nDeployment shop/api: injected\n";
    assert_eq!((code, told.as_str()), (Some(0), both));
    let (code, _, told) = texts(&inject(&["https://example.com/a.yaml"], ""));
    assert_eq!(code, Some(1));
    let pipe = "curl -fsSL https://example.com/a.yaml | portcullis inject -";
    assert!(told.contains(pipe), "{told}");
}

#[test]
fn nothing_read_is_no_success() {
    let (code, written, told) = texts(&inject(&["-"], "# nothing\n"));
    assert_eq!((code, written.as_str()), (Some(1), ""));
    assert!(told.contains("nothing was read from -"), "{told}");
}

#[test]
fn an_annotation_of_the_workload_is_told_to_belong_to_its_template() {
    let opts_out = DEPLOYMENT.replace(
        "metadata: {name: web, namespace: shop}",
        "metadata: {name: web, namespace: shop, annotations: {linkerd.io/inject: disabled}}",
    );
    let (code, _, told) = texts(&inject(&["-"], &opts_out));
    assert_eq!(code, Some(0));
    let remark = "Deployment shop/web: metadata.annotations[\"linkerd.io/inject\"]: has no effect \
                  here: it is read from the pod template; write it in spec.template.metadata.annotations";
    assert!(told.contains(remark), "{told}");
}

/// The documents of a text as values.
fn objects(text: &str) -> Vec<serde_json::Value> {
    let documents = policy_crds::document::read(text).into_iter();
    documents.map(|document| document.value.unwrap()).filter(|value| !value.is_null()).collect()
}

/// Workloads whose injection changes what cannot be told from the result: names of probes' ports, a
/// version that was asked for, empty maps and lists.
const STUBBORN: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, annotations: {example.com/team: a}}
spec:
  template:
    metadata: {annotations: {portcullis.dev/inject: enabled, portcullis.dev/proxy-version: v9}, labels: {}}
    spec:
      initContainers: []
      volumes: [{name: own, emptyDir: {}}]
      containers:
      - name: web
        image: example.com/web
        ports: [{name: http, containerPort: 80}, {containerPort: 81}]
        readinessProbe: {tcpSocket: {port: http}}
        livenessProbe: {tcpSocket: {port: 81, host: \"\"}}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {containers: [{name: web, image: example.com/web}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: '* * * * *', jobTemplate: {spec: {template: {metadata: {}, spec: {containers: [{name: a, image: a}]}}}}}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello, namespace: shop}
spec: {template: {spec: {containers: [{image: example.com/hello}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
data: {a: \"1\"}
---
apiVersion: v1
kind: List
items:
- {apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {template: {spec: {containers: [{name: a, image: a}]}}}}
";

#[test]
fn what_is_injected_and_taken_out_again_is_what_it_was() {
    for sidecar in ["native", "container"] {
        let (code, once, told) = texts(&inject(&["--sidecar", sidecar, "-"], STUBBORN));
        assert_eq!(code, Some(0), "{told}");
        assert_ne!(objects(&once), objects(STUBBORN));
        let (code, twice, _) = texts(&inject(&["--sidecar", sidecar, "-"], &once));
        assert_eq!((code, &twice), (Some(0), &once), "a second time changes nothing");
        let (code, back, told) = texts(&inject(&["--uninject", "-"], &once));
        assert_eq!((code, objects(&back)), (Some(0), objects(STUBBORN)), "{told}");
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "Deployment shop/web: sidecar taken out",
                "Pod plain: sidecar taken out",
                "CronJob nightly: sidecar taken out",
                "Service shop/hello: sidecar taken out",
                "Rollout r: sidecar taken out",
            ]
        );
    }
    let (code, same, told) = texts(&inject(&["--uninject", "-"], DEPLOYMENT));
    assert_eq!((code, objects(&same)), (Some(0), objects(DEPLOYMENT)));
    assert_eq!(told, "Deployment shop/web: has no sidecar\n");
}

#[test]
fn a_sidecar_of_another_version_is_brought_up_to_date() {
    let (_, old, _) = texts(&inject(&["--set", "proxy-version=v8", "-"], STUBBORN));
    let (code, now, told) = texts(&inject(&["-"], &old));
    assert_eq!(code, Some(0), "{told}");
    let (_, wanted, _) = texts(&inject(&["-"], STUBBORN));
    assert_eq!(objects(&now), objects(&wanted));
    assert!(
        told.contains("Pod plain: brought up to date: its sidecar was of version v8\n"),
        "{told}"
    );
    let pinned =
        "Deployment shop/web: not injected: the pod has a sidecar already, of version v9\n";
    assert!(told.contains(pinned), "{told}");
}

#[test]
fn kinds_whose_handlers_may_refuse_a_sidecar_are_left_to_the_injector_unless_they_are_named() {
    let input = "\
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello, namespace: shop}
spec: {template: {spec: {containers: [{image: example.com/hello}]}}}
";
    let (code, yaml, told) = texts(&inject(&["-"], input));
    assert_eq!(code, Some(0), "{told}");
    assert!(!yaml.contains("portcullis-proxy"), "{yaml}");
    assert_eq!(
        objects(&yaml)[0].pointer("/spec/template/metadata/annotations/portcullis.dev~1inject"),
        Some(&"enabled".into())
    );
    assert!(told.starts_with("Service shop/hello: no sidecar was written, because "), "{told}");
    assert!(told.contains("`--kind Service.serving.knative.dev` writes it"), "{told}");
    for kind in ["service.serving.knative.dev", "Service"] {
        let (code, yaml, told) = texts(&inject(&["--kind", kind, "-"], input));
        assert_eq!((code, told.as_str()), (Some(0), "Service shop/hello: injected\n"));
        assert!(yaml.contains("name: portcullis-proxy"), "{yaml}");
    }
    let disabled = input.replace(
        "template: {spec",
        "template: {metadata: {annotations: {portcullis.dev/inject: disabled}}, spec",
    );
    let (_, yaml, told) = texts(&inject(&["-"], &disabled));
    assert_eq!(objects(&yaml), objects(&disabled));
    assert_eq!(told, "Service shop/hello: not injected: the pod's annotation says `disabled`\n");
}

#[test]
fn what_the_webhook_leaves_alone_the_command_leaves_alone() {
    let namespace = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {config.linkerd.io/admission-webhooks: disabled}}
---
";
    for (input, why) in [
        (
            DEPLOYMENT.replace("namespace: shop", "namespace: kube-system"),
            "Deployment kube-system/web: not injected: the injector leaves namespace kube-system alone\n",
        ),
        (
            DEPLOYMENT.replace("namespace: shop", "namespace: portcullis"),
            "Deployment portcullis/web: not injected: the injector leaves namespace portcullis alone\n",
        ),
        (
            format!("{namespace}{DEPLOYMENT}"),
            "Deployment shop/web: not injected: the label `config.linkerd.io/admission-webhooks` \
             takes namespace shop out\n",
        ),
    ] {
        let (code, yaml, told) = texts(&inject(&["-"], &input));
        assert_eq!((code, objects(&yaml)), (Some(0), objects(&input)));
        assert_eq!(told, why);
    }
}

#[test]
fn an_annotation_that_is_no_text_and_a_request_above_its_limit_are_refused() {
    let deployment =
        DEPLOYMENT.replace("portcullis.dev/inject: enabled", "portcullis.dev/inject: true");
    let namespace = "apiVersion: v1\nkind: Namespace\n\
                     metadata: {name: shop, annotations: {linkerd.io/inject: true}}\n";
    let limits = DEPLOYMENT.replace(
        "portcullis.dev/inject: enabled",
        "portcullis.dev/proxy-cpu-request: 500m, portcullis.dev/proxy-cpu-limit: 100m",
    );
    let quotes = "expected text, found `true`: put it in quotes";
    for (input, why) in [
        (
            deployment.as_str(),
            format!(
                "Deployment shop/web: metadata.annotations[\"portcullis.dev/inject\"]: {quotes}"
            ),
        ),
        (
            namespace,
            format!("Namespace shop: metadata.annotations[\"linkerd.io/inject\"]: {quotes}"),
        ),
        (
            &limits,
            "Deployment shop/web: metadata.annotations[\"portcullis.dev/proxy-cpu-request\"]: the \
             request `500m` is above the limit `100m`, so that no pod is created"
                .to_owned(),
        ),
    ] {
        let (code, out, told) = texts(&inject(&["-"], input));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{told}");
        assert!(told.contains(&why), "{told}");
    }
    let own = DEPLOYMENT.replace(
        "ports: [{containerPort: 80}]",
        "resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}",
    );
    let (code, _, told) = texts(&inject(&["-"], &own));
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("spec.containers[0].resources.requests.memory: the request `2Gi` "),
        "{told}"
    );
}

/// Documents as tools write them, none of which `inject` may refuse or change besides.
const AS_PEOPLE_HAVE_THEM: [(&str, &str); 8] = [
    (
        "a byte order mark and Windows' ends of lines",
        "\u{feff}apiVersion: v1\r\nkind: Pod\r\nmetadata: {name: a}\r\nspec:\r\n  containers:\r\n  - {name: a, image: a}\r\n",
    ),
    (
        "what `helm template` prints",
        "---\n# Source: shop/templates/sa.yaml\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: web\n---\n\
         # Source: shop/templates/empty.yaml\n---\n---\n# Source: shop/templates/web.yaml\napiVersion: apps/v1\n\
         kind: StatefulSet\nmetadata: {name: web}\nspec: {serviceName: web, template: {metadata: {labels: {app: web}}, \
         spec: {containers: [{name: a, image: a}]}}, volumeClaimTemplates: [{metadata: {name: data}}]}\n",
    ),
    (
        "anchors and merge keys",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: &labels {app: web}}\nspec:\n  \
         selector: {matchLabels: *labels}\n  template: {metadata: {labels: {<<: *labels, tier: a}}, \
         spec: {containers: [{name: a, image: a}]}}\n",
    ),
    (
        "fields that a client writes as null",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: null, creationTimestamp: null}\n\
         spec: {replicas: null, strategy: {}, template: {metadata: {creationTimestamp: null, labels: {a: b}}, \
         spec: {nodeSelector: null, containers: [{name: a, image: a, resources: {}}]}}}\nstatus: {}\n",
    ),
    (
        "what `kubectl get -o json` prints",
        "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \
         \"metadata\": {\"name\": \"a\", \"uid\": \"1\", \"managedFields\": [{\"manager\": \"kubectl\", \"fieldsV1\": \
         {\"f:spec\": {}}}]}, \"spec\": {\"containers\": [{\"name\": \"a\", \"image\": \"a\"}]}, \"status\": {\"phase\": \
         \"Running\"}}]}",
    ),
    (
        "OpenShift's DeploymentConfig",
        "apiVersion: apps.openshift.io/v1\nkind: DeploymentConfig\nmetadata: {name: web}\nspec: {selector: {app: web}, \
         template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}}\n",
    ),
    (
        "a hardened pod with sidecars and a debug container",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {shareProcessNamespace: true, securityContext: \
         {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, initContainers: [{name: side, image: s, \
         restartPolicy: Always}, {name: migrate, image: m}], containers: [{name: a, image: a, securityContext: \
         {readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}}], ephemeralContainers: [{name: debug, image: d}]}\n",
    ),
    (
        "two containers that declare one port, and values that other readers take for numbers",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {version: '1.0', \"on\": \"yes\"}}\nspec: {containers: \
         [{name: a, image: a, args: ['0o17', '1e3', '~'], ports: [{name: health, containerPort: 81}], readinessProbe: \
         {tcpSocket: {port: health}}}, {name: b, image: b, ports: [{name: other, containerPort: 81}]}]}\n",
    ),
];

#[test]
fn manifests_as_people_have_them_are_injected_and_restored() {
    for (what, text) in AS_PEOPLE_HAVE_THEM {
        let (code, once, told) = texts(&inject(&["-"], text));
        assert_eq!(code, Some(0), "{what}: {told}");
        assert_eq!(once.matches("name: portcullis-proxy").count(), 1, "{what}: {told}\n{once}");
        let (code, back, told) = texts(&inject(&["--uninject", "-"], &once));
        assert_eq!((code, objects(&back)), (Some(0), objects(text)), "{what}: {told}");
    }
}

#[test]
fn what_was_edited_since_the_injection_is_restored_by_name() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}, \
               {name: b, image: b, ports: [{name: admin, containerPort: 81}], readinessProbe: {tcpSocket: {port: admin}}}]}\n";
    let (_, once, _) = texts(&inject(&["-"], pod));
    // Somebody takes the first container out of the injected manifest.
    let mut edited = objects(&once);
    let list = edited[0].pointer_mut("/spec/containers").unwrap().as_array_mut().unwrap();
    list.retain(|container| container["name"] != "a");
    let edited = serde_json::to_string(&edited[0]).unwrap();
    let (code, back, told) = texts(&inject(&["--uninject", "-"], &edited));
    let probed = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: b, image: b, ports: \
                  [{name: admin, containerPort: 81}], readinessProbe: {tcpSocket: {port: admin}}}]}\n";
    assert_eq!((code, told.as_str()), (Some(0), "Pod a: sidecar taken out\n"));
    assert_eq!(objects(&back), objects(probed));
}

#[test]
fn a_pod_that_asks_linkerds_injector_alone_is_left_to_it_unless_a_flag_says_otherwise() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {linkerd.io/inject: enabled}}\n\
               spec: {containers: [{name: a, image: a}]}\n";
    let (code, same, told) = texts(&inject(&["-"], pod));
    assert_eq!((code, objects(&same)), (Some(0), objects(pod)));
    let why = "Pod a: not injected: `linkerd.io/inject` asks Linkerd's injector; `portcullis.dev/inject: \
               enabled` asks for this sidecar\n";
    assert_eq!(told, why);
    let (code, yaml, told) = texts(&inject(&["--linkerd-inject", "-"], pod));
    assert_eq!((code, told.as_str()), (Some(0), "Pod a: injected\n"));
    assert!(yaml.contains("name: portcullis-proxy"), "{yaml}");
}
