//! Matches of a route that can never be reached, because an earlier rule matches the same requests.

use policy_core::{HostPattern, ObjectRef, Route};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

/// One alternative of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    rule: usize,
    number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.rules[{}].matches[{}]", self.rule, self.number)
    }
}

/// The places of the route `own` that are never reached, each with who is reached instead. `routes`
/// are those of one Server, in the order in which equal matches are decided.
pub(super) fn shadows(routes: &[Arc<Route>], own: &ObjectRef) -> BTreeMap<Place, Arc<str>> {
    // By host and by what a request must be, in words that say everything about it.
    let mut first: HashMap<(Option<&HostPattern>, String), &ObjectRef> = HashMap::new();
    let mut found = BTreeMap::new();
    for route in routes {
        let Some(object) = route.origin.object() else { continue };
        for (rule, content) in route.rules.iter().enumerate() {
            for (number, wanted) in content.matches.iter().enumerate() {
                let words = format!("{wanted:?}");
                let mut by = None;
                let mut reached = false;
                for host in hosts(route) {
                    match first.get(&(host, words.clone())) {
                        Some(earlier) => by = Some(*earlier),
                        None => {
                            first.insert((host, words.clone()), object);
                            reached = true;
                        }
                    }
                }
                if let (false, true, Some(by)) = (reached, object == own, by) {
                    found.insert(Place { rule, number }, words_for(by, own));
                }
            }
        }
    }
    found
}

fn words_for(by: &ObjectRef, own: &ObjectRef) -> Arc<str> {
    if by == own { "an earlier rule of this route".into() } else { by.to_string().into() }
}

/// The host tables that a route is in.
fn hosts(route: &Route) -> Vec<Option<&HostPattern>> {
    if route.hosts.is_empty() { vec![None] } else { route.hosts.iter().map(Some).collect() }
}
