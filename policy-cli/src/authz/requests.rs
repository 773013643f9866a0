//! Requests in words.

use policy_core::{Route, Rule};
use policy_engine::view::Shadowed;

/// Returns the matches of a route in words, split into those that can be reached and those that
/// cannot.
pub(super) fn matches(
    route: &Route,
    number: usize,
    shadowed: &[Shadowed],
) -> (Vec<String>, Vec<String>) {
    let (mut what, mut unreached) = (Vec::new(), Vec::new());
    for (place, rule) in route.rules.iter().enumerate() {
        let (own, none) = rule_matches(route, (number, place), rule, shadowed);
        what.extend(own);
        unreached.extend(none);
    }
    (what, unreached)
}

/// The same of one rule, which is number `place.1` of route `place.0`. Matches of a route that has a
/// label differ by a slash at the end alone, which is left out: the label is the path as its author
/// wrote it.
pub(super) fn rule_matches(
    route: &Route,
    place: (usize, usize),
    rule: &Rule,
    shadowed: &[Shadowed],
) -> (Vec<String>, Vec<String>) {
    let is_shadowed = |number: usize| {
        shadowed.iter().any(|s| (s.route, s.rule, s.number) == (place.0, place.1, number))
    };
    let mut what: Vec<String> = Vec::new();
    let mut none: Vec<(String, String)> = Vec::new();
    let all = rule.matches.is_empty().then(|| ("requests".to_owned(), "requests".to_owned()));
    let each = rule.matches.iter().map(|wanted| {
        let exact = wanted.to_string();
        let label = route.label.as_ref();
        (label.map_or_else(|| exact.clone(), |label| wanted.words_on(label.as_str())), exact)
    });
    for (number, (words, exact)) in all.into_iter().chain(each).enumerate() {
        if is_shadowed(number) {
            none.push((words, exact));
        } else if route.label.is_none() || !what.contains(&words) {
            what.push(words);
        }
    }
    let mut unreached: Vec<String> = Vec::new();
    for (words, exact) in none {
        // Where one of two spellings is reached, the other is told as it is.
        let words = if what.contains(&words) { exact } else { words };
        let words = format!("{words} (never reached)");
        if !unreached.contains(&words) {
            unreached.push(words);
        }
    }
    (what, unreached)
}

/// Requests and the route that they belong to, in lines.
pub(super) fn request_lines(what: &[String], hosts: &[String], route: Option<&str>) -> Vec<String> {
    let mut lines = what.to_vec();
    if !hosts.is_empty() {
        lines.push(format!("on {}", hosts.join(", ")));
    }
    lines.extend(route.map(|route| format!("({route})")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::testing::route;
    use policy_core::{PathPattern, RequestMatch, RouteLabel};

    #[test]
    fn a_label_stands_for_both_spellings_unless_one_is_never_reached() {
        let wanted = |path: &str| RequestMatch::path(PathPattern::exact(path));
        let mut labelled = route("r", vec![wanted("/books"), wanted("/books/")]);
        let words = |words: &[&str]| words.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let shadow = |number| Shadowed { route: 3, rule: 0, number, by: 1 };
        assert_eq!(matches(&labelled, 3, &[]), (words(&["* /books", "* /books/"]), Vec::new()));
        labelled.label = Some(RouteLabel::new("/books"));
        assert_eq!(matches(&labelled, 3, &[]), (words(&["* /books"]), Vec::new()));
        let one = matches(&labelled, 3, &[shadow(1)]);
        assert_eq!(one, (words(&["* /books"]), words(&["* /books/ (never reached)"])));
        let both = matches(&labelled, 3, &[shadow(0), shadow(1)]);
        assert_eq!(both, (Vec::new(), words(&["* /books (never reached)"])));
        assert_eq!(matches(&labelled, 2, &[shadow(0)]), (words(&["* /books"]), Vec::new()));
    }
}
