//! Reviews that are never denied: other objects, changes of nothing that is validated, deletions.

use super::{created, object, review, updated, value, verdict};
use policy_crds::Kind;
use serde_json::{Value, json};

const BROKEN: &str = "{podSelector: {}, port: 0}";

fn with(manifest: &str, pointer: &str, new: Value) -> Value {
    let mut object = value(manifest);
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[last] = new;
    object
}

#[test]
fn kinds_that_are_not_ours() {
    assert_eq!(created(&object(Kind::EgressNetwork, "{networks: []}")), "passed");
    let other = "{apiVersion: example.com/v1, kind: Gate, metadata: {name: one}, spec: {}}";
    assert_eq!(created(other), "passed");
    let route = "{apiVersion: gateway.networking.k8s.io/v1alpha2, kind: TCPRoute, \
                 metadata: {name: one, namespace: shop}, spec: {rules: []}}";
    assert_eq!(created(route), "passed");
}

#[test]
fn routes_without_a_server_among_their_parents() {
    let parents = [
        "",
        "parentRefs: [], ",
        "parentRefs: [{name: gateway}], ",
        "parentRefs: [{group: '', kind: Service, name: a}], ",
        "parentRefs: [{group: policy.linkerd.io, kind: EgressNetwork, name: a}], ",
        "parentRefs: [{group: example.com, kind: Server, name: a}], ",
        "parentRefs: [{group: example.com, kind: InboundRoute, name: a}], ",
    ];
    for kind in [Kind::PolicyHttpRoute, Kind::GatewayHttpRoute, Kind::GrpcRoute] {
        for parents in parents {
            let spec = format!("{{{parents}rules: [{{matches: [{{path: {{value: x}}}}]}}]}}");
            assert_eq!(created(&object(kind, &spec)), "passed", "{spec}");
        }
        for parents in [
            "[{group: policy.linkerd.io, kind: Server, name: a}]",
            "[{group: POLICY.linkerd.io, kind: server, name: a}]",
            "[{name: gateway}, {kind: Server, name: a}]",
            "[{group: portcullis.dev, kind: InboundRoute, name: a, namespace: b}]",
            "[{kind: inboundroute, name: a}]",
            "[{kind: 7, name: a}]",
            "[7]",
            "7",
        ] {
            let spec = format!("{{parentRefs: {parents}, rules: 7}}");
            let said = created(&object(kind, &spec));
            assert!(said.contains("is invalid: "), "{spec}: {said}");
        }
    }
    let left = updated(
        &object(
            Kind::GrpcRoute,
            "{parentRefs: [{group: policy.linkerd.io, kind: Server, name: a}]}",
        ),
        &object(Kind::GrpcRoute, "{parentRefs: [{name: gateway}], rules: 7}"),
    );
    assert_eq!(left, "passed", "it left its Server");
}

#[test]
fn grants_on_other_kinds() {
    let spec = "{from: [{group: a, kind: B, namespace: '*'}], to: [{group: '', kind: Service}]}";
    assert_eq!(created(&object(Kind::ReferenceGrant, spec)), "passed");
}

#[test]
fn objects_being_deleted() {
    let broken = object(Kind::Server, BROKEN);
    let ending = with(&broken, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let sound = value(&object(Kind::Server, "{podSelector: {}, port: 1}"));
    assert_eq!(verdict(&review("UPDATE", &ending, &sound)), "passed");
}

#[test]
fn changes_of_nothing_that_is_judged() {
    let broken = object(Kind::Server, BROKEN);
    assert!(created(&broken).contains("is invalid"));
    assert_eq!(updated(&broken, &broken), "passed");
    for (pointer, new) in [
        ("/metadata/labels", json!({"team": "a"})),
        ("/metadata/finalizers", json!(["example.com/wait"])),
        ("/metadata/annotations", json!({"example.com/note": "a"})),
        ("/status", json!({"conditions": []})),
    ] {
        let changed = with(&broken, pointer, new);
        assert_eq!(verdict(&review("UPDATE", &changed, &value(&broken))), "passed", "{pointer}");
    }
    let worse = with(&broken, "/spec/proxyProtocol", json!("TLS"));
    assert!(verdict(&review("UPDATE", &worse, &value(&broken))).contains("is invalid"));
    let annotated =
        with(&broken, "/metadata/annotations", json!({"portcullis.dev/path-normalization": "raw"}));
    let said = verdict(&review("UPDATE", &annotated, &value(&broken)));
    assert!(said.contains("is invalid"), "an annotation that carries policy: {said}");
}

#[test]
fn an_annotation_that_nothing_reads_is_remarked_on_where_an_update_adds_it() {
    let (server, broken) = (object(Kind::Server, "{podSelector: {}, port: 1}"), BROKEN);
    let added = json!({"config.linkerd.io/default-inbound-polcy": "deny"});
    let (grant, broken) = (object(Kind::AuthorizationPolicy, "{}"), object(Kind::Server, broken));
    let deny = json!({"config.linkerd.io/default-inbound-policy": "deny"});
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}".to_owned();
    for (old, annotations, said) in [
        (&server, &deny, "nothing reads it on a Server"),
        (&broken, &deny, "nothing reads it on a Server"),
        (&grant, &deny, "nothing reads it on a AuthorizationPolicy"),
        (&namespace, &added, "nothing reads this annotation"),
    ] {
        let new = with(old, "/metadata/annotations", annotations.clone());
        let found = verdict(&review("UPDATE", &new, &value(old)));
        assert!(found.starts_with("sound: ") && found.contains(said), "{old}: {found}");
        assert_eq!(verdict(&review("UPDATE", &new, &new)), "passed", "{old}");
    }
}

#[test]
fn a_server_whose_labels_alone_change_is_reviewed_and_never_denied() {
    let new_labels = json!({"team": "a"});
    for (spec, expected) in [("{podSelector: {}, port: 1}", "sound"), (BROKEN, "passed")] {
        let old = object(Kind::Server, spec);
        let new = with(&old, "/metadata/labels", new_labels.clone());
        let found = verdict(&review("UPDATE", &new, &value(&old)));
        assert!(found.starts_with(expected), "{spec}: {found}");
    }
}

#[test]
fn operations_and_subresources_that_change_no_object() {
    let broken = value(&object(Kind::Server, BROKEN));
    for operation in ["DELETE", "CONNECT", ""] {
        assert_eq!(verdict(&review(operation, &broken, &Value::Null)), "passed", "{operation}");
    }
    let mut status = review("UPDATE", &broken, &Value::Null);
    status["request"]["subResource"] = json!("status");
    assert_eq!(verdict(&status), "passed");
}

#[test]
fn a_deletion_is_looked_at_where_it_takes_routes_or_a_tree_from_a_server_and_is_never_refused() {
    let route =
        |kind: Kind, parent: &str| object(kind, &format!("{{parentRefs: [{parent}], rules: []}}"));
    let deleted = |old: &Value| {
        let mut review_json = review("DELETE", old, old);
        review_json["request"]["object"] = Value::Null;
        verdict(&review_json)
    };
    let server = "{group: policy.linkerd.io, kind: Server, name: web}";
    for kind in Kind::routes() {
        assert_eq!(deleted(&value(&route(kind, server))), "deletes", "{kind:?}");
        // An unreadable route still binds its Server.
        assert_eq!(
            deleted(&value(&route(kind, &format!("{server}, nonsense")))),
            "deletes",
            "{kind:?}"
        );
        assert_eq!(deleted(&value(&route(kind, "{name: gateway}"))), "passed", "{kind:?}");
        let ending = with(
            &route(kind, server),
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        );
        assert_eq!(deleted(&ending), "passed", "{kind:?}");
    }
    for kind in [Kind::InboundRoute, Kind::HttpRouteBinding, Kind::GrpcServiceBinding] {
        for spec in ["{routes: []}", "7"] {
            assert_eq!(deleted(&value(&object(kind, spec))), "deletes", "{kind:?} {spec}");
        }
    }
    for other in [Kind::Server, Kind::RouteAdmissionPolicy, Kind::HttpRouteGroup] {
        assert_eq!(deleted(&value(&object(other, BROKEN))), "passed");
    }
}

#[test]
fn pods_and_namespaces_are_told_and_never_refused() {
    let annotated = |kind: &str, spec: &str, annotation: &str| {
        format!(
            "{{apiVersion: v1, kind: {kind}, metadata: {{name: one, annotations: {{{annotation}}}}}, \
              spec: {spec}}}"
        )
    };
    let policy = "config.linkerd.io/default-inbound-policy";
    let message = "metadata.annotations[\"config.linkerd.io/default-inbound-policy\"]: unknown value \
                   `denny`, which denies until it is corrected; did you mean `deny`?";
    for (kind, spec) in [("Pod", "{containers: [{name: a}]}"), ("Namespace", "{}")] {
        let wrong = annotated(kind, spec, &format!("{policy}: denny"));
        assert_eq!(created(&wrong), format!("sound: {message}"));
        assert_eq!(created(&annotated(kind, spec, &format!("{policy}: deny"))), "sound");
        assert_eq!(updated(&wrong, &wrong), "passed", "the warning came with the first write");
    }
    let broken = annotated("Pod", "7", &format!("{policy}: denny"));
    assert_eq!(created(&broken), "sound", "the API server says more");
}

#[test]
fn a_namespace_with_a_mistyped_injection_annotation_gets_a_warning() {
    let namespace = |annotations: &str| {
        format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: one, \
              annotations: {{{annotations}}}}}, spec: {{}}}}"
        )
    };
    let field = |name: &str| format!("metadata.annotations[\"{name}\"]");
    let mistyped = namespace("portcullis.dev/injcet: enabled");
    let expected = format!(
        "sound: {}: there is no such annotation; did you mean `portcullis.dev/inject`?",
        field("portcullis.dev/injcet")
    );
    assert_eq!(created(&mistyped), expected);
    assert_eq!(updated(&namespace(""), &mistyped), expected, "added later");
    assert_eq!(updated(&mistyped, &mistyped), "passed", "the warning came with the first write");
    let unread = namespace("portcullis.dev/inject: enable");
    let expected = format!(
        "sound: {}: unknown value `enable`; did you mean `enabled`?",
        field("portcullis.dev/inject")
    );
    assert_eq!(created(&unread), expected);
    let linkerds = namespace("linkerd.io/inject: ingress");
    assert_eq!(created(&linkerds), "sound", "it asks Linkerd's injector");
    assert_eq!(created(&namespace("portcullis.dev/inject: enabled")), "sound");
}

#[test]
fn a_namespace_is_told_of_a_list_that_cannot_be_read_and_of_settings_that_are_left_aside() {
    let namespace = |annotations: &str| {
        format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: one, \
              annotations: {{{annotations}}}}}, spec: {{}}}}"
        )
    };
    let list = |ports: &str| {
        namespace(&format!("config.linkerd.io/proxy-require-identity-inbound-ports: '{ports}'"))
    };
    let expected = "sound: metadata.annotations[\"config.linkerd.io/proxy-require-identity-inbound-ports\"]: \
                `8o80` is neither a port from 1 to 65535, nor a range of them, nor the name of a port, \
                every port requires an identity until it is corrected";
    assert_eq!(created(&list("metrics,8o80")), expected);
    assert_eq!(updated(&list("metrics"), &list("metrics,8o80")), expected);
    assert_eq!(created(&list("metrics,8080,9000-9010")), "sound");
    for name in ["config.linkerd.io/proxy-await", "config.alpha.linkerd.io/anything"] {
        let [off, on] = ["disabled", "enabled"]
            .map(|asks| namespace(&format!("portcullis.dev/inject: {asks}, {name}: enabled")));
        let expected = format!(
            "sound: metadata.annotations[\"{name}\"]: has no effect on the sidecars of Portcullis"
        );
        assert_eq!(created(&on), expected);
        assert_eq!(updated(&namespace("portcullis.dev/inject: enabled"), &on), expected);
        assert_eq!(created(&off), "sound", "there are none");
        assert_eq!(updated(&on, &on), "passed", "the warning came with the first write");
    }
}

#[test]
fn objects_whose_name_the_api_server_has_yet_to_make() {
    let generated = "{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
                     metadata: {generateName: web-}, \
                     spec: {podSelector: {matchLabels: {a: b}}, port: 80}}";
    let mut review_json = review("CREATE", &value(generated), &Value::Null);
    review_json["request"]["namespace"] = json!("shop");
    assert_eq!(verdict(&review_json), "sound");
}

#[test]
fn a_policy_for_its_own_namespace_is_judged_by_the_namespace_of_the_request() {
    let policy = "{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, \
                  metadata: {name: one}, spec: {targetRef: {kind: Namespace, name: shop}, \
                  requiredAuthenticationRefs: [{kind: ServiceAccount, name: a}]}}";
    let mut review_json = review("CREATE", &value(policy), &Value::Null);
    review_json["request"]["namespace"] = json!("shop");
    assert_eq!(verdict(&review_json), "sound");
}
