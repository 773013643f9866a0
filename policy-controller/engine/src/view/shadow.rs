//! Matches that are never reached, because an earlier one matches the same requests.

use policy_core::{Denied, HostPattern, PathHandling, RequestMatch, Route, Unmatched};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A match that is never reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// Its route, by number.
    pub route: usize,
    /// Its rule.
    pub rule: usize,
    /// Its place in the rule; 0 for the one match of a rule that states none.
    pub number: usize,
    /// The route that is reached instead.
    pub by: usize,
}

/// The matches that are never reached. `routes` are those of one Server, in the order in which equal
/// matches are decided, but those that come before all others are reached first. `hosts` are the results
/// of its hosts' tables, and `paths` is how it handles paths.
pub fn shadowed(
    routes: &[Arc<Route>],
    hosts: &BTreeMap<HostPattern, Unmatched>,
    paths: PathHandling,
) -> Vec<Shadowed> {
    let everything = [RequestMatch::everything()];
    // Keyed by host table and the complete text of the match.
    let mut first: HashMap<(Option<&HostPattern>, String), usize> = HashMap::new();
    let mut found = Vec::new();
    let (before, others): (Vec<_>, Vec<_>) =
        routes.iter().enumerate().partition(|(_, route)| route.origin.comes_first());
    for (route, content) in before.into_iter().chain(others) {
        let tables = tables(content, hosts);
        for (rule, entry) in content.rules.iter().enumerate() {
            let stated = &entry.matches[..];
            let matches = if stated.is_empty() { &everything[..] } else { stated };
            for (number, wanted) in matches.iter().enumerate() {
                let words = format!("{:?}", wanted.on_port(paths));
                let mut by = None;
                let mut reached = tables.is_empty();
                for host in &tables {
                    let earlier = *first.entry((*host, words.clone())).or_insert_with(|| {
                        reached = true;
                        route
                    });
                    by = by.into_iter().chain([earlier]).min();
                }
                if let (false, Some(by)) = (reached, by) {
                    found.push(Shadowed { route, rule, number, by });
                }
            }
        }
    }
    found
}

/// The host tables that a route is in. A route that comes before all others does not apply to hosts
/// that a delegation has closed.
fn tables<'a>(
    route: &'a Route,
    hosts: &BTreeMap<HostPattern, Unmatched>,
) -> Vec<Option<&'a HostPattern>> {
    if route.hosts.is_empty() {
        return vec![None];
    }
    let closed = |host: &&HostPattern| {
        route.origin.comes_first()
            && hosts.get(*host) == Some(&Unmatched::Deny(Denied::NotDelegated))
    };
    route.hosts.iter().filter(|host| !closed(host)).map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_core::testing::{object, route};
    use policy_core::{Origin, PathPattern};

    fn named(name: &str, unreadable: bool) -> Arc<Route> {
        let mut content = route(name, vec![RequestMatch::path(PathPattern::prefix("/a"))]);
        if unreadable {
            content.origin = Origin::Unreadable(object("HTTPRoute", name));
        }
        Arc::new(content)
    }

    #[test]
    fn a_route_that_denies_before_others_hides_an_older_one() {
        let routes = vec![named("old", false), named("broken", true), named("new", false)];
        let hidden = |route| Shadowed { route, rule: 0, number: 0, by: 1 };
        let found = shadowed(&routes, &BTreeMap::new(), PathHandling::Canonical);
        assert_eq!(found, [hidden(0), hidden(2)]);
    }

    #[test]
    fn a_route_that_denies_before_others_hides_none_on_a_closed_host() {
        let host = HostPattern::Exact("a.example".into());
        let routes = [named("old", false), named("broken", true)].map(|mut route| {
            Arc::make_mut(&mut route).hosts = vec![host.clone()].into();
            route
        });
        let hidden = Shadowed { route: 0, rule: 0, number: 0, by: 1 };
        let found = |hosts| shadowed(&routes, &hosts, PathHandling::Canonical);
        assert_eq!(found(BTreeMap::new()), [hidden]);
        let closed = BTreeMap::from([(host, Unmatched::Deny(Denied::NotDelegated))]);
        assert_eq!(found(closed), []);
    }
}
