//! Matches that are never reached, because an earlier one matches the same requests.

use policy_core::{HostPattern, PathHandling, RequestMatch, Route};
use std::collections::HashMap;
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
/// matches are decided; `paths` is how it handles paths.
pub fn shadowed(routes: &[Arc<Route>], paths: PathHandling) -> Vec<Shadowed> {
    let everything = [RequestMatch::everything()];
    // Keyed by host table and the complete text of the match.
    let mut first: HashMap<(Option<&HostPattern>, String), usize> = HashMap::new();
    let mut found = Vec::new();
    for (route, content) in routes.iter().enumerate() {
        for (rule, entry) in content.rules.iter().enumerate() {
            let stated = &entry.matches[..];
            let matches = if stated.is_empty() { &everything[..] } else { stated };
            for (number, wanted) in matches.iter().enumerate() {
                let words = format!("{:?}", wanted.on_port(paths));
                let mut reached = false;
                let mut by = route;
                for host in tables(content) {
                    let earlier = *first.entry((host, words.clone())).or_insert_with(|| {
                        reached = true;
                        route
                    });
                    by = by.min(earlier);
                }
                if !reached {
                    found.push(Shadowed { route, rule, number, by });
                }
            }
        }
    }
    found
}

/// The host tables that a route is in.
fn tables(route: &Route) -> Vec<Option<&HostPattern>> {
    if route.hosts.is_empty() { vec![None] } else { route.hosts.iter().map(Some).collect() }
}
