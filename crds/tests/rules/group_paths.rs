//! The grammar of paths of groups.

use policy_crds::resource::{GroupPath, ParameterPlace, PathPrefix};
use proptest::prelude::*;

fn path(text: &str) -> GroupPath {
    GroupPath::parse(text).unwrap_or_else(|reason| panic!("{text}: {reason}"))
}

fn admits(pattern: &GroupPath, request: &str) -> bool {
    pattern.patterns().iter().any(|pattern| pattern.admits(request))
}

/// The grammar, read by its words: a request is split into segments; a slash at its end does not
/// count; a parameter stands for one segment, `*rest` for one or more.
fn naive(pattern: &str, request: &str) -> bool {
    let segments = |text: &str| -> Vec<String> {
        let text = text.strip_suffix('/').unwrap_or(text);
        text.split('/').skip(1).map(str::to_owned).collect()
    };
    let (wanted, mut given) = (segments(pattern), segments(request));
    if wanted.last().is_some_and(|last| last.starts_with('*')) {
        if given.len() < wanted.len() {
            return false;
        }
        given.truncate(wanted.len());
    }
    wanted.len() == given.len()
        && wanted.iter().zip(&given).all(|(wanted, given)| {
            wanted == given || (wanted.starts_with([':', '*']) && !given.is_empty())
        })
}

#[test]
fn a_slash_at_the_end_changes_nothing() {
    let books = path("/books/:id/");
    assert_eq!(
        (books.as_str(), books.parameters().collect::<Vec<_>>()),
        ("/books/:id", vec!["id"])
    );
    assert_eq!(books, path("/books/:id"));
    for (request, expected) in [
        ("/books/42", true),
        ("/books/42/", true),
        ("/books/", false),
        ("/books", false),
        ("/books//", false),
        ("/books/42/x", false),
        ("/books/42/x/", false),
    ] {
        assert_eq!(admits(&books, request), expected, "{request}");
    }
    assert!(admits(&path("/"), "/") && !admits(&path("/"), "/a"));
    assert!(admits(&path("/books"), "/books/"));
}

#[test]
fn the_rest_is_one_or_more_segments() {
    let rest = path("/src/*rest");
    assert!(rest.has_rest() && rest.place_of("rest") == Some(ParameterPlace::Rest));
    for (request, expected) in [
        ("/src", false),
        ("/src/", false),
        ("/src/a", true),
        ("/src/a/", true),
        ("/src/a/b/c", true),
        ("/srca", false),
    ] {
        assert_eq!(admits(&rest, request), expected, "{request}");
    }
    assert!(admits(&path("/*all"), "/a/b") && !admits(&path("/*all"), "/"));
}

#[test]
fn a_parameter_has_a_place() {
    let path = path("/a/:b/c/:d");
    assert_eq!(path.place_of("b"), Some(ParameterPlace::Segment(1)));
    assert_eq!(path.place_of("d"), Some(ParameterPlace::Segment(3)));
    assert_eq!((path.place_of("a"), path.place_of("B")), (None, None));
}

#[test]
fn names_of_parameters_are_no_part_of_the_shape() {
    for (one, other, expected) in [
        ("/books/:book/delete", "/books/:book-id/delete", true),
        ("/books/:a", "/books/:a/", true),
        ("/books/:a", "/books/*a", false),
        ("/books/:a", "/books/a", false),
        ("/books/a", "/books/A", false),
        ("/books/:a", "/books/:a/:b", false),
    ] {
        assert_eq!(path(one).has_shape_of(&path(other)), expected, "{one} {other}");
    }
}

#[test]
fn the_static_prefix_ends_at_the_first_parameter() {
    for (text, prefix) in [
        ("/", "/"),
        ("/:a", "/"),
        ("/books/:id/edit", "/books"),
        ("/a/b/*c", "/a/b"),
        ("/a/", "/a"),
    ] {
        assert_eq!(path(text).static_prefix().as_str(), prefix, "{text}");
    }
}

#[test]
fn what_is_no_path_says_why() {
    for (text, reason) in [
        ("", "must begin with `/`"),
        ("books", "must begin with `/`"),
        ("/a/:id/:id", "has the parameter `id` twice"),
        ("/a/:id/*id", "has the parameter `id` twice"),
        (
            "/a/*rest/b",
            "goes on behind a `*`: a segment that begins with `*` may be the last one only",
        ),
        (
            "/a/*rest/*more",
            "goes on behind a `*`: a segment that begins with `*` may be the last one only",
        ),
        ("/a/:", "has `:` without a name, write one such as `:id`"),
        ("/a/*", "has `*` without a name, write one such as `*id`"),
        (
            "/a/:1",
            "has `:1`, which is not the name of a parameter: a letter or `_`, then letters, digits, `_` and `-`",
        ),
        (
            "/a/:id.json",
            "has `:id.json`, which is not the name of a parameter: a letter or `_`, then letters, digits, `_` and `-`",
        ),
        (
            "/a/b*",
            "has `*` inside the segment `b*`: `*` stands for whole segments, as `*rest` at the end",
        ),
        (
            "/a/%3Aid",
            "has a segment that begins with `%3A`: a segment that begins with `:` or `*` is a parameter and never text",
        ),
        (
            "/a/%2a",
            "has a segment that begins with `%2a`: a segment that begins with `:` or `*` is a parameter and never text",
        ),
        ("/a%40b", "has `%40`, which paths are matched with as `@`"),
        ("/a//b", "has an empty segment: requests with `//` are refused"),
        ("/a/../b", "has the segment `..`: such requests are refused"),
        ("/a/.", "has the segment `.`: such requests are refused"),
        ("/a;b", "contains `;`: requests with path parameters are refused"),
        ("/a?b", "contains `?`: paths are matched without query and fragment"),
        ("/a%2Fb", "contains `/` encoded as `%2F`: such requests are refused"),
    ] {
        assert_eq!(GroupPath::parse(text), Err(reason.to_owned()), "{text}");
    }
    let long = format!("/:{}", "a".repeat(64));
    assert!(GroupPath::parse(&long).is_err());
    assert!(GroupPath::parse(&format!("/{}", "a".repeat(1024))).is_err());
    assert!(GroupPath::parse("/v1/books:batch").is_ok());
}

fn written() -> impl Strategy<Value = String> {
    prop_oneof!["(/(a|b|:x|:y|\\*z|)){0,4}/?", "/[a-c:*./%;\\\\?# {}|@é_0-]{0,10}", ".{0,12}",]
}

proptest! {
    #[test]
    fn a_path_is_printed_as_it_is_read(text in written()) {
        let Ok(path) = GroupPath::parse(&text) else { return Ok(()) };
        let printed = path.to_string();
        prop_assert_eq!(GroupPath::parse(&printed), Ok(path));
        prop_assert!(printed == "/" || !printed.ends_with('/'));
    }

    #[test]
    fn a_path_matches_as_its_words_say(
        text in "(/(a|b|:x|:y)){0,3}(/\\*z)?/?",
        request in "/((a|b|c|%20)(/|/a|/b/c|)?){0,3}/?",
    ) {
        let Ok(path) = GroupPath::parse(&text) else { return Ok(()) };
        prop_assume!(!request.contains("//"));
        prop_assert_eq!(admits(&path, &request), naive(path.as_str(), &request));
        if admits(&path, &request) {
            let inside = PathPrefix::parse(&request).unwrap();
            prop_assert!(path.static_prefix().contains(&inside));
        }
    }

    #[test]
    fn paths_of_one_shape_match_the_same(
        one in "(/(a|:x|:y)){1,3}",
        other in "(/(a|:v|:w)){1,3}",
        request in "(/[ab]){0,4}/?",
    ) {
        let (Ok(one), Ok(other)) = (GroupPath::parse(&one), GroupPath::parse(&other)) else {
            return Ok(());
        };
        if one.has_shape_of(&other) {
            prop_assert_eq!(admits(&one, &request), admits(&other, &request));
        }
    }
}
