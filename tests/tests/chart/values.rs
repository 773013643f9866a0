//! The chart's values: every one is documented, known to the schema, and guarded.

use crate::helm;
use policy_engine::compatibility::DIFFERENCES;
use policy_tests::chart::{folder, succeeded};
use policy_tests::cluster::documents;
use serde_json::Value;
use std::collections::BTreeSet;

/// Values that the schema leaves open: parts of Kubernetes' own objects, and Helm's additions.
const OPEN: [&str; 10] = [
    "global",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "valueFrom",
    "podSelector",
    "namespaceSelector",
    "ipBlock",
    "items",
    "additionalProperties",
];

fn values() -> String {
    std::fs::read_to_string(folder().join("values.yaml")).unwrap()
}

fn schema() -> Value {
    let text = std::fs::read_to_string(folder().join("values.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A schema in whose place another stands by its name.
fn followed<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    match reference {
        Some(reference) => &root["definitions"][reference.rsplit('/').next().unwrap()],
        None => schema,
    }
}

#[test]
fn every_value_is_preceded_by_what_it_means() {
    let mut before = "";
    let text = values();
    for line in text.lines() {
        let key = line.trim_start();
        let is_key = key.split(':').next().is_some_and(|key| {
            !key.is_empty() && key.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        }) && key.contains(':');
        // Inside `resources` and labels the words are Kubernetes'.
        let theirs = ["requests:", "limits:", "cpu:", "memory:", "grafana_dashboard:"];
        if is_key && !theirs.iter().any(|word| key.starts_with(word)) {
            let comment = before.trim_start();
            assert!(
                comment.starts_with("# ") && comment.ends_with('.'),
                "{before:?} before {line:?}"
            );
            let indentation = |line: &str| line.len() - line.trim_start().len();
            assert_eq!(indentation(before), indentation(line), "{before:?} before {line:?}");
        }
        before = line;
    }
}

#[test]
fn the_schema_knows_every_value_and_every_value_is_stated() {
    fn compare(root: &Value, at: &str, schema: &Value, values: &Value) {
        let schema = followed(root, schema);
        let Some(properties) = schema["properties"].as_object() else { return };
        let known: BTreeSet<&String> =
            properties.keys().filter(|key| !(at.is_empty() && *key == "global")).collect();
        let stated: BTreeSet<&String> = values.as_object().unwrap().keys().collect();
        // What is optional within an object of Kubernetes has no default here.
        let free = ["resources", "affinity", "defaults"];
        if !free.iter().any(|name| at.ends_with(name)) {
            assert_eq!(known, stated, "{at}");
            for (key, schema) in properties.iter().filter(|(key, _)| values.get(key).is_some()) {
                compare(root, &format!("{at}/{key}"), schema, &values[key]);
            }
        }
    }
    let values: Value = serde_saphyr::from_str(&values()).unwrap();
    let schema = schema();
    compare(&schema, "", &schema, &values);
}

#[test]
fn the_differences_of_the_schema_are_those_of_the_controller() {
    let schema = schema();
    let differences = &schema["properties"]["policy"]["properties"]["differences"];
    let switched = DIFFERENCES.iter().filter(|it| it.flag() == Some((it.name, "linkerd")));
    let names: Vec<&str> = switched.map(|difference| difference.name).collect();
    let pattern = format!("^({})$", names.join("|"));
    assert_eq!(differences["propertyNames"]["pattern"], pattern);
    // Every other flag of the list is a value of its own, unset by default.
    let stated: Value = serde_saphyr::from_str(&values()).unwrap();
    for value in ["probeNetworks", "probeRoutes", "referenceGrants", "localhostAuthorization"] {
        let value = &stated["policy"][value];
        assert!(value.is_null() || value == "", "{value}");
    }
}

#[test]
fn the_schema_is_strict_and_says_what_each_value_is() {
    fn walk(at: &str, schema: &Value) {
        let name = at.rsplit('/').next().unwrap();
        let is_object = schema["type"] == "object";
        if is_object && !OPEN.contains(&name) {
            let rest = &schema["additionalProperties"];
            assert!(*rest == false || rest.is_object(), "{at}: {rest}");
        }
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let described = property["description"].is_string() || property["$ref"].is_string();
            assert!(described, "{at}/{key}");
            walk(&format!("{at}/{key}"), property);
        }
        for part in ["items", "additionalProperties"] {
            if schema[part].is_object() {
                walk(&format!("{at}/{part}"), &schema[part]);
            }
        }
    }
    let schema = schema();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    walk("", &schema);
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        assert!(definition["description"].is_string(), "{name}");
        walk(&format!("/definitions/{name}"), definition);
    }
    // A refusal by `enum` does not repeat the value, one by `pattern` does.
    assert!(!schema.to_string().contains("\"enum\""));
}

/// Values, and every part of what has to be said about them: the key, the value, what is allowed.
const REFUSED: &[(&[&str], &[&str])] = &[
    (&["controler.replicas=2"], &["additional properties 'controler' not allowed"]),
    (&["controller.replica=2"], &["at '/controller'", "'replica' not allowed"]),
    (&["controller.replicas=0"], &["'/controller/replicas'", "got 0, want 1"]),
    (&["controller.replicas=two"], &["'/controller/replicas'", "got string, want integer"]),
    (&["policy.default=Deny"], &["'/policy/default'", "'Deny'", "all-unauthenticated|", "|deny)"]),
    (&["policy.clusterNetworks={10.0.0.0/x}"], &["'/policy/clusterNetworks/0'", "'10.0.0.0/x'"]),
    (&["policy.clusterNetworks=[]"], &["'/policy/clusterNetworks'", "got 0, want 1"]),
    (&["policy.probeNetworks={node}"], &["'/policy/probeNetworks/0'", "'node'", "node-local|"]),
    (&["policy.referenceGrants=off"], &["'off'", "(enforce|warn)"]),
    (&["policy.undeclaredPorts=allow"], &["'allow'", "(default|deny)"]),
    (&["policy.differences.invalid-routes=safe"], &["'safe'", "(portcullis|linkerd)"]),
    (&["policy.differences.probe-routes=linkerd"], &["invalid propertyName 'probe-routes'"]),
    (&["policy.localhostAuthorization=maybe"], &["got string, want null or boolean"]),
    (&["identity.trustDomain=Cluster"], &["'/identity/trustDomain'", "'Cluster'"]),
    (&["identity.mode=none"], &["'/identity/mode'", "'none'", "(issuer|external)"]),
    (&["identity.mode=external", "identity.external.address=x"], &["'x'", ":[0-9]"]),
    (&["clusterDomain=a b"], &["'/clusterDomain'", "'a b'"]),
    (&["watchNamespaces={A}"], &["'/watchNamespaces/0'", "'A'"]),
    (&["images.pullPolicy=always"], &["'always'", "(Always|IfNotPresent|Never)"]),
    (&["images.digests.controller=sha256:1"], &["'/images/digests/controller'", "'sha256:1'"]),
    (&["controller.logFormat=xml"], &["'xml'", "(plain|json)"]),
    (&["controller.listenAddress=127.0.0.1"], &["'127.0.0.1'", "0\\\\.0"]),
    (&["controller.extraArgs={run}"], &["'/controller/extraArgs/0'", "'run'", "--"]),
    (&["issuer.issuanceLifetime=1w"], &["'/issuer/issuanceLifetime'", "'1w'", "(s|m|h|d)"]),
    (&["issuer.rotateAfter=100"], &["'/issuer/rotateAfter'", "got 100, want 90"]),
    (&["injector.sidecar=no"], &["'/injector/sidecar'", "'no'", "(auto|native|container)"]),
    (&["injector.defaults.proxy-memroy-limit=1"], &["'proxy-memroy-limit' not allowed"]),
    (&["injector.defaults.proxy-memory-limit=much"], &["'much'", "Ki|Mi"]),
    (&["injector.defaults.skip-inbound-ports=http"], &["'http'", "[0-9]+"]),
    (&["outbound.enabled=maybe"], &["'/outbound/enabled'", "got string, want null or boolean"]),
    (&["outbound.transport=direct"], &["'/outbound/transport'", "'direct'", "(original|header)"]),
    (&["outbound.unanswered=open"], &["'/outbound/unanswered'", "'open'", "(refuse|plaintext)"]),
    (&["outbound.networks={x}"], &["'/outbound/networks/0'", "'x'"]),
    (&["outbound.plaintextAllowed={x}"], &["'/outbound/plaintextAllowed/0'", "'x'"]),
    (&["outbound.peers[0].namespace=a"], &["'/outbound/peers/0'", "'trustDomain', 'sharedRoots'"]),
    (&["outbound.externalWorkloadNamespaces={A}"], &["'/outbound/externalWorkloadNamespaces/0'"]),
    (&["injector.defaults.outbound=on"], &["'on'", "(enabled|disabled|mesh-only)"]),
    (&["injector.defaults.skip-outbound-ports=sql"], &["'sql'", "[0-9]+"]),
    (
        &["outbound.enabled=true", "injector.enabled=false"],
        &["outbound.enabled is true", "injector.enabled is false", "allowed:"],
    ),
    (
        &["outbound.enabled=true", "injector.sidecar=container"],
        &["outbound.enabled is true", "\"container\"", "allowed:"],
    ),
    (
        &["outbound.enabled=false", "injector.defaults.outbound=mesh-only"],
        &["outbound.enabled is false", "\"mesh-only\"", "allowed: one of them"],
    ),
    (
        &["outbound.externalWorkloadNamespaces={vms}"],
        &["outbound.externalWorkloadNamespaces is given", "outbound.networks is empty", "allowed:"],
    ),
    (&["metrics.allowFrom.networks={all}"], &["'all'", "node-local|cluster"]),
    (&["controlPlanePolicies=yes"], &["'yes'", "(auto|always|never)"]),
    (&["admission.tls.secretName=mine"], &["admission.tls.caBundle", "\"mine\"", "allowed:"]),
    (
        &["admission.tls.caBundle=-----BEGIN CERTIFICATE-----"],
        &["admission.tls.secretName is empty", "allowed:"],
    ),
    (&["watchNamespaces={a,b}"], &["admission.enabled is true", "\"a,b\"", "allowed:"]),
    (
        &["watchNamespaces={a}", "admission.enabled=false"],
        &["injector.enabled is true", "\"a\"", "allowed: injector.enabled=false"],
    ),
    (&["nodeAddresses.node-a={10.0.0.1}"], &["nodeAddresses is given", "watchNamespaces"]),
    (&["admission.enabled=false"], &["injector.enabled is true", "allowed:"]),
    (
        &["besideLinkerd.enabled=true"],
        &["identity.mode is \"issuer\"", "besideLinkerd.enabled", "allowed: \"external\""],
    ),
    (
        &["besideLinkerd.enabled=true", "identity.mode=external"],
        &["injector.enabled is true", "allowed: injector.enabled=false"],
    ),
    (
        &["besideLinkerd.enabled=true", "identity.mode=external", "injector.enabled=false"],
        &["crds.policy is true", "allowed: crds.policy=false"],
    ),
];

#[test]
fn a_wrong_value_is_refused_with_its_key_the_value_and_what_is_allowed() {
    let Some(helm) = helm() else { return };
    for (settings, expected) in REFUSED {
        let mut arguments = Vec::new();
        for setting in *settings {
            let flag = if setting.ends_with("=[]") { "--set-json" } else { "--set" };
            arguments.extend([flag, setting]);
        }
        let output = helm.template(&arguments).unwrap();
        let refusal = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{settings:?} is accepted");
        for part in *expected {
            assert!(refusal.contains(part), "{settings:?}: {part:?} is not in\n{refusal}");
        }
    }
}

/// Settings beside Linkerd with a certificate of one's own.
const BESIDE: &str = "besideLinkerd.enabled=true,identity.mode=external,injector.enabled=false,\
                      crds.policy=false,crds.workload=false,admission.tls.secretName=mine,\
                      admission.tls.caBundle=-----BEGIN CERTIFICATE-----";

#[test]
fn the_policy_of_the_cluster_waits_only_for_who_reads_it() {
    let Some(helm) = helm() else { return };
    for (watched, expected) in [("", 1), (",watchNamespaces={a,b}", 0)] {
        let settings = format!("{BESIDE}{watched}");
        let rendered = succeeded(&helm.template(&["--set", &settings]).unwrap()).unwrap();
        let objects = documents(&rendered).unwrap();
        let validating =
            objects.iter().find(|object| object["kind"] == "ValidatingWebhookConfiguration");
        let webhooks = validating.unwrap()["webhooks"].as_array().unwrap();
        let asks = |webhook: &&serde_json::Value| {
            let rules = webhook["rules"].as_array().unwrap().iter();
            let mut resources = rules.flat_map(|rule| rule["resources"].as_array().unwrap());
            resources.any(|resource| resource == "routeadmissionpolicies")
        };
        let found: Vec<&serde_json::Value> = webhooks.iter().filter(asks).collect();
        assert_eq!(found.len(), expected, "{settings}");
        for webhook in found {
            assert_eq!(webhook["rules"][0]["scope"], "Cluster");
            assert_eq!(webhook["failurePolicy"], "Fail");
        }
        for webhook in webhooks.iter().filter(|webhook| !asks(webhook)) {
            let text = webhook["namespaceSelector"].to_string();
            assert_eq!(text.contains("[\"a\",\"b\"]"), expected == 0, "{webhook}");
        }
    }
}

#[test]
fn linkerds_proxies_of_namespaces_that_are_not_watched_are_left_alone() {
    let Some(helm) = helm() else { return };
    let settings = &format!("{BESIDE},watchNamespaces={{a,b}}");
    let rendered = succeeded(&helm.template(&["--set", settings]).unwrap()).unwrap();
    let objects = documents(&rendered).unwrap();
    let webhooks = objects.iter().find(|object| object["kind"] == "MutatingWebhookConfiguration");
    let webhooks = webhooks.unwrap()["webhooks"].as_array().unwrap();
    let watched = serde_json::json!({
        "key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"],
    });
    for webhook in webhooks {
        let expressions = webhook["namespaceSelector"]["matchExpressions"].as_array().unwrap();
        assert!(expressions.contains(&watched), "{webhook}");
    }
    assert_eq!(webhooks.len(), 1);
}

/// Without this the second of two releases, each for namespaces of its own, could not be installed.
#[test]
fn a_further_release_in_a_cluster_needs_none_of_its_definitions() {
    let Some(helm) = helm() else { return };
    let definitions = |settings: &str| {
        let rendered = succeeded(&helm.template(&["--set", settings]).unwrap()).unwrap();
        let mut objects = documents(&rendered).unwrap();
        objects.retain(|object| object["kind"] == "CustomResourceDefinition");
        objects.iter().map(|one| one["metadata"]["name"].to_string()).collect::<Vec<_>>()
    };
    let groups = ["crds.policy=false", "crds.workload=false", "crds.portcullis=false"];
    assert_eq!(definitions(&groups.join(",")), Vec::<String>::new());
    for (switched, group) in
        groups.iter().zip(["policy.linkerd.io", "workload.linkerd.io", "portcullis.dev"])
    {
        let left = definitions(switched);
        assert!(!left.is_empty(), "{switched}");
        assert!(!left.iter().any(|name| name.contains(group)), "{switched}: {left:?}");
    }
}

/// Who renders the chart without a cluster cannot tell a first installation from an upgrade, so that an
/// upgrade by Argo CD would switch on what nobody asked for.
#[test]
fn without_a_cluster_the_outbound_half_is_off_unless_a_value_says_so() {
    let Some(helm) = helm() else { return };
    let flag = "--injector-default=outbound=";
    let flags = |settings: &str, more: &[&str]| {
        let arguments = [&["--set", settings], more].concat();
        let rendered = succeeded(&helm.template(&arguments).unwrap()).unwrap();
        let lines = rendered.lines().filter(|line| line.contains(flag));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let none = Vec::<String>::new();
    assert_eq!(flags("injector.enabled=true", &[]), none);
    assert_eq!(flags("injector.enabled=true", &["--is-upgrade"]), none);
    assert_eq!(flags("outbound.enabled=false", &[]), none);
    assert_eq!(flags("outbound.enabled=true", &[]), [format!("- \"{flag}enabled\"")]);
    let strict = flags("injector.defaults.outbound=mesh-only", &[]);
    assert_eq!(strict, [format!("- \"{flag}mesh-only\"")]);
}

/// Kustomize and others refuse a manifest with a key that is written twice.
#[test]
fn a_key_that_the_chart_writes_itself_is_written_once() {
    let Some(helm) = helm() else { return };
    let name = "app\\.kubernetes\\.io/name=other";
    let rendered = |settings: &[String]| {
        let set = settings.iter().flat_map(|setting| ["--set-string", setting]);
        succeeded(&helm.template(&set.collect::<Vec<_>>()).unwrap()).unwrap()
    };
    let text = rendered(&[
        "controller.nodeSelector.kubernetes\\.io/os=linux,controller.nodeSelector.disk=ssd"
            .to_owned(),
        format!("controller.podLabels.{name},issuer.podLabels.{name},extraLabels.{name}"),
        "extraLabels.team=a,controller.podLabels.team=b,controller.podLabels.tier=c".to_owned(),
        "controller.podAnnotations.linkerd\\.io/inject=enabled".to_owned(),
    ]);
    for document in policy_crds::document::read(&text) {
        assert_eq!(document.value.as_ref().err(), None);
        let selected = document.value.as_ref().unwrap()["spec"]["selector"]["matchLabels"].clone();
        let labels = document.value.unwrap()["spec"]["template"]["metadata"]["labels"].clone();
        for (label, value) in selected.as_object().into_iter().flatten() {
            assert!(labels.is_null() || labels[label] == *value, "{label}: {labels}");
        }
    }
    assert!(text.contains("disk: ssd") && text.contains("tier: c"));
    assert!(!text.contains("linkerd.io/inject: enabled"), "the control plane guards itself");
}
