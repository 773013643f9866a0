//! Which policies overlap, and in which headers.

use super::*;
use policy_core::{Owner, Protocol};

fn object(name: &str) -> ObjectRef {
    ObjectRef::new("portcullis.dev", "HeaderRewritePolicy", "shop", name)
}

fn fields(all: &[(&'static str, &'static str)]) -> Vec<(HeaderName, HeaderValue)> {
    let field = |(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    all.iter().map(field).collect()
}

fn clear(name: &'static str) -> HeaderRewrite {
    HeaderRewrite { clear: vec![HeaderName::from_static(name)], ..HeaderRewrite::default() }
}

fn set(name: &'static str, value: &'static str) -> HeaderRewrite {
    HeaderRewrite { set: fields(&[(name, value)]), ..HeaderRewrite::default() }
}

fn add(name: &'static str, value: &'static str) -> HeaderRewrite {
    HeaderRewrite { add: fields(&[(name, value)]), ..HeaderRewrite::default() }
}

fn when<const N: usize>(rule: HeaderRewrite, when: [EffectCondition; N]) -> HeaderRewrite {
    HeaderRewrite { when: when.into(), ..rule }
}

fn texts(values: &[&str]) -> Vec<Arc<str>> {
    values.iter().copied().map(Arc::from).collect()
}

fn header(name: &str, operator: HeaderOperator) -> EffectCondition {
    EffectCondition::Header(HeaderCondition { name: name.into(), operator })
}

fn is(name: &str, values: &[&str]) -> EffectCondition {
    header(name, HeaderOperator::In(texts(values)))
}

fn is_not(name: &str, values: &[&str]) -> EffectCondition {
    header(name, HeaderOperator::NotIn(texts(values)))
}

fn segment(place: u32, operator: SegmentOperator, values: &[&str]) -> EffectCondition {
    EffectCondition::Segment(SegmentCondition::new("id", place, operator, values))
}

/// What overlaps where policies have these rules on one Server, in this order.
fn found(policies: &[(&str, &[HeaderRewrite])]) -> RewriteOverlaps {
    let owner = Owner::Server(ObjectRef::new("policy.linkerd.io", "Server", "shop", "web"));
    let mut server = ServerPolicy::without_grants(owner, Protocol::Http1);
    for (name, rules) in policies {
        let source = Source::Object(object(name));
        let effect = |rule: &HeaderRewrite| Filter {
            source: source.clone(),
            kind: FilterKind::Rewrite(rule.clone()),
        };
        server.effects.extend(rules.iter().map(effect));
    }
    among(&server)
}

/// The headers to which the order of two policies matters, which is the same both ways.
fn headers(one: &[HeaderRewrite], other: &[HeaderRewrite]) -> Vec<String> {
    let both = [(("a", one), ("b", other)), (("a", other), ("b", one))];
    let [there, back] = both.map(|(first, second)| {
        let found = found(&[first, second]);
        assert!(!found.cut);
        let after: Vec<_> = found.after.into_iter().collect();
        let headers = match after.as_slice() {
            [] => BTreeSet::new(),
            [(later, before)] => {
                assert_eq!(*later, object("b"));
                assert_eq!(before.keys().collect::<Vec<_>>(), [&object("a")]);
                before[&object("a")].clone()
            }
            _ => panic!("{after:?}"),
        };
        headers.iter().map(ToString::to_string).collect::<Vec<_>>()
    });
    assert_eq!(there, back, "{one:?} {other:?}");
    there
}

#[test]
fn the_order_of_different_changes_matters() {
    let differ = [
        (clear("x"), set("x", "1")),
        (clear("x"), add("x", "1")),
        (set("x", "1"), set("x", "2")),
        (set("x", "1"), add("x", "1")),
        (add("x", "1"), add("x", "2")),
    ];
    for (one, other) in differ {
        assert_eq!(headers(&[one], &[other]), ["x"]);
    }
    let agree = [
        (clear("x"), clear("x")),
        (set("x", "1"), set("x", "1")),
        (add("x", "1"), add("x", "1")),
        (set("x", "1"), add("y", "1")),
    ];
    for (one, other) in agree {
        assert_eq!(headers(&[one], &[other]), Vec::<String>::new());
    }
    let one = HeaderRewrite { add: fields(&[("z", "1")]), ..set("x", "1") };
    let other = HeaderRewrite { clear: clear("z").clear, ..set("x", "2") };
    assert_eq!(headers(&[one], &[other]), ["x", "z"]);
}

#[test]
fn rules_that_exclude_each_other_do_not_overlap() {
    use HeaderOperator::{DoesNotExist, Exists};
    use SegmentOperator::{In, NotIn};
    let excluding = [
        (is("host", &["a.io", "b.io"]), is("host", &["c.io"])),
        (is("host", &["a.io"]), is_not("host", &["a.io", "b.io"])),
        (is("x-user", &["a"]), is_not("x-user", &["a"])),
        (is("x-user", &["a"]), header("x-user", DoesNotExist)),
        (header("x-user", Exists), header("x-user", DoesNotExist)),
        (segment(1, In, &["42"]), segment(1, In, &["43", "44"])),
        (segment(1, In, &["42"]), segment(1, NotIn, &["42"])),
        (segment(1, In, &[]), is("x", &["a"])),
    ];
    for (one, other) in excluding {
        let words = format!("{one} {other}");
        let rules = [when(clear("x"), [one]), when(set("x", "1"), [other])];
        assert_eq!(headers(&rules[..1], &rules[1..]), Vec::<String>::new(), "{words}");
    }
    let meeting = [
        (is("host", &["a.io", "b.io"]), is("host", &["b.io"])),
        (is("host", &["a.io"]), is("content-type", &["application/json"])),
        // A header may have a line of each.
        (is("x-user", &["a"]), is("x-user", &["b"])),
        (is("x-user", &["a", "b"]), is_not("x-user", &["a"])),
        (is_not("x-user", &["a"]), header("x-user", DoesNotExist)),
        (segment(1, In, &["42"]), segment(2, In, &["43"])),
        (segment(1, In, &["42", "43"]), segment(1, NotIn, &["42"])),
        (segment(1, NotIn, &["43"]), segment(1, NotIn, &["42"])),
    ];
    for (one, other) in meeting {
        let words = format!("{one} {other}");
        let rules = [when(clear("x"), [one]), when(set("x", "1"), [other])];
        assert_eq!(headers(&rules[..1], &rules[1..]), ["x"], "{words}");
    }
}

/// The last rule of the first policy hides the one before it.
#[test]
fn what_a_policy_does_besides_counts() {
    let json = || is("content-type", &["application/json"]);
    let hidden = [when(set("x", "1"), [json()]), set("x", "2")];
    assert_eq!(headers(&hidden, &[set("x", "2")]), Vec::<String>::new());
    let shown = [set("x", "2"), when(set("x", "1"), [json()])];
    assert_eq!(headers(&shown, &[set("x", "2")]), ["x"]);
}

#[test]
fn each_policy_is_told_of_all_before_it() {
    let policies: [(&str, &[HeaderRewrite]); 3] =
        [("c", &[set("x", "1")]), ("a", &[add("y", "1")]), ("b", &[clear("x"), clear("y")])];
    let x = || BTreeSet::from([Arc::from("x")]);
    let y = || BTreeSet::from([Arc::from("y")]);
    let before = [(object("a"), y()), (object("c"), x())].into();
    let after = [(object("b"), before)].into();
    assert_eq!(found(&policies), RewriteOverlaps { after, cut: false });
}

/// The rules of a policy that meets one other, in one header.
fn many(name: usize) -> Vec<HeaderRewrite> {
    let own = (0..16).map(|number| format!("x-{name}-{number}"));
    let own = own.chain([format!("y-{}", name / 2)]);
    let clear = own.map(|name| HeaderName::try_from(name).unwrap()).collect();
    vec![HeaderRewrite { clear, ..HeaderRewrite::default() }; 16]
}

#[test]
fn policies_that_change_no_common_header_cost_nothing() {
    let all: Vec<(String, Vec<HeaderRewrite>)> =
        (0..1000).map(|name| (format!("p{name}"), many(name))).collect();
    let policies: Vec<(&str, &[HeaderRewrite])> =
        all.iter().map(|(name, rules)| (name.as_str(), &rules[..])).collect();
    // Half a million pairs of policies, of which 500 meet in 256 pairs of rules each.
    assert!(found(&policies).cut);
    assert_eq!(found(&policies[..32]), RewriteOverlaps::default());
    let apart: Vec<_> = policies.iter().copied().step_by(2).collect();
    assert_eq!(found(&apart), RewriteOverlaps::default());
}

/// What policies on the Server do is compared once, not once for each route.
#[test]
fn routes_do_not_repeat_what_is_compared_on_the_server() {
    let owner = Owner::Server(ObjectRef::new("policy.linkerd.io", "Server", "shop", "web"));
    let mut server = ServerPolicy::without_grants(owner, Protocol::Http1);
    let effect = |name: &str, rule: HeaderRewrite| Filter {
        source: Source::Object(object(name)),
        kind: FilterKind::Rewrite(rule),
    };
    server.effects = (0..60).map(|n| effect(&format!("s{n}"), clear("x"))).collect();
    let rule = |name: &String| policy_core::Rule {
        matches: Vec::new().into(),
        effects: [effect(name, set("y", "1")), effect("last", set("y", "2"))].into_iter().collect(),
    };
    let names: Vec<String> = (0..50).map(|number| format!("r{number:02}")).collect();
    let route = policy_core::Route {
        origin: policy_core::Origin::Objects([object("route")].into()),
        kind: policy_core::RouteKind::Http,
        created: None,
        label: None,
        hosts: Vec::new().into(),
        rules: names.iter().map(rule).collect(),
        authorizations: policy_core::AuthorizationSet::default(),
        inherits_server: true,
        withheld: Vec::new().into(),
    };
    server.routes.routes = vec![Arc::new(route)];
    let before = names.iter().map(|name| (object(name), BTreeSet::from([Arc::from("y")])));
    let after = [(object("last"), before.collect())].into();
    assert_eq!(among(&server), RewriteOverlaps { after, cut: false });
}

#[test]
fn the_search_ends() {
    let names: Vec<String> = (0..100).map(|number| format!("p{number}")).collect();
    let rules = [clear("x")];
    let policies: Vec<(&str, &[HeaderRewrite])> =
        names.iter().map(|name| (name.as_str(), &rules[..])).collect();
    assert_eq!(found(&policies), RewriteOverlaps { cut: true, ..RewriteOverlaps::default() });
    assert_eq!(found(&policies[..90]), RewriteOverlaps::default());
}
