//! Recognition of objects and their kinds.

use crate::support::{errors, value};
use policy_crds::spec::{
    Admission, Conditions, GrantRule, ObjectReference, ReferenceTarget, Watched,
};
use policy_crds::{
    Body, Field, Invalid, Kind, NotAnObject, Object, ObjectKey, document, parse, parse_all, parts,
};
use serde_json::json;
use std::collections::BTreeSet;

fn refused(text: &str) -> String {
    let error = parse(&value(text)).unwrap_err();
    assert!(!error.is_foreign(), "{text}");
    format!("{}: {}", error.field(), error.message())
}

#[test]
fn every_kind_and_version_is_recognised() {
    for kind in Kind::ALL {
        for version in kind.versions() {
            let api_version = match kind.group() {
                "" => (*version).to_owned(),
                group => format!("{group}/{version}"),
            };
            let object = json!({
                "apiVersion": api_version, "kind": kind.as_str(), "metadata": {"name": "a", "namespace": "b"},
            });
            let object = parse(&object).unwrap();
            assert_eq!(object.meta.key.kind, kind);
            let namespace = if kind.is_namespaced() { "b" } else { "" };
            assert_eq!(&*object.meta.key.namespace, namespace);
        }
    }
}

#[test]
#[rustfmt::skip]
fn what_is_not_an_object_says_why() {
    for (text, expected) in [
        ("a", ": expected an object with `apiVersion`, `kind` and `metadata`"),
        ("[]", ": expected an object with `apiVersion`, `kind` and `metadata`"),
        ("{}", "apiVersion: is required"),
        ("apiVersion: v1", "kind: is required"),
        ("{apiVersion: 1, kind: Pod}", "apiVersion: expected text, found the number `1`"),
        ("{apiVersion: v1, kind: ''}", "kind: must not be empty"),
        ("{apiVersion: v1, kind: Pod}", "metadata: is required"),
        ("{apiVersion: v1, kind: Pod, metadata: a}", "metadata: expected a mapping"),
        ("{apiVersion: v1, kind: Pod, metadata: {}}", "metadata.name: is required"),
        ("{apiVersion: v1, kind: Pod, metadata: {generateName: A-}}", "metadata.generateName: `A-` begins no name: lower-case letters, digits, `-` and `.` are allowed"),
        ("{apiVersion: v1, kind: Pod, metadata: {generateName: 7}}", "metadata.generateName: expected text, found the number `7`: put it in quotes"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: 7}}", "metadata.name: expected text, found the number `7`: put it in quotes"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: n}}", "metadata.name: expected text, found `false`: put it in quotes"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: A}}", "metadata.name: `A` is not a name: lower-case letters, digits, `-` and `.` are allowed"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespce: b}}", "metadata.namespce: unknown field, did you mean `namespace`?"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b.c}}", "metadata.namespace: `b.c` is not a namespace: up to 63 lower-case letters, digits and `-` are allowed"),
        ("{apiVersion: workload.linkerd.io/v1, kind: Widget}", "kind: unknown kind `Widget`, expected `ExternalWorkload`"),
        ("{apiVersion: portcullis.dev/v1, kind: Widget}", "kind: unknown kind `Widget`, expected one of `InboundRoute`, `RouteAdmissionPolicy`, `HttpRouteGroup`, `HttpRouteBinding`, `HttpRouteClass`, `GrpcService`, `GrpcServiceBinding`, `GrpcServiceClass`, `TimeoutPolicy`, `HeaderRewritePolicy`"),
    ] {
        assert_eq!(refused(text), expected, "{text}");
    }
}

/// An object of a kind that nobody reads would restrict nothing.
#[test]
#[rustfmt::skip]
fn an_object_whose_kind_is_misspelt_keeps_what_it_claims() {
    for (api_version, kind, meant, expected) in [
        ("policy.linkerd.io/v1beta3", "Sever", Kind::Server, "kind: unknown kind `Sever`, did you mean `Server`?"),
        ("policy.linkerd.io/v1beta3", "server", Kind::Server, "apiVersion: `server` is not a kind of `policy.linkerd.io/v1beta3`, did you mean `Server`?"),
        ("v1", "Server", Kind::Server, "apiVersion: Server is not in `v1`, expected `policy.linkerd.io/v1beta3`"),
        ("v1", "HTTPRoute", Kind::PolicyHttpRoute, "apiVersion: HTTPRoute is not in `v1`, expected one of `policy.linkerd.io/v1beta3`, `gateway.networking.k8s.io/v1`"),
        ("policy.linkerd.io/v1", "GRPCRoute", Kind::GrpcRoute, "apiVersion: GRPCRoute is not in `policy.linkerd.io/v1`, expected `gateway.networking.k8s.io/v1`"),
        ("polcy.linkerd.io/v1beta3", "Server", Kind::Server, "apiVersion: Server is not in `polcy.linkerd.io/v1beta3`, expected `policy.linkerd.io/v1beta3`"),
        ("linkerd.io/v1beta3", "Server", Kind::Server, "apiVersion: Server is not in `linkerd.io/v1beta3`, expected `policy.linkerd.io/v1beta3`"),
        ("apps/v1", "GRPCRoute", Kind::GrpcRoute, "apiVersion: GRPCRoute is not in `apps/v1`, expected `gateway.networking.k8s.io/v1`"),
        ("gatway.networking.k8s.io/v1", "HTTPRoute", Kind::GatewayHttpRoute, "apiVersion: HTTPRoute is not in `gatway.networking.k8s.io/v1`, expected one of `policy.linkerd.io/v1beta3`, `gateway.networking.k8s.io/v1`"),
        ("gateway.networking.k8s.io/v1", "HTTPRout", Kind::GatewayHttpRoute, "kind: unknown kind `HTTPRout`, did you mean `HTTPRoute`?"),
        ("v1", "namespace", Kind::Namespace, "kind: unknown kind `namespace`, did you mean `Namespace`?"),
    ] {
        let text = format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}, spec: {{podSelector: {{}}, port: 1, rules: []}}}}");
        let object = parse(&value(&text)).unwrap();
        assert_eq!(object.meta.key.kind, meant, "{text}");
        assert_eq!(errors(&object), [expected], "{text}");
    }
}

#[test]
fn a_misspelt_kind_is_reported_beside_a_field_that_is_indented_too_little() {
    let text = "{apiVersion: policy.linkerd.io/v1beta3, kind: Sever, metadata: {name: a}, \
                namespace: shop, spec: {podSelector: {}, port: 1}}";
    let object = policy_crds::parse_written(&value(text)).unwrap();
    let server = ObjectKey { kind: Kind::Server, namespace: "shop".into(), name: "a".into() };
    assert_eq!(object.meta.key, server);
    assert_eq!(
        errors(&object),
        [
            "kind: unknown kind `Sever`, did you mean `Server`?",
            "namespace: belongs in `metadata`: the line is indented too little",
        ]
    );
}

#[test]
fn kinds_of_others_are_foreign() {
    for (api_version, kind) in [
        ("v1", "Secret"),
        ("v1", "ConfigMap"),
        ("gateway.networking.k8s.io/v1", "Gateway"),
        ("gateway.networking.k8s.io/v1alpha2", "TCPRoute"),
        ("gateway.networking.k8s.io/v1alpha2", "TLSRoute"),
        ("security.istio.io/v1", "AuthorizationPolicy"),
        ("v1", "Endpoints"),
        ("linkerd.io/v1alpha2", "ServiceProfile"),
        ("example.com/v1", "Server"),
        ("rbac.authorization.k8s.io/v1", "Role"),
    ] {
        let error = parse(&json!({"apiVersion": api_version, "kind": kind})).unwrap_err();
        assert!(error.is_foreign(), "{kind}: {error}");
    }
}

#[test]
fn metadata_keeps_what_policy_depends_on() {
    let object = parse(&value(
        "apiVersion: v1\nkind: ServiceAccount\n\
         metadata: {name: a, labels: {b: c}, annotations: {d: e}, uid: u, generation: 3,\n  \
         creationTimestamp: '2026-01-31T12:00:00Z', managedFields: [1], ownerReferences: []}\n",
    ))
    .unwrap();
    let key =
        ObjectKey { kind: Kind::ServiceAccount, namespace: "default".into(), name: "a".into() };
    assert_eq!(object.meta.key, key);
    assert_eq!(object.meta.labels.get("b").map(|v| &**v), Some("c"));
    assert_eq!(object.meta.annotations.get("d").map(|v| &**v), Some("e"));
    assert_eq!(object.meta.created, Some(1_769_860_800));
    assert_eq!(object.meta.uid.as_deref(), Some("u"));
    assert_eq!(object.meta.generation, Some(3));
    assert_eq!(errors(&object), [""; 0]);
}

#[test]
fn wrong_metadata_makes_the_object_invalid() {
    let of = |metadata: &str| {
        let text =
            format!("{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: a, {metadata}}}}}");
        errors(&parse(&value(&text)).unwrap())
    };
    assert_eq!(of("labels: {a: 1}"), ["metadata.labels.a: expected text, found the number `1`"]);
    assert_eq!(of("labels: []"), ["metadata.labels: expected a mapping, found a list"]);
    assert_eq!(
        of("annotations: {a.b/c: true}"),
        ["metadata.annotations[\"a.b/c\"]: expected text, found `true`"]
    );
    assert_eq!(
        of("creationTimestamp: now"),
        ["metadata.creationTimestamp: `now` is not a time such as `2026-01-31T12:00:00Z`"]
    );
    assert_eq!(of("creationTimestamp: null"), [""; 0]);
}

#[test]
fn fields_beside_the_specification_are_checked_where_the_kind_is_ours() {
    let object = |api: &str, kind: &str| {
        let text = format!(
            "{{apiVersion: {api}, kind: {kind}, metadata: {{name: a}}, sepc: {{}}, \
             spec: {{networks: [{{cidr: '::/0'}}], rules: [{{}}]}}}}"
        );
        errors(&parse(&value(&text)).unwrap())
    };
    let of = object("policy.linkerd.io/v1alpha1", "NetworkAuthentication");
    assert_eq!(of[0], "sepc: unknown field, did you mean `spec`?");
    assert_eq!(object("gateway.networking.k8s.io/v1", "GRPCRoute"), [""; 0]);
}

#[test]
fn lists_are_flattened_with_their_places() {
    let list = value(
        "apiVersion: v1\nkind: List\nitems:\n\
         - {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n\
         - {apiVersion: v1, kind: Secret, metadata: {name: b}}\n\
         - {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace, metadata: {name: c}}]}\n",
    );
    let parsed = parse_all(&list);
    assert_eq!(parsed.len(), 3);
    assert_eq!(&*parsed[0].as_ref().unwrap().meta.key.name, "a");
    assert!(matches!(parsed[1], Err(NotAnObject::Foreign { .. })));
    assert_eq!(&*parsed[2].as_ref().unwrap().meta.key.name, "c");
    let places: Vec<String> = parts(&list).iter().map(|part| part.field("metadata.name")).collect();
    assert_eq!(
        places,
        ["items[0].metadata.name", "items[1].metadata.name", "items[2].items[0].metadata.name"]
    );
}

#[test]
fn items_of_a_typed_list_need_not_repeat_their_type() {
    let list = json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "NetworkAuthenticationList",
        "items": [{"metadata": {"name": "a"}, "spec": {"networks": [{"cidr": "::/0"}]}}],
    });
    let parsed = parse_all(&list);
    assert_eq!(errors(parsed[0].as_ref().unwrap()), [""; 0]);
    assert_eq!(parse_all(&json!({"apiVersion": "v1", "kind": "List", "items": []})).len(), 0);
}

#[test]
fn lists_are_followed_only_so_deep() {
    let mut list = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    for _ in 0..50 {
        list = json!({"apiVersion": "v1", "kind": "List", "items": [list]});
    }
    let parsed = parse_all(&list);
    assert_eq!(parsed.len(), 1);
    assert_eq!(parsed[0].as_ref().unwrap_err().to_string(), LIST);
}

const LIST: &str = "items: expected a list, in at most 4 lists around it: nothing of it is read";

#[test]
fn a_list_that_cannot_be_read_is_no_stranger() {
    for items in [json!(7), json!({"a": {}}), json!(null)] {
        let error =
            parse(&json!({"apiVersion": "v1", "kind": "List", "items": items})).unwrap_err();
        assert!(!error.is_foreign());
        assert_eq!(error.to_string(), LIST);
    }
}

#[test]
fn only_clients_and_delegators_are_named_across_namespaces_without_a_grant() {
    for reference in Kind::ALL.iter().flat_map(|kind| kind.spec().references) {
        assert_eq!(
            reference.grant == GrantRule::Exempt,
            reference.field == Field::Client || reference.to == [Kind::InboundRoute],
            "{reference:?}"
        );
    }
}

#[test]
fn kinds_that_take_part_in_policy_are_watched_and_told_what_became_of_them() {
    for kind in Kind::ALL {
        let spec = kind.spec();
        if spec.contributes {
            assert_ne!(spec.watched, Watched::Never, "{kind:?}");
            assert_eq!(spec.conditions, Conditions::Always, "{kind:?}");
            assert_ne!(spec.admission, Admission::Foreign, "{kind:?}");
        }
        assert!(spec.status.is_none() || spec.conditions == Conditions::Always, "{kind:?}");
    }
}

#[test]
fn what_an_object_names_is_in_a_field_of_its_kind() {
    let mut fields = BTreeSet::new();
    for document in document::read(include_str!("good.yaml")) {
        let object = parse(&document.value.unwrap()).unwrap();
        for ObjectReference { field, what } in object.references() {
            let kind = object.meta.key.kind;
            let known = match what {
                ReferenceTarget::One(key) => kind.reference(field, key.kind),
                ReferenceTarget::AnyOf(to, _) => kind.reference(field, to),
                ReferenceTarget::Unread(to) => {
                    assert_ne!(to.namespace(), &*object.meta.key.namespace, "{object:?}");
                    kind.spec().reference(&[field]).filter(|reference| reference.to.is_empty())
                }
            };
            assert!(known.is_some(), "{object:?}");
            fields.insert(field);
        }
    }
    let references = Kind::ALL.into_iter().flat_map(|kind| kind.spec().references);
    let expected = references.map(|reference| reference.field).filter(|it| *it != Field::Client);
    assert_eq!(fields, expected.collect());
}

/// Nothing that a kind claims is lost with what it grants, and what cannot be read claims no less.
#[test]
fn an_object_claims_the_same_valid_and_withdrawn() {
    for document in document::read(include_str!("good.yaml")) {
        let object = parse(&document.value.unwrap()).unwrap();
        let key = &object.meta.key;
        let Body::Valid(resource) = &object.body else { panic!("{key} is invalid") };
        let (spec, meta) = (key.kind.spec(), object.meta.clone());
        let invalid = Invalid { errors: Vec::new(), claims: spec.claims(Some(resource)) };
        let withdrawn = Object { meta, body: Body::Invalid(invalid) };
        // What an invalid object of these does not do harms nobody.
        let unclaimed = [Kind::HttpRouteClass, Kind::GrpcServiceClass, Kind::TimeoutPolicy];
        let followed = [Field::Authentication, Field::Backend, Field::Delegate];
        let claimed = |named: &ObjectReference| {
            !followed.contains(&named.field) && !unclaimed.contains(&key.kind)
        };
        let expected: Vec<ObjectReference> =
            object.references().into_iter().filter(claimed).collect();
        assert_eq!(withdrawn.references(), expected, "{key}");
        assert_eq!(
            std::mem::discriminant(&spec.claims(Some(resource))),
            std::mem::discriminant(&spec.claims(None)),
            "{key}"
        );
    }
}
