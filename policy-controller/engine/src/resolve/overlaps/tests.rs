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

#[test]
fn the_search_ends() {
    let names: Vec<String> = (0..100).map(|number| format!("p{number}")).collect();
    let rules = [clear("x")];
    let policies: Vec<(&str, &[HeaderRewrite])> =
        names.iter().map(|name| (name.as_str(), &rules[..])).collect();
    assert_eq!(found(&policies), RewriteOverlaps { cut: true, ..RewriteOverlaps::default() });
    assert_eq!(found(&policies[..90]), RewriteOverlaps::default());
}
