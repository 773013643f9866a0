//! HeaderRewritePolicies.

use crate::support::{claims, errors, object, resource};
use policy_core::filter::HeaderRewrite;
use policy_core::{EffectCondition, SegmentCondition, SegmentOperator};
use policy_crds::resource::{HeaderRewritePolicy, PolicyTarget};
use policy_crds::{Claims, Kind, Resource, document, parse};
use serde_json::{Value, json};

const OURS: &str = "portcullis.dev/v1alpha1";

/// The policy of the proposal that the kind comes from, word for word.
const SEED: &str = r#"
# Rules apply in order so that `x-foobar` is **always** cleared when
# `host: example.com` is set.
kind: HeaderRewritePolicy
metadata:
  name: example-headers
spec:
  targetRef:
    kind: Server
    name: example-server
  rules:
    - set:
        x-foobar: yahoo
      match:
        - header:
            key: content-type
            op: In
            values:
              - application/json
    - clear:
        - x-foobar
      match:
        - header:
            key: host
            op: In
            values:
              - example.com
"#;

fn policy(object: policy_crds::Object) -> HeaderRewritePolicy {
    match resource(object) {
        Resource::HeaderRewritePolicy(policy) => policy,
        other => panic!("{other:?}"),
    }
}

fn spec(rules: &str) -> String {
    format!("targetRef: {{kind: Server, name: web}}\nrules: {rules}")
}

/// The conditions of an effect in words.
fn when(rewrite: &HeaderRewrite) -> Vec<String> {
    rewrite.when.iter().map(|it| format!("{it:?}")).collect()
}

/// T91: the policy is read as it is written, and its rules stay in order.
#[test]
fn the_policy_of_the_proposal_is_read_as_it_is_written() {
    let text = format!("apiVersion: {OURS}\n{}", SEED.trim_start());
    let value = document::read(&text).remove(0).value.unwrap();
    let policy = policy(parse(&value).unwrap());
    assert_eq!(policy.target, PolicyTarget::Server("example-server".into()));
    assert!(!policy.required);
    let [json, host] = &policy.rewrites(&[])[..] else { panic!("{policy:?}") };
    assert_eq!(
        (&json.set[..], json.clear.len(), json.add.len()),
        (&[("x-foobar".parse().unwrap(), "yahoo".parse().unwrap())][..], 0, 0)
    );
    assert_eq!(
        when(json),
        [
            "Header(HeaderCondition { name: \"content-type\", operator: In([\"application/json\"]) })"
        ]
    );
    assert_eq!(host.clear, ["x-foobar"]);
    assert_eq!(
        when(host),
        ["Header(HeaderCondition { name: \"host\", operator: In([\"example.com\"]) })"]
    );
}

#[test]
fn the_conditions_of_a_class_come_first() {
    let policy = policy(object(
        OURS,
        "HeaderRewritePolicy",
        "targetRef: {kind: HttpRouteClass, name: a}\nfailure: Deny\n\
         rules: [{match: [{header: {key: X-A, op: DoesNotExist}}], add: {x-b: c}}]",
    ));
    let class = SegmentCondition::new("id", 1, SegmentOperator::In, ["42"]);
    let rewrites = policy.rewrites(std::slice::from_ref(&class));
    let [rewrite] = &rewrites[..] else { panic!() };
    assert_eq!(rewrite.when[0], EffectCondition::Segment(class));
    assert_eq!(
        when(rewrite)[1],
        "Header(HeaderCondition { name: \"x-a\", operator: DoesNotExist })"
    );
    assert!(rewrite.required);
    let target = PolicyTarget::Route { kind: Kind::HttpRouteClass, name: "a".into() };
    assert_eq!(policy.target, target);
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_rewrite_policy_is_checked() {
    let one = |rule: &str| spec(&format!("[{rule}]"));
    let given = |condition: &str| one(&format!("{{match: [{{header: {condition}}}], clear: [x-a]}}"));
    let rule = |text: &str| vec![format!("spec.rules[0].{text}")];
    let header = |text: &str| vec![format!("spec.rules[0].match[0].header.{text}")];
    let many = Value::from(vec![json!({"clear": ["x-a"]}); 17]);
    let headers = Value::from((0..17).map(|i| (format!("x-{i}"), json!("v"))).collect::<serde_json::Map<_, _>>());
    let table: Vec<(String, Vec<String>)> = vec![
        ("targetRef: {kind: Server, name: web}".into(), vec!["spec.rules: is required".into()]),
        (spec("[]"), vec!["spec.rules: must not be empty: a policy without rules changes nothing".into()]),
        (spec(&many.to_string()), vec!["spec.rules: 17 elements, at most 16 are allowed".into()]),
        (one("{}"), vec!["spec.rules[0]: changes nothing: one of `clear`, `set`, `add` is required".into()]),
        (one("{clear: [], set: {}, add: {}}"), vec!["spec.rules[0]: changes nothing: one of `clear`, `set`, `add` is required".into()]),
        (one("{match: [], clear: [x-a], add: {x-a: b}}"), vec![]),
        (one("{remove: [x-a]}"), vec!["spec.rules[0].remove: unknown field, expected one of `match`, `clear`, `set`, `add`".into(), "spec.rules[0]: changes nothing: one of `clear`, `set`, `add` is required".into()]),
        (format!("{}\nfailure: deny", one("{clear: [x-a]}")), vec!["spec.failure: unknown value `deny`, expected one of `Ignore`, `Deny`".into()]),
        // Names and values.
        (one("{clear: [x-a, X-A]}"), rule("clear[1]: `x-a` appears twice")),
        (one("{set: {x-a: b, X-A: c}}"), rule("set.x-a: `x-a` appears twice: upper and lower case are the same header")),
        (one("{clear: ['a b']}"), rule("clear[0]: `a b` is not a header name")),
        (one("{clear: ['']}"), rule("clear[0]: `` is not a header name")),
        (one("{set: {'a b': c}}"), rule("set[\"a b\"]: `a b` is not a header name")),
        (one("{set: {é: c}}"), rule("set[\"é\"]: `é` is not a header name")),
        (one("{add: {x-a: ''}}"), rule("add.x-a: must not be empty")),
        (one("{add: {x-a: é}}"), rule("add.x-a: `é` has characters that no header value may have")),
        (one("{add: {x-a: ' b'}}"), rule("add.x-a: ` b` begins or ends with a space, which requests lose")),
        (one("{add: {x-a: [b]}}"), rule("add.x-a: expected text, found a list")),
        (one(&format!("{{set: {headers}}}")), rule("set: 17 headers, at most 16 are allowed")),
        // Conditions.
        (given("{key: host, op: In, values: [Example.COM]}"), vec![]),
        (given("{key: x-a, op: Exists}"), vec![]),
        (given("{key: x-a, op: In}"), header("values: at least one is required with one of `In`, `NotIn`")),
        (given("{key: x-a, op: DoesNotExist, values: [b]}"), header("values: must be absent with one of `Exists`, `DoesNotExist`")),
        (given("{key: x-a, op: Equals, values: [b]}"), header("op: unknown value `Equals`, expected one of `In`, `NotIn`, `Exists`, `DoesNotExist`")),
        (given("{name: x-a, op: Exists}"), vec!["spec.rules[0].match[0].header.name: unknown field, expected one of `key`, `op`, `values`".into(), "spec.rules[0].match[0].header.key: is required".into()]),
        (given("{key: ':authority', op: Exists}"), header("key: `:authority` is a pseudo-header: match `host` instead")),
        (given("{key: ':path', op: Exists}"), header("key: `:path` is a pseudo-header, not a header")),
        (given("{key: L5d-Client-Id, op: Exists}"), header("key: `L5d-Client-Id` is the mesh's own: it is removed from requests")),
        (given("{key: host, op: In, values: ['a:80']}"), header("values[0]: `a:80` has a port, hosts are matched without it")),
        (one("{match: [{}], clear: [x-a]}"), rule("match[0].header: is required")),
        (one("{match: [{method: GET}], clear: [x-a]}"), vec!["spec.rules[0].match[0].method: unknown field, expected `header`".into(), "spec.rules[0].match[0].header: is required".into()]),
    ];
    for (spec, expected) in table {
        assert_eq!(errors(&object(OURS, "HeaderRewritePolicy", &spec)), expected, "{spec}");
    }
}

/// T93: headers that belong to the connection, to the mesh, or to HTTP itself, and those that CGI and
/// WSGI applications take for them.
#[test]
fn no_policy_changes_reserved_headers() {
    let connection = "belongs to the connection and cannot be changed";
    let mesh = "is the mesh's own: it is removed from requests";
    for (name, why) in [
        ("connection", connection),
        ("content-length", connection),
        ("content_length", connection),
        ("host", connection),
        ("keep-alive", connection),
        ("proxy-connection", connection),
        ("te", connection),
        ("trailer", connection),
        ("transfer-encoding", connection),
        ("transfer_encoding", connection),
        ("upgrade", connection),
        ("l5d-client-id", mesh),
        ("l5d_client_id", mesh),
        ("l5d_connection-secure", mesh),
        ("l5d-", mesh),
        ("forwarded", "says who the client is and cannot be changed"),
        (":authority", "is a pseudo-header: match `host` instead"),
        (":method", "is a pseudo-header, not a header"),
    ] {
        for name in [name.to_owned(), name.to_ascii_uppercase()] {
            let written = if why == connection { name.to_lowercase() } else { name.clone() };
            let shown = if name.eq_ignore_ascii_case("forwarded") { "forwarded" } else { &written };
            for rule in [
                json!({"clear": [name]}),
                json!({"set": {(name.as_str()): "v"}}),
                json!({"add": {(name.as_str()): "v"}}),
            ] {
                let found =
                    errors(&object(OURS, "HeaderRewritePolicy", &spec(&json!([rule]).to_string())));
                assert_eq!(found.len(), 1, "{name} {found:?}");
                assert!(found[0].ends_with(&format!(": `{shown}` {why}")), "{name} {found:?}");
            }
        }
    }
}

/// An edit with a mistake does not let requests through without the changes.
#[test]
fn an_invalid_policy_keeps_that_its_changes_are_required() {
    let claimed = |spec: &str| match claims(object(OURS, "HeaderRewritePolicy", spec)) {
        Claims::HeaderRewrite { target, required } => (target, required),
        other => panic!("{other:?}"),
    };
    let web = || Some(PolicyTarget::Server("web".into()));
    let rest = spec("[{clear: [host]}]");
    for (failure, required) in [
        ("", false),
        ("failure: Ignore", false),
        ("failure:", false),
        ("failure: Deny", true),
        ("failure: deny", true),
        ("failure: true", true),
        ("failur: Deny", true),
    ] {
        assert_eq!(claimed(&format!("{rest}\n{failure}")), (web(), required), "{failure}");
    }
    assert_eq!(claimed("rules: [{clear: [x-a]}]\nfailure: Deny"), (None, true));
    let unreadable = Kind::HeaderRewritePolicy.spec().claims(None);
    assert_eq!(unreadable, Claims::HeaderRewrite { target: None, required: true });
}
