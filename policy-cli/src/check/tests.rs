//! Examples of findings.

use super::*;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}\n\
                   spec: {containers: [{name: a, ports: [{name: http, containerPort: 8080}]}]}\n---\n";

const SERVER: &str = "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
                      metadata: {name: web, namespace: shop}\n\
                      spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: HTTP/1, accessPolicy: deny}\n---\n";

fn reported(text: &str) -> Vec<(Severity, String)> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("all.yaml"), text).unwrap();
    let findings = check(directory.path(), &ControllerConfig::default()).unwrap();
    findings
        .diagnostics
        .into_iter()
        .map(|diagnostic| {
            let line = diagnostic.line.unwrap_or(0);
            let field = diagnostic.field.clone().unwrap_or_default();
            (diagnostic.severity, format!("{line} {field}: {}", diagnostic.message))
        })
        .collect()
}

fn warns(text: &str, expected: &str) {
    let reported = reported(text);
    let found = reported
        .iter()
        .any(|(severity, text)| *severity == Severity::Warning && text.contains(expected));
    assert!(found, "`{expected}` not in {reported:#?}");
}

#[test]
fn sound_manifests_are_passed_over_in_silence() {
    assert_eq!(reported(&format!("{POD}{SERVER}")), []);
}

#[test]
fn a_selector_that_selects_nothing_is_reported() {
    let server = SERVER.replace("app: web}}", "app: wbe}}");
    warns(&format!("{POD}{server}"), "9 spec.podSelector: selects no pod of namespace `shop`");
}

#[test]
fn a_port_name_that_no_pod_has_is_reported() {
    let server = SERVER.replace("port: http", "port: grpc");
    warns(
        &format!("{POD}{server}"),
        "9 spec.port: no selected pod has a port named `grpc`; they have `http` (8080)",
    );
}

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n\
     spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n---\n";

#[test]
fn a_server_for_the_port_of_a_service_in_place_of_its_pods_is_reported() {
    let server = SERVER.replace("port: http", "port: 80");
    warns(
        &format!("{SERVICE}{POD}{server}"),
        "14 spec.port: 80 is a port of Service shop/web, whose pods listen on their port `http`; a \
         Server names the port of its pods",
    );
    // Another Service shows that they listen on the number itself.
    let headless = SERVICE.replace("name: web", "name: all").replace(", targetPort: http", "");
    assert_eq!(reported(&format!("{SERVICE}{headless}{POD}{server}")), []);
    // So does another port of the Service.
    let second = "targetPort: http}, {name: second, port: 9090, targetPort: 80}";
    let twice =
        SERVICE.replace("targetPort: http}", second).replace("{port: 80", "{name: a, port: 80");
    assert_eq!(reported(&format!("{twice}{POD}{server}")), []);
    assert_eq!(reported(&format!("{SERVICE}{POD}{SERVER}")), []);
}

#[test]
fn a_dangling_reference_is_located() {
    let policy = "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
                  metadata: {name: p, namespace: shop}\nspec:\n\
                  \x20 targetRef: {group: policy.linkerd.io, kind: Server, name: web}\n\
                  \x20 requiredAuthenticationRefs:\n\
                  \x20 - {group: policy.linkerd.io, kind: MeshTLSAuthentication, name: missing}\n";
    warns(&format!("{POD}{SERVER}{policy}"), "17 spec.requiredAuthenticationRefs[0].name: ");
}

#[test]
fn an_empty_list_is_reported_in_words() {
    let policy = "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
                  metadata: {name: p, namespace: shop}\n\
                  spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, \
                  requiredAuthenticationRefs: []}\n";
    let text = format!("{POD}{SERVER}{policy}");
    warns(&text, "spec.requiredAuthenticationRefs: empty asks for nothing");
}

#[test]
fn a_match_that_is_never_reached_is_reported() {
    let route = |name: &str| {
        format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
             metadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n  \
             rules:\n  - matches:\n    - path: {{value: /a}}\n---\n"
        )
    };
    let text = format!("{POD}{SERVER}{}{}", route("a"), route("b"));
    warns(
        &text,
        "spec.rules[0].matches[0]: never reached: HTTPRoute shop/a matches `* /a/…` first",
    );
}

#[test]
fn a_broken_rule_is_an_error_with_its_place() {
    let server = SERVER.replace("HTTP/1", "HTTP/3");
    let reported = reported(&format!("{POD}{server}"));
    let errors: Vec<_> =
        reported.iter().filter(|(severity, _)| *severity == Severity::Error).collect();
    assert_eq!(errors.len(), 1, "{reported:#?}");
    assert!(errors[0].1.starts_with("9 spec.proxyProtocol: "), "{reported:#?}");
}

#[test]
fn a_server_whose_port_another_owns_names_the_owner() {
    let second = SERVER.replace("name: web", "name: zeb");
    let text = format!("{POD}{SERVER}{second}");
    warns(&text, "spec.port: takes no effect: what it selects is owned by Server shop/web");
    let elsewhere = POD.replace("name: web", "name: zeb").replace("name: http", "name: https");
    let third = SERVER.replace("name: web", "name: zeb").replace("port: http", "port: https");
    assert_eq!(reported(&format!("{POD}{SERVER}{elsewhere}{third}")), []);
}

#[test]
fn what_may_surprise_is_reported() {
    let route = "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
                 metadata: {name: r, namespace: shop}\n\
                 spec:\n  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n  \
                 rules: [{matches: [{path: {value: '/a/*'}}]}]\n";
    let text = format!("{POD}{SERVER}{route}");
    warns(&text, "spec.rules[0].matches[0].path.value: `*` is an ordinary character");
}

#[test]
fn rules_that_linkerd_would_order_otherwise_are_reported() {
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {name: r, namespace: shop}\n\
                 spec:\n  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n  \
                 rules: [{matches: [{path: {value: /a}}]}, \
                 {matches: [{path: {type: Exact, value: /a}}]}]\n";
    warns(
        &format!("{POD}{SERVER}{route}"),
        "to HTTPRoute shop/r spec.rules[0] in Linkerd's proxies",
    );
}
