//! The CRDs and the parser agree: what the one admits by its form, the other reads.

use crate::support::value;
use policy_core::Pattern;
use policy_crds::render::{Profile, crds};
use policy_crds::{Kind, document};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Schemas by group, version and kind.
fn schemas(profile: Profile) -> BTreeMap<(String, String), Value> {
    let mut schemas = BTreeMap::new();
    for (name, text) in crds(profile) {
        let crd = value(&text);
        assert_eq!(
            crd["metadata"]["name"],
            format!(
                "{}.{}",
                crd["spec"]["names"]["plural"].as_str().unwrap(),
                crd["spec"]["group"].as_str().unwrap()
            )
        );
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let api_version = format!(
                "{}/{}",
                crd["spec"]["group"].as_str().unwrap(),
                version["name"].as_str().unwrap()
            );
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            let schema = version["schema"]["openAPIV3Schema"].clone();
            assert!(schemas.insert((api_version, kind), schema).is_none(), "{name}");
        }
    }
    schemas
}

/// The violations of a schema by a value, as `path: reason`.
fn violations(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let has_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some(other) => panic!("{path}: type {other}"),
        None => {
            schema["x-kubernetes-int-or-string"] == true && (value.is_i64() || value.is_string())
        }
    };
    if !has_type {
        found.push(format!("{path}: type"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        found.push(format!("{path}: enum"));
    }
    for (keyword, holds) in [
        ("minimum", value.as_i64().zip(schema["minimum"].as_i64()).is_none_or(|(v, m)| v >= m)),
        ("maximum", value.as_i64().zip(schema["maximum"].as_i64()).is_none_or(|(v, m)| v <= m)),
    ] {
        if !holds {
            found.push(format!("{path}: {keyword}"));
        }
    }
    let length = value.as_str().map(str::len).or(value.as_array().map(Vec::len));
    for (keyword, at_least) in
        [("minLength", true), ("maxLength", false), ("minItems", true), ("maxItems", false)]
    {
        if let (Some(length), Some(bound)) = (length, schema[keyword].as_u64()) {
            let bound = usize::try_from(bound).unwrap();
            if (at_least && length < bound) || (!at_least && length > bound) {
                found.push(format!("{path}: {keyword}"));
            }
        }
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !Pattern::parse(pattern).unwrap().matches(text)
    {
        found.push(format!("{path}: pattern"));
    }
    collection_violations(schema, value, path, found);
}

fn collection_violations(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    for item in value.as_array().into_iter().flatten() {
        violations(&schema["items"], item, &format!("{path}[]"), found);
    }
    let Some(map) = value.as_object() else { return };
    let has = |schema: &Value| {
        let required = schema["required"].as_array();
        required.is_none_or(|r| r.iter().all(|name| map.contains_key(name.as_str().unwrap())))
    };
    if !has(schema) {
        found.push(format!("{path}: required"));
    }
    if let Some(alternatives) = schema["oneOf"].as_array()
        && alternatives.iter().filter(|a| has(a)).count() != 1
    {
        found.push(format!("{path}: oneOf"));
    }
    if path == ".metadata" || schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (name, child) in map {
        let known = schema["properties"].get(name);
        match known.or(schema.get("additionalProperties")) {
            Some(schema) => violations(schema, child, &format!("{path}.{name}"), found),
            None => found.push(format!("{path}.{name}: unknown")),
        }
    }
}

#[test]
fn every_kind_and_version_that_is_read_has_a_schema() {
    let ours = |kind: &Kind| kind.spec().is_defined_here();
    for profile in Profile::ALL {
        let kinds = Kind::ALL.into_iter().filter(ours).filter(|kind| profile.has(*kind));
        let versions = kinds.flat_map(|kind| {
            let group = kind.group();
            kind.versions().iter().map(move |v| (format!("{group}/{v}"), kind.as_str().to_owned()))
        });
        let found = schemas(profile).into_keys();
        assert_eq!(found.collect::<BTreeSet<_>>(), versions.collect::<BTreeSet<_>>());
    }
}

#[test]
fn every_good_manifest_is_admitted_by_its_schema() {
    let mut checked = BTreeSet::new();
    for profile in Profile::ALL {
        let schemas = schemas(profile);
        for document in document::read(include_str!("good.yaml")) {
            let value = document.value.unwrap();
            let text = |field: &str| value[field].as_str().unwrap().to_owned();
            let Some(schema) = schemas.get(&(text("apiVersion"), text("kind"))) else { continue };
            let mut found = Vec::new();
            violations(schema, &value, "", &mut found);
            assert_eq!(found, [""; 0], "{value}");
            checked.insert((profile.folder(), text("kind")));
        }
    }
    let defined = Kind::ALL.into_iter().filter(|kind| kind.spec().is_defined_here());
    let defined: Vec<Kind> = defined.collect();
    let of = |profile: Profile| defined.iter().filter(|kind| profile.has(**kind)).count();
    let expected: usize = Profile::ALL.into_iter().map(of).sum();
    assert_eq!(checked.len(), expected, "a kind without a manifest: {checked:?}");
}

#[test]
fn the_schemas_refuse_what_they_can() {
    let schemas = schemas(Profile::Portcullis);
    let of = |api_version: &str, kind: &str, spec: &str| {
        let schema = &schemas[&(api_version.to_owned(), kind.to_owned())];
        let mut found = Vec::new();
        violations(&schema["properties"]["spec"], &value(spec), "spec", &mut found);
        found
    };
    let server = |spec: &str| of("policy.linkerd.io/v1beta3", "Server", spec);
    assert_eq!(server("{port: 80}"), ["spec: oneOf"]);
    assert_eq!(server("{podSelector: {}, externalWorkloadSelector: {}, port: a}"), ["spec: oneOf"]);
    assert_eq!(server("{podSelector: {}}"), ["spec: required"]);
    assert_eq!(server("{podSelector: {}, port: 1.5}"), ["spec.port: type"]);
    let old = |spec: &str| of("policy.linkerd.io/v1beta2", "Server", spec);
    assert_eq!(
        old("{podSelector: {}, port: 1, accessPolicy: deny}"),
        ["spec.accessPolicy: unknown"]
    );
    let mtls = |spec: &str| of("policy.linkerd.io/v1alpha1", "MeshTLSAuthentication", spec);
    assert_eq!(mtls("{identities: []}"), ["spec.identities: minItems"]);
    assert_eq!(mtls("{}"), ["spec: oneOf"]);
    let route = |spec: &str| of("policy.linkerd.io/v1beta3", "HTTPRoute", spec);
    assert_eq!(
        route("{rules: [{filters: [{type: URLRewrite}]}]}"),
        ["spec.rules[].filters[].type: enum"]
    );
    assert_eq!(route("{parentRefs: [{name: a, port: 0}]}"), ["spec.parentRefs[].port: minimum"]);
    let inbound = |spec: &str| of("portcullis.dev/v1alpha1", "InboundRoute", spec);
    assert_eq!(inbound("{routes: [{match: /, serve: {}}]}"), ["spec: oneOf"]);
    assert_eq!(
        inbound("{virtualhost: {fqdn: a}, delegatedFrom: [{fqdn: a}], routes: []}"),
        ["spec: oneOf", "spec.routes: minItems"]
    );
    let rule = |rule: &str| inbound(&format!("{{virtualhost: {{fqdn: a}}, routes: [{rule}]}}"));
    assert_eq!(rule("{match: /}"), ["spec.routes[]: oneOf"]);
    assert_eq!(rule("{match: /, serve: {}, servers: [{name: a}]}"), ["spec.routes[]: oneOf"]);
    let group = |spec: &str| of("portcullis.dev/v1alpha1", "HttpRouteGroup", spec);
    assert_eq!(group("{routes: []}"), ["spec.routes: minItems"]);
    assert_eq!(group("{routes: [{methods: [GET]}]}"), ["spec.routes[]: oneOf"]);
    assert_eq!(group("{routes: [{path: /, routeGroupRef: {name: a}}]}"), ["spec.routes[]: oneOf"]);
    assert_eq!(
        group("{routes: [{path: a, methods: [get]}]}"),
        ["spec.routes[].methods[]: enum", "spec.routes[].path: pattern"]
    );
    let timeout = |spec: &str| {
        let target = "targetRef: {kind: Server, name: a}";
        of("portcullis.dev/v1alpha1", "TimeoutPolicy", &format!("{{{target}, {spec}}}"))
    };
    for text in ["-1s", "1d", "10", "", "1.5s", "123456s"] {
        let found = timeout(&format!("timeouts: {{idle: '{text}'}}"));
        assert_eq!(found, ["spec.timeouts.idle: pattern"], "{text}");
    }
    assert_eq!(timeout("timeouts: {idle: 1m30s}, streams: Endless"), ["spec.streams: enum"]);
    assert_eq!(
        rule("{match: a, delegate: {}}"),
        ["spec.routes[].delegate: oneOf", "spec.routes[].match: pattern"]
    );
}

#[test]
fn exactly_one_version_is_stored_and_only_ours_have_a_status_everywhere() {
    for profile in Profile::ALL {
        for (name, text) in crds(profile) {
            let crd = value(&text);
            let versions = crd["spec"]["versions"].as_array().unwrap();
            assert_eq!(versions.iter().filter(|v| v["storage"] == true).count(), 1, "{name}");
            for version in versions {
                let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
                let subresource = version["subresources"].get("status").is_some();
                if profile == Profile::Portcullis {
                    assert!(status.is_object() && subresource, "{name}");
                } else if name.ends_with("_servers.yaml") {
                    assert!(status.is_null() && !subresource);
                }
            }
        }
    }
}

#[test]
fn the_files_checked_in_are_current() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for profile in Profile::ALL {
        let folder = root.join(profile.folder());
        let files = crds(profile);
        for (name, text) in &files {
            let found = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(found == *text, "{name} is out of date: cargo run -p xtask -- gen");
        }
        let present: BTreeSet<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".yaml"))
            .collect();
        assert_eq!(present, files.into_iter().map(|(name, _)| name).collect());
    }
}
