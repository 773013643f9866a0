//! Matches that are never reached, because an earlier one matches the same requests.

use policy_core::{HostPattern, RequestMatch, Route, ServerPolicy};
use std::collections::HashMap;

/// A match that is never reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shadowed {
    /// Its route, by number.
    pub(crate) route: usize,
    /// Its rule.
    pub(crate) rule: usize,
    /// Its place in the rule; 0 for the one match of a rule that states none.
    pub(crate) number: usize,
    /// The route that is reached instead.
    pub(crate) by: usize,
}

/// The matches of a policy that are never reached: equal ones are decided by the first.
pub(crate) fn shadowed(policy: &ServerPolicy) -> Vec<Shadowed> {
    let everything = [RequestMatch::everything()];
    // By host table and what a request must be, in words that say everything about it.
    let mut first: HashMap<(Option<&HostPattern>, String), usize> = HashMap::new();
    let mut found = Vec::new();
    for (route, content) in policy.routes.routes.iter().enumerate() {
        for (rule, entry) in content.rules.iter().enumerate() {
            let stated = &entry.matches[..];
            let matches = if stated.is_empty() { &everything[..] } else { stated };
            for (number, wanted) in matches.iter().enumerate() {
                let words = format!("{wanted:?}");
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
