//! Text to values with places.

use policy_crds::document::{self, Document, MAX_DEPTH};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn one(text: &str) -> Document {
    let mut documents = document::read(text);
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

fn value(text: &str) -> Value {
    one(text).value.unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn error(text: &str) -> String {
    one(text).value.unwrap_err().to_string()
}

#[test]
fn plain_scalars_mean_what_they_mean_to_kubectl() {
    for (text, expected) in [
        ("1", json!(1)),
        ("-7", json!(-7)),
        ("+7", json!(7)),
        ("1_000", json!(1000)),
        ("0x1F", json!(31)),
        ("0o17", json!(15)),
        ("0644", json!(420)),
        ("0b11", json!(3)),
        ("08", json!(8)),
        ("0", json!(0)),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("8080.0", json!(8080)),
        ("1.5", json!(1.5)),
        ("1e3", json!(1000)),
        ("1e400", json!("1e400")),
        (".5", json!(0.5)),
        ("1.2.3", json!("1.2.3")),
        ("10.0.0.0/8", json!("10.0.0.0/8")),
        ("1h", json!("1h")),
        ("-", json!([null])),
        ("+", json!("+")),
        ("--1", json!("--1")),
        ("0x", json!("0x")),
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("n", json!(false)),
        ("yEs", json!("yEs")),
        ("~", json!(null)),
        ("Null", json!(null)),
        ("'yes'", json!("yes")),
        ("\"1\"", json!("1")),
        ("!!str 1", json!("1")),
        ("!!int '7'", json!(7)),
        ("!!float 3", json!(3)),
        ("!!binary aGVsbG8=", json!("hello")),
        ("!!binary |\n  aGVs\n  bG8=\n", json!("hello")),
        ("!!timestamp 2001-12-14", json!("2001-12-14")),
        ("!!timestamp 2001-12-14t21:59:43.10-05:00", json!("2001-12-14t21:59:43.10-05:00")),
        ("!!timestamp 2001-12-14 21:59:43.10 -5", json!("2001-12-14 21:59:43.10 -5")),
        ("!!timestamp 2001-12-15T2:59:43Z", json!("2001-12-15T2:59:43Z")),
        ("!!python/object:a.b x", json!("x")),
        ("!Ref x", json!("x")),
        ("!Ref 12", json!("12")),
        ("!Ref 'true'", json!("true")),
        ("! 12", json!("12")),
        ("!env", json!("")),
        ("!GetAtt [x, 1]", json!(["x", 1])),
        ("2026-01-31", json!("2026-01-31")),
        (".inf", json!(".inf")),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn documents_are_found_with_their_places() {
    let documents = document::read("a: 1\n---\n# nothing\n---\nb: 2\n...\n---\nc: 3\n");
    let values: Vec<Value> = documents.iter().map(|d| d.value.clone().unwrap()).collect();
    assert_eq!(values, [json!({"a": 1}), json!(null), json!({"b": 2}), json!({"c": 3})]);
    assert_eq!(documents[2].locate("b").unwrap().line, 5);
    assert_eq!(documents[3].locate("c").unwrap().line, 8);
    assert_eq!(document::read("").len(), 0);
    assert_eq!(document::read("# only a comment\n").len(), 0);
}

#[test]
fn json_is_read_too() {
    let text = "{\n\t\"a\": {\"b\": [1, true, null, \"x\\u00e9\\n\\/\"]},\n\t\"c\": 1e2\n}\n";
    assert_eq!(value(text), json!({"a": {"b": [1, true, null, "xé\n/"]}, "c": 100}));
    let place = one(text).locate("a.b[1]").unwrap();
    assert_eq!((place.line, place.column), (2, 17));
}

#[test]
fn surrogate_pairs_of_json_are_read() {
    assert_eq!(value("{\"a\": \"\\ud83d\\ude00\"}"), json!({"a": "😀"}));
}

#[test]
fn every_field_has_a_place_and_a_missing_one_its_parents() {
    let text = "kind: Server\nspec:\n  podSelector:\n    matchLabels:\n      app.kubernetes.io/name: web\n  rules:\n  - path: /a\n    methods: [GET, POST]\n  - other: x\n";
    let document = one(text);
    let slice = |field: &str| {
        let place = document.locate(field).unwrap();
        (place.line, place.column, &text[place.bytes])
    };
    assert_eq!(slice("kind"), (1, 7, "Server"));
    assert_eq!(slice("spec"), (2, 1, "spec"));
    assert_eq!(slice("spec.podSelector.matchLabels[\"app.kubernetes.io/name\"]"), (5, 31, "web"));
    assert_eq!(slice("spec.rules"), (6, 3, "rules"));
    assert_eq!(slice("spec.rules[0].path"), (7, 11, "/a"));
    assert_eq!(slice("spec.rules[0].methods[1]"), (8, 20, "POST"));
    assert_eq!(slice("spec.rules[1]"), (9, 5, ""));
    assert_eq!(slice("spec.rules[7].path"), (6, 3, "rules"));
    assert_eq!(slice("spec.port"), (2, 1, "spec"));
    assert_eq!(slice("spec.podSelector.matchLabels.x.y"), (4, 5, "matchLabels"));
    assert_eq!(slice("metadata.name"), (1, 1, ""));
}

#[test]
fn places_are_right_behind_a_byte_order_mark_and_with_crlf() {
    let text = "\u{feff}a: 1\r\nbé:\r\n  c: [x]\r\n";
    let document = one(text);
    assert_eq!(document.value, Ok(json!({"a": 1, "bé": {"c": ["x"]}})));
    let place = document.locate("[\"bé\"].c[0]").unwrap();
    assert_eq!((place.line, place.column, &text[place.bytes]), (3, 7, "x"));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let quoted = error("a: \"x");
    assert!(quoted.starts_with("line "), "{quoted}");
    assert_eq!(error("a: 1\na: 2\n"), "line 2, column 1: duplicate key `a`");
    assert_eq!(error("x:\n  a: 1\n  'a': 2\n"), "line 3, column 3: duplicate key `a`");
    assert_eq!(error("{\"a\": 1, \"a\": 1}"), "line 1, column 10: duplicate key `a`");
    assert_eq!(error("1: a\n'1': b\n"), "line 2, column 1: duplicate key `1`");
    assert_eq!(
        error("apiVersion: v1\nport: 8080---\napiVersion: v1\n"),
        "line 3, column 1: duplicate key `apiVersion`; another object begins after a line with `---` alone"
    );
    assert_eq!(
        error("? [a]\n: b\n"),
        "line 1, column 3: a key must be text, not a list or a mapping"
    );
    assert_eq!(error("? \n: b\n"), "line 2, column 1: a key is missing");
    assert_eq!(error("a: !!int x\n"), "line 1, column 10: `x` cannot be read as its tag says");
    assert_eq!(error("a: !!int 3.5\n"), "line 1, column 10: `3.5` cannot be read as its tag says");
    assert_eq!(error("a: !!binary '@'\n"), "line 1, column 13: `@` cannot be read as its tag says");
    assert_eq!(
        error("a: !!binary /w==\n"),
        "line 1, column 13: `/w==` cannot be read as its tag says"
    );
    assert_eq!(
        error("a: {apiVersion: v1, apiVersion: v1}\n"),
        "line 1, column 21: duplicate key `apiVersion`",
        "no object begins inside of another"
    );
    for text in ["x", "2001-12-14Tjunk", "2001-12", "2001-12-14T1:2", "2001-12-14T1:2:3junk"] {
        assert_eq!(
            error(&format!("a: !!timestamp {text}\n")),
            format!("line 1, column 16: `{text}` cannot be read as its tag says")
        );
    }
    assert_eq!(error("a: &x [*x]\n"), "line 1, column 8: an alias inside the value it refers to");
    assert_eq!(
        error("a:\n  <<: 7\n"),
        "line 2, column 3: `<<` needs a mapping or a list of mappings"
    );
    let tab = error("a:\n\tb: 1\n");
    assert!(
        tab.starts_with("line 2, column 1: ") || tab.starts_with("line 2, column 2: "),
        "{tab}"
    );
}

#[test]
fn a_document_that_cannot_be_read_does_not_hide_the_others() {
    let documents = document::read("a: 1\n---\nb: [1\n---\nc: 3\nc: 4\nd: 5\n---\ne: 6\n");
    let good: Vec<bool> = documents.iter().map(|d| d.value.is_ok()).collect();
    assert_eq!(good, [true, false, false, true]);
    assert_eq!(documents[3].value, Ok(json!({"e": 6})));
    assert_eq!(documents[3].locate("e").unwrap().line, 9);
    assert_eq!(documents[1].locate("b"), None);
}

#[test]
fn bytes_that_are_not_utf8_are_named_with_their_place() {
    let documents = document::read_bytes(b"a: 1\nb\xc3\xa9: \xff\n");
    let error = documents[0].value.clone().unwrap_err();
    assert_eq!(error.to_string(), "line 2, column 5: byte 0xFF is not valid UTF-8");
    assert_eq!(error.location.bytes, 10..10);
    assert_eq!(document::read_bytes(b"a: 1")[0].value, Ok(json!({"a": 1})));
    assert!(document::read_bytes(b"a: \xe2\x82")[0].value.is_err());
}

#[test]
fn aliases_and_merges_are_followed() {
    let text =
        "base: &b {x: 1, w: 2}\nmore: &m {w: 5, z: 3}\nuse:\n  <<: [*b, *m]\n  x: 9\nsame: *b\n";
    let document = one(text);
    let expected = json!({
        "base": {"x": 1, "w": 2}, "more": {"w": 5, "z": 3},
        "use": {"x": 9, "w": 2, "z": 3}, "same": {"x": 1, "w": 2},
    });
    assert_eq!(document.value, Ok(expected));
    assert_eq!(document.locate("use.w").unwrap().line, 1);
    assert_eq!(document.locate("same").unwrap().line, 6);
    assert_eq!(value("a: &x 1\nb: {<<: {c: *x}}\n"), json!({"a": 1, "b": {"c": 1}}));
}

fn within(limit: Duration, text: &str) -> String {
    let start = Instant::now();
    let documents = document::read(text);
    let took = start.elapsed();
    assert!(took < limit, "took {took:?}");
    match documents.into_iter().find_map(|d| d.value.err()) {
        Some(error) => error.message,
        None => String::new(),
    }
}

#[test]
fn aliases_of_aliases_are_bounded() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..12 {
        let alias = format!("*a{},", i - 1).repeat(10);
        text.push_str(&format!("a{i}: &a{i} [{alias}]\n"));
    }
    assert_eq!(within(Duration::from_secs(20), &text), "more than 1000000 values");
}

#[test]
fn long_texts_are_not_multiplied_by_aliases() {
    let (long, aliases) = ("x".repeat(1024 * 1024), "*a,".repeat(100_000));
    for text in [
        format!("- &a {long}\n- [{aliases}]\n"),
        format!("- &a '{long}'\n- [{aliases}]\n"),
        format!("- &a {{? '{long}'\n : 1}}\n- [{aliases}]\n"),
    ] {
        assert_eq!(within(Duration::from_secs(20), &text), "more than 1000000 values");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(one(&nested(MAX_DEPTH)).value.is_ok());
    assert!(one(&nested(MAX_DEPTH + 1)).value.is_err());
    assert_ne!(within(Duration::from_secs(20), &"[".repeat(1_000_000)), "");
    assert_ne!(within(Duration::from_secs(20), &"- ".repeat(1_000_000)), "");
    assert_ne!(within(Duration::from_secs(20), &"a: ".repeat(1_000_000)), "");
    assert_ne!(within(Duration::from_secs(20), &"{a: ".repeat(1_000_000)), "");
}

#[test]
fn ten_megabytes_of_anything_end_soon() {
    let limit = Duration::from_secs(60);
    let of = |piece: &str| piece.repeat(10 * 1024 * 1024 / piece.len());
    assert_eq!(within(limit, &format!("[{}]", of("a,"))), "more than 1000000 values");
    assert_eq!(within(limit, &format!("a: \"{}\"", of("x"))), "");
    for piece in ["&a ", "? ", "!!", "\"", "#", "\t", "*a\n", "a: b: c\n", "a:\n", "%TAG ! x\n"] {
        within(limit, &of(piece));
    }
    let documents = document::read(&of("---\n"));
    assert!(documents.len() <= 100_001, "{}", documents.len());
    assert!(documents[documents.len() - 1].value.is_err());
    let keys: String = (0..200_000).map(|i| format!("key-number-{i}: 1\n")).collect();
    assert_eq!(within(limit, &keys), "");
}

#[test]
fn a_stream_of_json_is_read_as_kubectl_reads_it() {
    let text = "{\"kind\": \"A\", \"at\": {\"x\": 1}}\n{\"kind\": \"B\"} {\"kind\":\n  \"C\"}\n";
    let documents = document::read(text);
    let kinds: Vec<_> =
        documents.iter().map(|it| it.value.clone().unwrap()["kind"].clone()).collect();
    assert_eq!(kinds, [json!("A"), json!("B"), json!("C")]);
    let at = |document: usize, field: &str| {
        let location = documents[document].locate(field).unwrap();
        (location.line, location.column, text[location.bytes].to_owned())
    };
    assert_eq!(at(0, "at.x"), (1, 27, "1".to_owned()));
    assert_eq!(at(1, "kind"), (2, 10, "\"B\"".to_owned()));
    assert_eq!(at(2, "kind"), (3, 3, "\"C\"".to_owned()));
    assert_eq!(documents[2].location.line, 2);
}

#[test]
fn yaml_may_follow_a_stream_of_json() {
    let text = "{\"a\": 1}\n{\"a\": \"---\"}\n---\n{\"a\": 3}\n--- # the last\na: 4\n";
    let documents = document::read(text);
    let values: Vec<_> = documents.iter().map(|it| it.value.clone().unwrap()).collect();
    let expected = [json!(1), json!("---"), json!(3), json!(4)].map(|a| json!({ "a": a }));
    assert_eq!(values, expected);
    let places: Vec<_> = documents.iter().map(|it| it.location.line).collect();
    assert_eq!(places, [1, 2, 3, 5]);
}

#[test]
fn what_begins_like_a_stream_of_json_and_is_none_is_read_as_yaml() {
    assert_eq!(value("{a: 1, b: [2]}"), json!({"a": 1, "b": [2]}));
    assert_eq!(value("{\"a\": 1}\n"), json!({"a": 1}));
    let separated = document::read("{\"a\": 1}\n---\n{\"a\": 2}\n");
    let values: Vec<_> = separated.into_iter().map(|it| it.value.unwrap()).collect();
    assert_eq!(values, [json!({"a": 1}), json!({"a": 2})]);
    let broken = document::read("{\"a\": 1}\n{\"a\": 2");
    assert!(broken.iter().any(|it| it.value.is_err()), "{broken:?}");
}

#[test]
fn what_is_certain_of_a_document_with_a_key_twice_is_kept() {
    let twice = "{a: 1, b: {c: 1, c: 2}, d: [{e: 1}]}\n---\n{a: 2}";
    let found = document::read(twice);
    let [first, second] = &found[..] else { panic!("{found:?}") };
    assert_eq!(first.value.as_ref().unwrap_err().message, "duplicate key `c`");
    let salvaged = first.salvaged.as_ref().unwrap();
    assert_eq!(*salvaged, json!({"a": 1, "b": {"c": [[]]}, "d": [{"e": 1}]}));
    assert!(document::is_ambiguous(salvaged) && !document::is_ambiguous(&salvaged["d"]));
    assert_eq!((second.value.as_ref().unwrap(), &second.salvaged), (&json!({"a": 2}), &None));
    assert_eq!(document::read("{a: 1, a: 2, b: ]}")[0].salvaged, None);
    // Of a key twice with the same value the value is certain.
    let same = &document::read("kind: Server\nkind: Server\na: {b: 1, b: 2}\n")[0];
    assert_eq!(same.value.as_ref().unwrap_err().message, "duplicate key `kind`");
    assert_eq!(same.salvaged, Some(json!({"kind": "Server", "a": {"b": [[]]}})));
}
