//! HTTPRoutes of both groups and GRPCRoutes.

use crate::support::{check, claims, errors, object, resource};
use http::Method;
use policy_core::filter::RedirectPath;
use policy_core::{FilterKind, HostPattern, PathPattern, RequestMatch, ValueMatch, WrittenMatch};
use policy_crds::resource::RouteResource;
use policy_crds::{Claims, Resource};
use std::time::Duration;

const POLICY: &str = "policy.linkerd.io/v1beta3";
const GATEWAY: &str = "gateway.networking.k8s.io/v1";

fn route(api_version: &str, kind: &str, spec: &str) -> RouteResource {
    match resource(object(api_version, kind, spec)) {
        Resource::Route(route) => route,
        other => panic!("{other:?}"),
    }
}

fn only_match(spec: &str) -> RequestMatch {
    route(POLICY, "HTTPRoute", spec).rules.remove(0).matches.remove(0)
}

#[test]
fn a_route_that_states_no_rules_matches_everything() {
    let everything = RequestMatch::everything();
    let unwritten = |request: RequestMatch| request.with_written(WrittenMatch::Nothing);
    for (spec, expected) in [
        ("{}", everything.clone()),
        ("rules: [{}]", everything.clone()),
        ("rules: [{matches: []}]", unwritten(everything.clone())),
        ("rules: [{matches: [{}]}]", everything),
    ] {
        let route = route(POLICY, "HTTPRoute", spec);
        assert_eq!(route.rules.len(), 1, "{spec}");
        assert_eq!(route.rules[0].matches, [expected], "{spec}");
    }
    let grpc = route(GATEWAY, "GRPCRoute", "rules: [{}]");
    assert_eq!(grpc.rules[0].matches, [unwritten(RequestMatch::grpc(None, None))]);
}

#[test]
fn the_text_of_a_path_is_kept_where_the_pattern_has_another() {
    for (path, written) in [
        ("{type: PathPrefix, value: /}", None),
        ("{type: PathPrefix, value: /a}", None),
        ("{type: PathPrefix, value: /a/}", Some("/a/")),
        ("{value: /a%2a/}", Some("/a%2a/")),
        ("{type: Exact, value: /a/}", None),
        ("{type: Exact, value: /%2a}", Some("/%2a")),
        ("{type: Exact, value: /%2A}", None),
        ("{type: RegularExpression, value: '/%2a/'}", None),
    ] {
        let read = only_match(&format!("rules: [{{matches: [{{path: {path}}}]}}]"));
        let expected = written.map(|text| WrittenMatch::Path(text.into()));
        assert_eq!(read.written(), expected.as_ref(), "{path}");
    }
}

#[test]
fn defaults_of_a_match_are_those_of_the_schema() {
    let m =
        only_match("rules: [{matches: [{path: {value: /a}, headers: [{name: X-Y, value: z}]}]}]");
    assert_eq!(m.path, PathPattern::prefix("/a"));
    assert_eq!(m.headers()[0].name.as_str(), "x-y");
    assert_eq!(m.headers()[0].value, ValueMatch::Exact(b"z".as_slice().into()));
    assert_eq!(
        only_match("rules: [{matches: [{path: {type: Exact}}]}]").path,
        PathPattern::exact("/")
    );
    assert_eq!(only_match("rules: [{matches: [{method: GET}]}]").method(), Some(&Method::GET));
}

#[test]
fn hex_digits_of_a_path_are_written_in_upper_case() {
    let m = only_match("rules: [{matches: [{path: {type: Exact, value: /%c3%a9/x}}]}]");
    assert_eq!(m.path, PathPattern::exact("/%C3%A9/x"));
}

#[test]
#[rustfmt::skip]
fn paths_that_no_canonical_request_has_are_refused() {
    let refused = "such requests are refused";
    let table: Vec<(&str, Option<String>)> = vec![
        ("/", None),
        ("/a/", None),
        ("/a.b-c_d~e!$&'()*+,=:@[]{}|", None),
        ("/%20/%7B", None),
        ("/...", None),
        ("/a%25", None),
        ("", Some("must begin with `/`".into())),
        ("a", Some("must begin with `/`".into())),
        ("*", Some("must begin with `/`".into())),
        ("http://a/b", Some("must begin with `/`".into())),
        ("//", Some("has an empty segment: requests with `//` are refused".into())),
        ("/a//b", Some("has an empty segment: requests with `//` are refused".into())),
        ("/a//", Some("has an empty segment: requests with `//` are refused".into())),
        ("/.", Some(format!("has the segment `.`: {refused}"))),
        ("/a/../b", Some(format!("has the segment `..`: {refused}"))),
        ("/a/..", Some(format!("has the segment `..`: {refused}"))),
        ("/%2e%2E/a", Some("encodes a character that needs no encoding, write `.`".into())),
        ("/%61", Some("encodes a character that needs no encoding, write `a`".into())),
        ("/a%2fb", Some(format!("contains `/` encoded as `%2F`: {refused}"))),
        ("/a%5Cb", Some(format!("contains `\\` encoded as `%5C`: {refused}"))),
        ("/a%3Bb", Some(format!("contains `;` encoded as `%3B`: {refused}"))),
        ("/a%00", Some("contains an encoded control character".into())),
        ("/a%7f", Some("contains an encoded control character".into())),
        ("/a%", Some("has `%` without two hex digits after it".into())),
        ("/a%4", Some("has `%` without two hex digits after it".into())),
        ("/a%zz", Some("has `%` without two hex digits after it".into())),
        ("/a?b", Some("contains `?`: paths are matched without query and fragment".into())),
        ("/a#b", Some("contains `#`: paths are matched without query and fragment".into())),
        ("/a;b", Some("contains `;`: requests with path parameters are refused".into())),
        ("/a\\b", Some(format!("contains `\\`: {refused}"))),
        ("/a b", Some("contains ' ', write it as `%20`".into())),
        ("/a<b", Some("contains '<', write it as `%3C`".into())),
        ("/é", Some("has characters outside ASCII, write `/%C3%A9`".into())),
    ];
    for kind in ["Exact", "PathPrefix"] {
        for (path, reason) in &table {
            let written = path.replace('\'', "''");
            let spec =
                format!("rules: [{{matches: [{{path: {{type: {kind}, value: '{written}'}}}}]}}]");
            let expected = reason
                .as_ref()
                .map(|r| format!("spec.rules[0].matches[0].path.value: `{path}` {r}"));
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check(POLICY, "HTTPRoute", &[(&spec, &expected)]);
        }
    }
    let long = format!("rules: [{{matches: [{{path: {{value: '/{}'}}}}]}}]", "a".repeat(1024));
    let found = crate::support::errors(&object(POLICY, "HTTPRoute", &long));
    assert!(found[0].ends_with("a…` is longer than 1024 bytes"), "{found:?}");
    assert!(found[0].len() < 200);
}

#[test]
#[rustfmt::skip]
fn every_rule_of_an_http_match_is_checked() {
    let matching = |m: &str| format!("rules: [{{matches: [{m}]}}]");
    let at = |text: &str| vec![format!("spec.rules[0].matches[0].{text}")];
    let table: Vec<(&str, Vec<String>)> = vec![
        ("{path: {type: RegularExpression, value: '/a/[0-9]+'}}", vec![]),
        ("{headers: [], queryParams: []}", vec![]),
        ("{queryParams: [{name: Q, value: ' v'}, {name: q, type: RegularExpression, value: 'a|b'}]}", vec![]),
        ("{path: {type: RegularExpression}}", at("path.value: is required with `RegularExpression`")),
        ("{path: {type: RegularExpression, value: '('}}", at("path.value: `(`: invalid regular expression: unclosed group")),
        ("{path: {type: RegularExpression, value: 'a)(b'}}", at("path.value: `a)(b`: invalid regular expression: unopened group")),
        ("{path: {type: RegularExpression, value: ''}}", at("path.value: must not be empty")),
        ("{path: {type: Prefix, value: /}}", at("path.type: unknown value `Prefix`, expected one of `Exact`, `PathPrefix`, `RegularExpression`")),
        ("{path: {type: Exact, value: /a, kind: 1}}", at("path.kind: unknown field, expected one of `type`, `value`")),
        ("{path: /a}", at("path: expected a mapping, found the text `/a`")),
        ("{method: get}", at("method: unknown value `get`, expected one of `GET`, `HEAD`, `POST`, `PUT`, `DELETE`, `CONNECT`, `OPTIONS`, `TRACE`, `PATCH`")),
        ("{headers: [{name: a, value: b}, {name: A, value: c}]}", at("headers[1].name: appears twice in one match, every name may only once")),
        ("{queryParams: [{name: a, value: b}, {name: a, value: c}]}", at("queryParams[1].name: appears twice in one match, every name may only once")),
        ("{headers: [{name: 'a b', value: c}]}", at("headers[0].name: `a b` is not a header name")),
        ("{headers: [{name: ':authority', value: c}]}", at("headers[0].name: `:authority` is not a header name")),
        ("{headers: [{name: a}]}", at("headers[0].value: is required")),
        ("{headers: [{value: a}]}", at("headers[0].name: is required")),
        ("{headers: [{name: a, value: ' b'}]}", at("headers[0].value: ` b` begins or ends with a space, which requests lose")),
        ("{headers: [{name: a, value: \"b\\nc\"}]}", at("headers[0].value: `b\\nc` has characters that no header value may have")),
        ("{headers: [{name: a, type: RegularExpression, value: '['}]}", at("headers[0].value: `[`: invalid regular expression: unclosed character class")),
        ("{headers: [{name: a, type: Present}]}", at("headers[0].type: unknown value `Present`, expected one of `Exact`, `RegularExpression`")),
        ("{cookies: [{name: a}]}", at("cookies: unknown field, expected one of `path`, `method`, `headers`, `queryParams`")),
    ];
    for (m, expected) in &table {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        // Inside a match the gateway kinds are as strict as our own.
        check(POLICY, "HTTPRoute", &[(&matching(m), &expected)]);
        check(GATEWAY, "HTTPRoute", &[(&matching(m), &expected)]);
    }
}

#[test]
fn filters_of_the_gateway_api_that_are_not_supported_leave_the_route_valid_and_denying() {
    let filtered = |filters: &str| {
        format!(
            "parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n\
             rules: [{{filters: [{filters}]}}]"
        )
    };
    let extension = "{type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}";
    let mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: a, port: 80}}}";
    let table = [
        ("HTTPRoute", "RequestMirror", mirror),
        ("HTTPRoute", "URLRewrite", "{type: URLRewrite, urlRewrite: {hostname: a}}"),
        ("HTTPRoute", "ExtensionRef", extension),
        ("HTTPRoute", "CORS", "{type: CORS, cors: {allowOrigins: ['*']}}"),
        ("HTTPRoute", "ExternalAuth", "{type: ExternalAuth, externalAuth: {protocol: HTTP}}"),
        ("GRPCRoute", "RequestMirror", mirror),
        ("GRPCRoute", "ExtensionRef", extension),
    ];
    for (kind, name, filter) in table {
        let read = route(GATEWAY, kind, &filtered(filter));
        let found: Vec<_> = read.unsupported().map(|f| (&*f.field, f.name)).collect();
        assert_eq!(found, [("spec.rules[0].filters[0].type", name)], "{kind}");
        let message = format!(
            "spec.rules[0].filters[0].type: `{name}` is not supported here: the rule permits nothing"
        );
        assert_eq!(read.denies_because().as_ref(), Some(&message), "{kind}");
        let remarked = |spec: &str| -> Vec<String> {
            let object = object(GATEWAY, kind, spec);
            object.remarks().iter().map(ToString::to_string).collect()
        };
        assert_eq!(remarked(&filtered(filter)), [message], "{kind}");
        let elsewhere = filtered(filter).replace("Server", "Gateway");
        assert_eq!(remarked(&elsewhere), [""; 0], "{kind}: its parents are not ours");
    }
    let many = route(GATEWAY, "HTTPRoute", &filtered(&[extension, mirror, mirror].join(", ")));
    let message = many.denies_because().unwrap();
    let end = "`ExtensionRef` and 2 more filters are not supported here: the rule permits nothing";
    assert!(message.ends_with(end), "{message}");
    assert_eq!(route(GATEWAY, "HTTPRoute", "rules: [{}]").denies_because(), None);
    check(
        GATEWAY,
        "GRPCRoute",
        &[(
            "rules: [{filters: [{type: URLRewrite, urlRewrite: {}}]}]",
            &[
                "spec.rules[0].filters[0].type: `URLRewrite` is not supported here, expected one of \
               `RequestHeaderModifier`, `ResponseHeaderModifier`",
            ],
        )],
    );
}

#[test]
fn a_header_value_outside_ascii_is_refused() {
    check(
        POLICY,
        "HTTPRoute",
        &[(
            "rules: [{matches: [{headers: [{name: a, value: é}]}]}]",
            &[
                "spec.rules[0].matches[0].headers[0].value: `é` has characters that no header value may have",
            ],
        )],
    );
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_filter_is_checked() {
    let filtered = |f: &str| format!("rules: [{{filters: [{f}]}}]");
    let at = |text: &str| vec![format!("spec.rules[0].filters[0].{text}")];
    let table: Vec<(&str, &str, Vec<String>)> = vec![
        (POLICY, "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}], add: [{name: a, value: c}], remove: [d]}}", vec![]),
        (GATEWAY, "{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [d]}}", vec![]),
        (POLICY, "{type: RequestRedirect, requestRedirect: {scheme: https, hostname: a.b, port: 443, statusCode: 301}}", vec![]),
        (POLICY, "{type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}}", vec![]),
        (POLICY, "{type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: ''}}}", vec![]),
        (POLICY, "{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [d]}}", at("type: `ResponseHeaderModifier` is not supported here, expected one of `RequestHeaderModifier`, `RequestRedirect`")),
        (POLICY, "{type: URLRewrite, urlRewrite: {hostname: a}}", at("type: `URLRewrite` is not supported here, expected one of `RequestHeaderModifier`, `RequestRedirect`")),
        (POLICY, "{type: ExtensionRef, extensionRef: {}}", at("type: `ExtensionRef` is not supported here, expected one of `RequestHeaderModifier`, `RequestRedirect`")),
        (GATEWAY, "{type: URLRewrite}", at("urlRewrite: is required")),
        (GATEWAY, "{type: URLRewrite, urlRewrite: 7}", at("urlRewrite: expected a mapping, found the number `7`")),
        (GATEWAY, "{type: RequestMirror, requestMirror: []}", at("requestMirror: expected a mapping, found a list")),
        (GATEWAY, "{type: ExtensionRef, extensionRef: {}, urlRewrite: {}}", at("urlRewrite: must be absent where `type` is `ExtensionRef`")),
        (GATEWAY, "{type: urlRewrite, urlRewrite: {}}", at("type: `urlRewrite` is not a type of filter, expected one of `RequestHeaderModifier`, `ResponseHeaderModifier`, `RequestRedirect`")),
        (GATEWAY, "{type: [URLRewrite]}", at("type: expected text, found a list")),
        (GATEWAY, "{type: Future}", at("type: `Future` is not a type of filter, expected one of `RequestHeaderModifier`, `ResponseHeaderModifier`, `RequestRedirect`")),
        (POLICY, "{requestRedirect: {}}", at("type: is required")),
        (POLICY, "{type: RequestRedirect}", at("requestRedirect: is required")),
        (POLICY, "{type: RequestRedirect, requestRedirect: {}, requestHeaderModifier: {}}", at("requestHeaderModifier: must be absent where `type` is `RequestRedirect`")),
        (POLICY, "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}, {name: A, value: c}]}}", at("requestHeaderModifier.set[1].name: appears twice in one list, every name may only once")),
        (POLICY, "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: 'a b', value: b}]}}", at("requestHeaderModifier.set[0].name: `a b` is not a header name")),
        (POLICY, "{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: a}]}}", at("requestHeaderModifier.add[0].value: is required")),
        (POLICY, "{type: RequestHeaderModifier, requestHeaderModifier: {remove: [Content-Length]}}", at("requestHeaderModifier.remove[0]: `content-length` belongs to the connection and cannot be changed")),
        (POLICY, "{type: RequestHeaderModifier, requestHeaderModifier: {remove: [Content_Length]}}", at("requestHeaderModifier.remove[0]: `content_length` belongs to the connection and cannot be changed")),
        (POLICY, "{type: RequestHeaderModifier, requestHeaderModifier: {keep: [a]}}", at("requestHeaderModifier.keep: unknown field, expected one of `set`, `add`, `remove`")),
        (POLICY, "{type: RequestRedirect, requestRedirect: {scheme: ftp}}", at("requestRedirect.scheme: unknown value `ftp`, expected one of `http`, `https`")),
        (POLICY, "{type: RequestRedirect, requestRedirect: {statusCode: 300}}", at("requestRedirect.statusCode: expected one of 301, 302, 303, 307, 308, found `300`")),
        (GATEWAY, "{type: RequestRedirect, requestRedirect: {statusCode: '307'}}", at("requestRedirect.statusCode: expected one of 301, 302, 303, 307, 308, found `\"307\"`")),
        (POLICY, "{type: RequestRedirect, requestRedirect: {port: 0}}", at("requestRedirect.port: expected a whole number from 1 to 65535, found the number `0`")),
        (POLICY, "{type: RequestRedirect, requestRedirect: {hostname: '*.a'}}", at("requestRedirect.hostname: `*.a` has a wildcard, a redirect needs one host")),
        (POLICY, "{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath}}}", at("requestRedirect.path.replaceFullPath: is required")),
        (POLICY, "{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: a}}}", at("requestRedirect.path.replaceFullPath: `a` must begin with `/`")),
        (POLICY, "{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /a, replacePrefixMatch: /b}}}", at("requestRedirect.path.replacePrefixMatch: must be absent beside `replaceFullPath`")),
    ];
    for (api, filter, expected) in &table {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(api, "HTTPRoute", &[(&filtered(filter), &expected)]);
    }
    let redirect = "{type: RequestRedirect, requestRedirect: {}}";
    check(
        POLICY,
        "HTTPRoute",
        &[
            (&filtered(&format!("{redirect}, {redirect}")), &["spec.rules[0].filters[1]: a rule can redirect only once"]),
            ("rules: [{filters: []}]", &[]),
            ("rules: [{matches: [{path: {type: Exact, value: /a}}], filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /x}}}]}]", &["spec.rules[0].filters: `ReplacePrefixMatch` needs matches whose path is a `PathPrefix`"]),
        ],
    );
    check(
        GATEWAY,
        "GRPCRoute",
        &[(
            &filtered(redirect),
            &[
                "spec.rules[0].filters[0].type: `RequestRedirect` is not supported here, expected one of `RequestHeaderModifier`, `ResponseHeaderModifier`",
            ],
        )],
    );
}

#[test]
fn a_redirect_keeps_what_was_written() {
    let spec = "rules: [{filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /x}}}]}]";
    let read = route(POLICY, "HTTPRoute", spec);
    let FilterKind::Redirect(redirect) = &read.rules[0].filters[0] else { panic!() };
    assert_eq!(redirect.status, 302);
    assert_eq!(redirect.path, Some(RedirectPath::Full("/x".into())));
    assert_eq!(redirect.port, None);
    for api in [POLICY, GATEWAY] {
        let status = |code: u16| {
            let spec = format!(
                "rules: [{{filters: [{{type: RequestRedirect, requestRedirect: {{statusCode: {code}}}}}]}}]"
            );
            let read = route(api, "HTTPRoute", &spec);
            let FilterKind::Redirect(redirect) = &read.rules[0].filters[0] else { panic!() };
            redirect.status
        };
        assert_eq!([301, 302, 303, 307, 308].map(status), [301, 302, 303, 307, 308], "{api}");
    }
}

#[test]
#[rustfmt::skip]
fn every_rule_of_hostnames_is_checked() {
    let long = format!("{}.example", "a".repeat(64));
    let table: [(&str, Option<&str>); 18] = [
        ("https://a.example", Some("has a scheme, write the host alone")),
        ("a.example/b", Some("has a path, write the host alone")),
        (&long, Some("has a part of more than 63 characters between dots")),
        ("a.example.com", None),
        ("*.example.com", None),
        ("xn--bcher-kva.example", None),
        ("*", Some("is not a host name, leave `hostnames` out to match every host")),
        ("A.example", Some("has upper-case letters, write it in lower case")),
        ("a.example.", Some("ends with a dot, leave it out")),
        ("a.*.example", Some("has a `*` that is not the whole first label")),
        ("*a.example", Some("has a `*` that is not the whole first label")),
        ("10.0.0.1", Some("is an address, only host names are allowed")),
        ("::1", Some("is an address, only host names are allowed")),
        ("a.example:80", Some("has a port, hosts are matched without it")),
        ("bücher.example", Some("has characters outside ASCII, write it as `xn--…`")),
        ("a_b.example", Some("is not a host name: labels of letters, digits and inner `-` with dots between")),
        ("10.1", Some("looks like an address, no request has it as a host name")),
        ("a..b", Some("is not a host name: labels of letters, digits and inner `-` with dots between")),
    ];
    for (host, reason) in table {
        let expected = reason.map(|r| format!("spec.hostnames[0]: `{host}` {r}"));
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(GATEWAY, "HTTPRoute", &[(&format!("hostnames: ['{host}']"), &expected)]);
    }
    assert_eq!(route(GATEWAY, "HTTPRoute", "hostnames: []").hostnames, []);
    let route = route(GATEWAY, "HTTPRoute", "hostnames: ['*.a.b']");
    assert_eq!(route.hostnames, [HostPattern::Suffix("a.b".into())]);
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_parent_is_checked() {
    let server = |more: &str| {
        format!("parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web{more}}}]")
    };
    let egress = "{group: policy.linkerd.io, kind: EgressNetwork, name: out";
    check(
        GATEWAY,
        "HTTPRoute",
        &[
            (&server(""), &[]),
            (&server(", namespace: there"), &[]),
            ("parentRefs: []", &[]),
            ("parentRefs: [{name: gateway}]", &[]),
            (&server(", port: 80"), &["spec.parentRefs[0].port: must be absent for a Server, which is one port already"]),
            (&server(", sectionName: a"), &["spec.parentRefs[0].sectionName: must be absent for a Server, which is one port already"]),
            (&server(", port: 0"), &["spec.parentRefs[0].port: expected a whole number from 1 to 65535, found the number `0`", "spec.parentRefs[0].port: must be absent for a Server, which is one port already"]),
            ("parentRefs: [{kind: Server, name: web}]", &["spec.parentRefs[0].group: is required for Server, write `group: policy.linkerd.io`"]),
            ("parentRefs: [{group: policy.linkerd.io, kind: Server}]", &["spec.parentRefs[0].name: is required"]),
            ("parentRefs: [web]", &["spec.parentRefs[0]: expected a mapping, found the text `web`"]),
            (&format!("parentRefs: [{egress}}}]"), &["spec.parentRefs[0].port: is required where the parent is an EgressNetwork"]),
            (&format!("parentRefs: [{egress}, port: 80}}]"), &[]),
            (&format!("parentRefs: [{}]", "{name: a},".repeat(33)), &["spec.parentRefs: 33 elements, at most 32 are allowed"]),
        ],
    );
    check(
        POLICY,
        "HTTPRoute",
        &[
            ("parentRefs: [{kind: Server, name: web}]", &[]),
            ("parentRefs: [{kind: Server, name: web, weight: 1}]", &["spec.parentRefs[0].weight: unknown field, expected one of `group`, `kind`, `name`, `namespace`, `port`, `sectionName`"]),
        ],
    );
}

#[test]
fn an_invalid_route_claims_every_parent_that_can_be_read() {
    let parents = |spec: &str| match claims(object(POLICY, "HTTPRoute", spec)) {
        Claims::Route(claims) => {
            let named = claims.parents.iter();
            named.map(|p| (p.name.to_string(), p.is_server())).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let both = "parentRefs: [{kind: Server, name: a, port: 1}, {name: b}, {kind: Server}]\n";
    let expected = vec![("a".to_owned(), true), ("b".to_owned(), true)];
    assert_eq!(parents(both), expected);
    assert_eq!(parents(&format!("{both}hostnames: ['*']")), expected);
    assert_eq!(parents(&format!("{both}rules: [{{matches: 1}}]")), expected);
    assert_eq!(parents("parentRefs: [{kind: 7, name: a}]"), [("a".to_owned(), true)]);
    assert_eq!(
        parents("parentRefs: [{group: a.b, kind: Server, name: a}]"),
        [("a".to_owned(), true)]
    );
    assert_eq!(parents("parentRefs: 7"), []);
    assert_eq!(parents("7"), []);
}

#[test]
fn a_route_whose_parents_cannot_all_be_read_says_so() {
    let unread = |spec: &str| match claims(object(POLICY, "HTTPRoute", spec)) {
        Claims::Route(claims) => !claims.unread.is_empty(),
        other => panic!("{other:?}"),
    };
    for spec in [
        "7",
        "parentRefs: 7",
        "parentRefs: [7]",
        "parentRefs: [{kind: Server}]",
        "parentRefs: [{name: a}, {group: policy.linkerd.io, kind: Server, name: 7}]",
    ] {
        assert!(unread(spec), "{spec}");
    }
    for spec in ["rules: 7", "parentRefs: []\nrules: 7", "parentRefs: [{name: a}]\nrules: 7"] {
        assert!(!unread(spec), "{spec}");
    }
}

#[test]
fn a_forgotten_group_does_not_unbind_the_server() {
    let route = object(GATEWAY, "HTTPRoute", "parentRefs: [{kind: Server, name: a}]");
    let Claims::Route(claims) = claims(route) else { panic!() };
    let parents = claims.parents;
    assert!(parents.len() == 1 && parents[0].is_server(), "{parents:?}");
}

#[test]
fn gateway_kinds_may_gain_fields_but_not_in_matches_and_filters() {
    let future = "useDefault: x\nparentRefs: [{name: a, new: 1}]\nrules: [{name: r, retry: {}, backendRefs: [{name: b, port: 1, new: 1}], timeouts: {new: 1s}}]";
    check(GATEWAY, "HTTPRoute", &[(future, &[])]);
    check(
        POLICY,
        "HTTPRoute",
        &[
            (
                "useDefault: x",
                &[
                    "spec.useDefault: unknown field, expected one of `parentRefs`, `hostnames`, `rules`",
                ],
            ),
            (
                "rules: [{name: r}]",
                &[
                    "spec.rules[0].name: unknown field, expected one of `matches`, `filters`, `backendRefs`, `timeouts`",
                ],
            ),
        ],
    );
    check(
        "policy.linkerd.io/v1beta2",
        "HTTPRoute",
        &[(
            "rules: [{timeouts: {}}]",
            &[
                "spec.rules[0].timeouts: unknown field, expected one of `matches`, `filters`, `backendRefs`",
            ],
        )],
    );
}

#[test]
fn lists_are_bounded() {
    let many = |what: &str, n: usize| what.repeat(n);
    check(
        POLICY,
        "HTTPRoute",
        &[
            (
                &format!("rules: [{}]", many("{},", 17)),
                &["spec.rules: 17 elements, at most 16 are allowed"],
            ),
            (
                &format!("rules: [{{matches: [{}]}}]", many("{},", 9)),
                &["spec.rules[0].matches: 9 elements, at most 8 are allowed"],
            ),
            (
                &format!("hostnames: [{}]", many("a.b,", 17)),
                &["spec.hostnames: 17 elements, at most 16 are allowed"],
            ),
        ],
    );
    let many = format!("rules: [{}]", many("{},", 17));
    let errors = &["spec.rules: 17 elements, at most 16 are allowed"];
    check(GATEWAY, "GRPCRoute", &[(&many, errors)]);
}

/// The schemas allow it, and Linkerd accepts it.
#[test]
fn a_route_with_an_empty_list_of_rules_is_valid_and_matches_nothing() {
    let kinds = [(POLICY, "HTTPRoute"), (GATEWAY, "HTTPRoute"), (GATEWAY, "GRPCRoute")];
    let parents = "parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]\n";
    for (api_version, kind) in kinds {
        assert_eq!(route(api_version, kind, "rules: []").rules, [], "{kind}");
        let object = object(api_version, kind, &format!("{parents}rules: []"));
        let remarks: Vec<String> = object.remarks().iter().map(ToString::to_string).collect();
        let expected = "spec.rules: has no rule: the route matches nothing, and its Servers answer \
                        404 to every request that no other route matches; `- {}` matches everything";
        assert_eq!(remarks, [expected], "{kind}");
    }
    // The schema of an HTTPRoute has a default, that of a GRPCRoute has none.
    assert_eq!(route(GATEWAY, "GRPCRoute", "{}").rules, []);
    assert_eq!(route(GATEWAY, "HTTPRoute", "{}").rules[0].matches, [RequestMatch::everything()]);
}

#[test]
fn timeouts_are_go_durations() {
    let timeouts = |t: &str| format!("rules: [{{timeouts: {{{t}}}}}]");
    let of = |text: &str| {
        route(POLICY, "HTTPRoute", &timeouts(&format!("request: '{text}'"))).rules[0].timeout
    };
    let table = [
        ("1s", Some(Duration::from_secs(1))),
        ("1h2m3.5s", Some(Duration::from_millis(3_723_500))),
        ("250ms", Some(Duration::from_millis(250))),
        ("1.5us", Some(Duration::from_nanos(1_500))),
        ("2µs", Some(Duration::from_micros(2))),
        (".5s", Some(Duration::from_millis(500))),
        ("+1s", Some(Duration::from_secs(1))),
        ("0", None),
        ("0s", None),
    ];
    for (text, expected) in table {
        assert_eq!(of(text), expected, "{text}");
    }
    let form = "is not a duration such as `1.5s`, `250ms` or `1h30m`";
    for (text, reason) in [
        ("", form),
        ("5", form),
        ("s", form),
        (".s", form),
        ("1.2.3s", form),
        ("1d", form),
        ("1s ", form),
        ("-1s", "must not be negative"),
        ("+-5s", "must not be negative"),
        ("9999999999h", "is too long"),
    ] {
        let expected = format!("spec.rules[0].timeouts.request: `{text}` {reason}");
        let spec = timeouts(&format!("request: '{text}'"));
        check(POLICY, "HTTPRoute", &[(&spec, &[expected.as_str()])]);
    }
    check(
        POLICY,
        "HTTPRoute",
        &[
            (&timeouts("request: 1s, backendRequest: 1s"), &[]),
            (&timeouts("request: 0s, backendRequest: 2s"), &[]),
            (
                &timeouts("request: 1s, backendRequest: 2s"),
                &["spec.rules[0].timeouts.backendRequest: must not be longer than `request`"],
            ),
            (
                &timeouts("request: 5"),
                &["spec.rules[0].timeouts.request: expected text, found the number `5`"],
            ),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn every_rule_of_a_grpc_match_is_checked() {
    let matching = |m: &str| format!("rules: [{{matches: [{m}]}}]");
    let m = |m: &str| route(GATEWAY, "GRPCRoute", &matching(m)).rules.remove(0).matches.remove(0);
    assert_eq!(
        m("{method: {service: a.B, method: C}}"),
        RequestMatch::grpc(Some("a.B"), Some("C"))
    );
    assert_eq!(m("{method: {service: a.B}}"), RequestMatch::grpc(Some("a.B"), None));
    assert_eq!(m("{method: {method: C, service: ''}}"), RequestMatch::grpc(None, Some("C")));
    assert_eq!(m("{headers: [{name: a, value: b}]}").headers().len(), 1);
    check(
        GATEWAY,
        "GRPCRoute",
        &[
            (&matching("{method: {}}"), &["spec.rules[0].matches[0].method: at least one of `service` and `method` is required"]),
            (&matching("{method: {type: RegularExpression, method: a}}"), &["spec.rules[0].matches[0].method.type: `RegularExpression` is not supported for gRPC calls, only `Exact` is"]),
            (&matching("{method: {service: a/b}}"), &["spec.rules[0].matches[0].method.service: `a/b` is not the name of a gRPC service"]),
            (&matching("{method: {method: a.b}}"), &["spec.rules[0].matches[0].method.method: `a.b` is not the name of a gRPC method"]),
            (&matching("{path: {value: /}}"), &["spec.rules[0].matches[0].path: unknown field, expected one of `method`, `headers`"]),
            ("rules: [{backendRefs: [{name: a}]}]", &["spec.rules[0].backendRefs[0].port: is required where the backend is a Service"]),
        ],
    );
}

#[test]
fn outbound_annotations_are_checked_where_a_parent_is_outbound() {
    let errors = |kind: &str, parent: &str, annotation: &str, text: &str| {
        let manifest = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\n\
             metadata: {{name: a, annotations: {{{annotation}: '{text}'}}}}\n\
             spec: {{parentRefs: [{parent}], rules: [{{}}]}}"
        );
        crate::support::errors(&policy_crds::parse(&crate::support::value(&manifest)).unwrap())
    };
    let service = "{group: '', kind: Service, name: a}";
    let server = "{group: policy.linkerd.io, kind: Server, name: a}";
    for (kind, annotation, good, bad) in [
        ("HTTPRoute", "retry.linkerd.io/limit", "3", "-1"),
        ("HTTPRoute", "retry.linkerd.io/timeout", "400ms", "0.4s"),
        ("HTTPRoute", "timeout.linkerd.io/request", "0", "5"),
        ("HTTPRoute", "timeout.linkerd.io/idle", "1d", "d"),
        ("HTTPRoute", "retry.linkerd.io/http", "5xx, 429,500-503", "503-500"),
        ("GRPCRoute", "retry.linkerd.io/grpc", "internal,unavailable", "ok"),
    ] {
        assert_eq!(errors(kind, service, annotation, good), [""; 0], "{annotation}");
        let found = errors(kind, service, annotation, bad);
        assert_eq!(found.len(), 1, "{annotation}");
        assert!(
            found[0].starts_with(&format!("metadata.annotations[\"{annotation}\"]: `")),
            "{found:?}"
        );
        assert_eq!(errors(kind, server, annotation, bad), [""; 0], "{annotation}");
    }
}

/// Forty objects of this kind took the controller to its limit of memory, and each sidecar with them.
#[test]
fn expressions_of_an_object_are_bounded_by_what_they_take_when_compiled() {
    let spec = |count: usize| {
        let one = |n: usize| {
            format!("{{headers: [{{name: x, type: RegularExpression, value: '\\pL{{3}}x{n}'}}]}}")
        };
        let matches: Vec<String> = (0..count).map(one).collect();
        let rules = matches.chunks(64).map(|part| format!("{{matches: [{}]}}", part.join(", ")));
        format!("rules: [{}]", rules.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(errors(&object(GATEWAY, "HTTPRoute", &spec(8))), [""; 0]);
    let found = errors(&object(GATEWAY, "HTTPRoute", &spec(128)));
    let words = "at most 8388608 are allowed in one object";
    assert!(found[0].starts_with("spec.rules[") && found[0].ends_with(words), "{found:?}");
    assert!(found[0].contains("the regular expressions take 8"), "{found:?}");
}
