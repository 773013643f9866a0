//! Every posted body gets a response with its uid.

use crate::admission::AdmissionMetrics;
use crate::admission::service::Service;
use policy_crds::Kind;
use policy_crds::spec::Admission;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON, among whose names are those of reviews and policies.
fn anything() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "spec",
        "metadata",
        "annotations",
        "parentRefs",
        "rules",
        "matches",
        "path",
        "value",
        "kind",
        "name",
        "group",
        "Server",
        "policy.linkerd.io",
        "port",
        "podSelector",
        "networks",
        "cidr",
        "10.0.0.0/8",
        "deletionTimestamp",
        "labels",
        "to",
        "from",
        "identities",
        "*",
        "",
        "targetRef",
        "config.linkerd.io/default-inbound-policy",
        "deny",
        "apiVersion",
        "policy.linkerd.io/v1beta3",
        "EgressNetwork",
        "trafficPolicy",
        "filters",
        "type",
        "URLRewrite",
        "urlRewrite",
    ]);
    let text = prop_oneof![words.prop_map(str::to_owned), any::<String>()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A review of an object of a kind that is read, whose parts may be anything.
fn reviews() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let operation = prop::sample::select(vec!["CREATE", "UPDATE", "DELETE", "else"]);
    (kind, operation, anything(), anything(), anything(), anything(), any::<bool>()).prop_map(
        |(kind, operation, spec, metadata, whole, old, shaped)| {
            let version = kind.versions()[0];
            let shape = |spec: Value| {
                let group = kind.group();
                let slash = if group.is_empty() { "" } else { "/" };
                json!({
                    "apiVersion": format!("{group}{slash}{version}"),
                    "kind": kind.as_str(),
                    "metadata": metadata,
                    "spec": spec,
                })
            };
            let (object, old) = if shaped { (shape(spec), shape(old)) } else { (whole, old) };
            json!({
                "kind": {"group": kind.group(), "kind": kind.as_str(), "version": version},
                "operation": operation,
                "object": object,
                "oldObject": old,
            })
        },
    )
}

fn answer(body: &[u8]) -> (u16, Value) {
    answer_of(body, false)
}

fn answer_of(body: &[u8], linkerd_compatible: bool) -> (u16, Value) {
    let service =
        Service::new(None, AdmissionMetrics::default()).with_linkerd_compatible(linkerd_compatible);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (status, text) = runtime.block_on(service.answer_bytes(body));
    (status, serde_json::from_slice(&text).unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_review_is_answered_with_its_uid(
        mut request in reviews(),
        uid in "[a-z0-9-]{1,36}",
        linkerd_compatible in any::<bool>(),
    ) {
        request["uid"] = json!(uid);
        let kind = request["kind"].clone();
        let body = json!({"apiVersion": "admission.k8s.io/v1", "request": request});
        let (status, answer) = answer_of(body.to_string().as_bytes(), linkerd_compatible);
        prop_assert_eq!(status, 200);
        prop_assert_eq!(&answer["response"]["uid"], &json!(uid));
        prop_assert!(answer["response"]["allowed"].is_boolean());
        let known = Kind::find(kind["group"].as_str().unwrap(), kind["kind"].as_str().unwrap());
        let admission = known.map(|kind| kind.spec().admission);
        let never = matches!(admission, Some(Admission::Workload | Admission::Foreign))
            || (admission == Some(Admission::Outbound) && !linkerd_compatible);
        if never {
            prop_assert_eq!(&answer["response"]["allowed"], &json!(true));
        }
    }

    #[test]
    fn any_json_with_a_request_is_answered(mut review in anything(), request in anything()) {
        if let Value::Object(fields) = &mut review {
            fields.insert("request".to_owned(), request.clone());
        }
        let (status, answer) = answer(review.to_string().as_bytes());
        prop_assert_eq!(status, 200);
        let expected = match (&review, &request) {
            (Value::Object(_), Value::Object(request)) => request.get("uid").and_then(Value::as_str),
            _ => None,
        };
        prop_assert_eq!(answer["response"]["uid"].as_str(), Some(expected.unwrap_or_default()));
    }

    #[test]
    fn what_is_not_json_is_answered_too(body in prop::collection::vec(any::<u8>(), 0..64)) {
        let (status, _) = answer(&body);
        prop_assert!(status == 200 || status == 400);
    }
}

#[test]
fn a_review_without_a_request_is_refused() {
    let (status, answer) = answer(b"{}");
    assert_eq!(status, 200);
    assert_eq!(
        answer,
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {
                "uid": "",
                "allowed": false,
                "status": {
                    "message": crate::review::NO_REQUEST,
                    "reason": "BadRequest",
                    "code": 400,
                },
            },
        })
    );
}

#[test]
fn a_refusal_names_object_and_field_for_programs_too() {
    let body = super::review(
        "CREATE",
        &super::value(&super::object(Kind::Server, "{podSelector: {}, port: 0}")),
        &Value::Null,
    );
    let (_, answer) = answer(body.to_string().as_bytes());
    assert_eq!(
        answer["response"],
        json!({
            "uid": "6a1b",
            "allowed": false,
            "status": {
                "message": "Server one is invalid: spec.port: expected a number from 1 to 65535 or \
                            the name of a port, found `0`",
                "reason": "Invalid",
                "code": 422,
                "details": {
                    "name": "one",
                    "group": "policy.linkerd.io",
                    "kind": "Server",
                    "causes": [{
                        "reason": "FieldValueInvalid",
                        "message": "expected a number from 1 to 65535 or the name of a port, found \
                                    `0`",
                        "field": "spec.port",
                    }],
                },
            },
        })
    );
}

#[test]
fn without_an_index_the_verdict_holds_and_says_that_references_were_not_checked() {
    let body = super::review(
        "CREATE",
        &super::value(&super::object(Kind::Server, "{podSelector: {}, port: 80}")),
        &Value::Null,
    );
    let (_, answer) = answer(body.to_string().as_bytes());
    assert_eq!(answer["response"]["allowed"], true);
    let warnings = answer["response"]["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].as_str().unwrap().starts_with("spec.podSelector: is empty"),
        "{warnings:?}"
    );
    assert_eq!(warnings[1], crate::validation::UNCHECKED);
}

#[test]
fn a_uid_that_no_api_server_makes_is_not_answered_back() {
    for (length, code) in [(256, Value::Null), (257, json!(400)), (1024 * 1024, json!(400))] {
        let (status, answer) =
            answer(json!({"request": {"uid": "a".repeat(length)}}).to_string().as_bytes());
        let expected = if code.is_null() { length } else { 0 };
        assert_eq!(answer["response"]["uid"].as_str().map(str::len), Some(expected));
        assert_eq!((status, &answer["response"]["status"]["code"]), (200, &code));
    }
}

#[test]
fn an_answer_stays_short_however_long_the_object_s_own_texts_are() {
    let (long, word) = ("ä".repeat(200_000), "x".repeat(10_000));
    let networks: Vec<Value> = (0..500).map(|_| json!({"cidr": word})).collect();
    for (kind, spec) in [
        (Kind::Server, format!("{{podSelector: {{}}, port: {long}}}")),
        (Kind::NetworkAuthentication, format!("{{networks: {}}}", json!(networks))),
    ] {
        let mut object = super::value(&super::object(kind, &spec));
        object["metadata"]["name"] = json!(long);
        let body = super::review("CREATE", &object, &Value::Null).to_string();
        let (_, answer) = answer(body.as_bytes());
        assert_eq!(answer["response"]["allowed"], false);
        assert!(answer.to_string().len() < 160 * 1024, "{}", answer.to_string().len());
        let message = answer["response"]["status"]["message"].as_str().unwrap();
        assert!(message.ends_with('…'), "{} bytes", message.len());
    }
}
