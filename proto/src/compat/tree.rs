//! Hosts that belong to a tree of paths that were handed down.
//!
//! Linkerd's proxies match paths as they were received, and of the matches of a request take the one
//! that covers most of its path; only among equals do headers, parameters, the method and the place
//! in the list count. A tree holds by prefixes, which a path such as `/a/../b` would escape. So each
//! host of a tree begins with a guard, a regular expression for every path that another spelling
//! stands for. An expression covers the whole path, hence no clean prefix or exact path outranks it.
//! It ends with a route that denies the rest, because an unmatched request would be searched for among
//! routes without hosts.
//!
//! A host of which another match could outrank the guard, or whose order would be another one there,
//! is denied as a whole. So is what requests could reach that leave the tree by capital letters in their
//! host (`capitals`).

use super::capitals;
use super::options::EncodeOptions;
use super::route_kind::{Http, LinkerdRoute};
use super::table::{CLOSED, Table, closed, of_route};
use crate::unsupported::{Part, Report};
use http::header::HOST;
use policy_core::matching::{HostPattern, PathPattern, RequestMatch, Segment};
use policy_core::policy::{Exemption, Protocol, Route, Rule, ServerPolicy};
use policy_core::precedence::Precedence;
use policy_core::{ObjectRef, canonical_path, match_form};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most matches of trees on one port, those of a route counted for each of its hosts. A Linkerd
/// proxy compares a request with every one.
pub const MAX_TREE_MATCHES: usize = 4096;

/// A match in a table of a tree.
struct Entry<'p> {
    route: &'p Route,
    rule: &'p Rule,
    wanted: Cow<'p, RequestMatch>,
    /// Its place in the list.
    listed: usize,
}

/// Returns `policy` with its trees as a Linkerd proxy can hold to them: matches of theirs in the match
/// form, and no route on a host whose requests could be decided otherwise there.
pub(super) fn expressible<'p>(
    policy: &'p ServerPolicy,
    options: &EncodeOptions,
    report: &mut Report,
) -> Cow<'p, ServerPolicy> {
    let tables = tables(policy);
    if tables.is_empty() {
        return Cow::Borrowed(policy);
    }
    let refused = refused(policy, &tables, options);
    for (part, why) in concerned(policy, &refused) {
        report.denied(part, format!("{why}: denied there"));
    }
    let mut sent = policy.clone();
    let routes = policy.routes.routes.iter();
    sent.routes.routes = routes.filter_map(|r| rewritten(policy, r, &tables, &refused)).collect();
    for table in refused.keys() {
        match table {
            Some(host) => sent.routes.hosts.insert((*host).clone(), CLOSED),
            None => Some(std::mem::replace(&mut sent.routes.otherwise, CLOSED)),
        };
    }
    if sent.routes.otherwise == CLOSED {
        sent.exemptions.retain(|exemption| is_reachable(exemption, report));
    }
    Cow::Owned(sent)
}

/// The matches of each table of a tree, in the order of the list.
fn tables(policy: &ServerPolicy) -> BTreeMap<Table<'_>, Vec<Entry<'_>>> {
    let mut tables: BTreeMap<Table<'_>, Vec<Entry<'_>>> =
        closed(policy).map(|table| (table, Vec::new())).collect();
    for route in &policy.routes.routes {
        for table in of_route(route) {
            let Some(entries) = tables.get_mut(&table) else { continue };
            for rule in &route.rules {
                let everything = rule.matches.is_empty().then(RequestMatch::everything);
                let own = rule.matches.iter().map(|wanted| wanted.on_port(policy.paths));
                for wanted in own.chain(everything.map(Cow::Owned)) {
                    entries.push(Entry { route, rule, wanted, listed: entries.len() });
                }
            }
        }
    }
    tables
}

/// The number of matches of the trees of a policy, those of a route counted for each of its hosts.
pub fn tree_matches(policy: &ServerPolicy) -> usize {
    let tables: BTreeSet<Table<'_>> = closed(policy).filter(Option::is_some).collect();
    let of_route = |route: &Route| {
        let hosts = of_route(route).into_iter().filter(|table| tables.contains(table)).count();
        let matches = route.rules.iter().map(|rule| rule.matches.len().max(1));
        matches.fold(0, usize::saturating_add).saturating_mul(hosts)
    };
    policy.routes.routes.iter().map(|route| of_route(route)).fold(0, usize::saturating_add)
}

/// The tables that cannot be sent, and why.
fn refused<'p>(
    policy: &'p ServerPolicy,
    tables: &BTreeMap<Table<'p>, Vec<Entry<'p>>>,
    options: &EncodeOptions,
) -> BTreeMap<Table<'p>, String> {
    let is_grpc = policy.protocol == Protocol::Grpc;
    let of_hosts = tables.iter().filter(|(table, _)| table.is_some());
    let count = of_hosts.map(|(_, entries)| entries.len()).fold(0, usize::saturating_add);
    let of_table = |(table, entries): (&Table<'p>, &Vec<Entry<'p>>)| {
        let why = match table {
            Some(_) if is_grpc => Some("paths that were handed down, for gRPC".to_owned()),
            Some(_) if count > MAX_TREE_MATCHES => Some(format!(
                "{count} matches of paths that were handed down, of at most {MAX_TREE_MATCHES} \
                 (`TooLarge`)"
            )),
            // Calls are as in any other table: there is no guard that could be outranked.
            None if is_grpc => None,
            Some(_) | None => fault(entries, options).map(str::to_owned),
        };
        why.map(|why| (*table, why))
    };
    let mut refused: BTreeMap<Table<'p>, String> = tables.iter().filter_map(of_table).collect();
    for (table, host) in capitals::reachable(policy) {
        let why = || format!("older proxies look there for {} in capital letters", shown(host));
        refused.entry(table).or_insert_with(why);
    }
    refused
}

fn shown(host: &HostPattern) -> String {
    match host {
        HostPattern::Exact(name) => format!("`{name}`"),
        HostPattern::Suffix(suffix) => format!("`*.{suffix}`"),
    }
}

/// The routes that are left out of a table, one for each object, with the reason. The port, where it
/// has grants and no route.
fn concerned<'p>(
    policy: &'p ServerPolicy,
    refused: &BTreeMap<Table<'p>, String>,
) -> Vec<(Part, String)> {
    let mut first: BTreeMap<Option<&ObjectRef>, (Part, String)> = BTreeMap::new();
    for (table, why) in refused {
        let why = match table {
            Some(host) => format!("{}: {why}", shown(host)),
            None => why.clone(),
        };
        let routes = policy.routes.routes.iter();
        let routes: Vec<_> = routes.filter(|route| of_route(route).contains(table)).collect();
        for Route { origin, .. } in routes.iter().map(|route| &***route) {
            let found = || (Part::Route(origin.clone()), why.clone());
            first.entry(origin.object()).or_insert_with(found);
        }
        if routes.is_empty() {
            first.entry(None).or_insert_with(|| (Part::Port, why.clone()));
        }
    }
    first.into_values().collect()
}

/// Returns a route as it is sent; `None` if no table of it is left.
fn rewritten<'p>(
    policy: &ServerPolicy,
    route: &'p Arc<Route>,
    tables: &BTreeMap<Table<'p>, Vec<Entry<'p>>>,
    refused: &BTreeMap<Table<'p>, String>,
) -> Option<Arc<Route>> {
    let own = of_route(route);
    let is_of_tree = own.iter().any(|table| tables.contains_key(table));
    if !is_of_tree && !own.iter().any(|table| refused.contains_key(table)) {
        return Some(Arc::clone(route));
    }
    if own.iter().all(|table| refused.contains_key(table)) {
        return None;
    }
    let mut sent = Route::clone(route);
    sent.hosts =
        route.hosts.iter().filter(|host| !refused.contains_key(&Some(*host))).cloned().collect();
    if !is_of_tree {
        return Some(Arc::new(sent));
    }
    for rule in &mut sent.rules {
        // Not as it was written, which may be longer or shorter than what it means.
        let plain = |wanted: &RequestMatch| {
            let wanted = wanted.on_port(policy.paths);
            let (path, method, headers, query) = wanted.parts();
            RequestMatch::new(path.clone(), method.cloned(), headers.to_vec(), query.to_vec())
        };
        rule.matches = match rule.matches.as_slice() {
            [] => [RequestMatch::everything()].into(),
            matches => matches.iter().map(plain).collect(),
        };
    }
    Some(Arc::new(sent))
}

/// Returns the reason why a Linkerd proxy could decide otherwise in a table.
fn fault(entries: &[Entry<'_>], options: &EncodeOptions) -> Option<&'static str> {
    for Entry { wanted, .. } in entries {
        let has_more =
            wanted.method().is_some() || !wanted.headers().is_empty() || !wanted.query().is_empty();
        if wanted.headers().iter().any(|header| header.name == HOST) {
            return Some("a match on the header `host`");
        }
        match &wanted.path {
            PathPattern::Regex(_) if has_more || options.matches_as_written => {
                return Some("a regular expression that could outrank the guard of its host");
            }
            PathPattern::Regex(_) => {}
            PathPattern::Segments { segments, rest: _ } if !is_clean(segments) => {
                return Some("a path with parameters or in another than its canonical form");
            }
            PathPattern::Segments { .. } => {}
        }
        if Http::matched(wanted, options).is_none() {
            return Some("a match that its messages cannot say");
        }
    }
    let kept = groups(entries).iter_mut().all(|group| is_order_kept(group));
    (!kept).then_some("matches that compete in another order there")
}

/// Returns true if the segments are literals, and the path is clean.
fn is_clean(segments: &[Segment]) -> bool {
    let mut path = String::new();
    for segment in segments {
        match segment {
            Segment::Literal(text) => {
                path.push('/');
                path.push_str(text);
            }
            Segment::Parameter(_) => return false,
        }
    }
    segments.is_empty()
        || (matches!(canonical_path(&path), Ok(Cow::Borrowed(_)))
            && matches!(match_form(&path), Cow::Borrowed(_)))
}

/// Matches that may cover equally much of one path, together. Of different prefixes of one path, and
/// of a prefix and an exact path, the longer one wins here and there.
fn groups<'e, 'p>(entries: &'e [Entry<'p>]) -> Vec<Vec<&'e Entry<'p>>> {
    let mut groups: BTreeMap<&[Segment], Vec<&Entry<'_>>> = BTreeMap::new();
    for entry in entries {
        match &entry.wanted.path {
            PathPattern::Regex(_) => return vec![entries.iter().collect()],
            PathPattern::Segments { segments, rest: _ } => {
                let path = match segments.split_last() {
                    Some((Segment::Literal(text), before)) if text.is_empty() => before,
                    Some(_) | None => segments,
                };
                groups.entry(path).or_default().push(entry);
            }
        }
    }
    groups.into_values().collect()
}

/// Returns true if the first of these that matches a request permits the same, in our order and in
/// those of Linkerd's proxies: before their change 4604 a header ranks above a method, and since then
/// an exact path above a prefix that covers as much.
fn is_order_kept(group: &mut [&Entry<'_>]) -> bool {
    let same = |a: &Entry<'_>, b: &Entry<'_>| {
        a.route.authorizations == b.route.authorizations
            && a.route.inherits_server == b.route.inherits_server
            && a.route.origin.refusal().is_some() == b.route.origin.refusal().is_some()
            && a.rule.effects == b.rule.effects
    };
    group.sort_by_cached_key(|entry| (Precedence::of(&entry.wanted), entry.listed));
    let counts = |wanted: &RequestMatch| {
        (Reverse(wanted.headers().len()), Reverse(wanted.query().len()), wanted.method().is_none())
    };
    let before = |entry: &Entry<'_>| (counts(&entry.wanted), entry.listed);
    let since = |entry: &Entry<'_>| {
        let (headers, query, no_method) = counts(&entry.wanted);
        let is_exact = matches!(entry.wanted.path, PathPattern::Segments { rest: false, .. });
        (!is_exact, no_method, headers, query, entry.listed)
    };
    (group.is_sorted_by_key(|entry| before(entry)) && group.is_sorted_by_key(|entry| since(entry)))
        || group.windows(2).all(|pair| match pair {
            [a, b] => same(a, b),
            _ => true,
        })
}

/// Returns true if requests of the exemption pass the guard.
fn is_reachable(exemption: &Exemption, report: &mut Report) -> bool {
    let clean = exemption.request.as_ref().is_none_or(|wanted| match &wanted.path {
        PathPattern::Segments { segments, rest: _ } => is_clean(segments),
        PathPattern::Regex(_) => false,
    });
    if !clean {
        let part = Part::Exemption(exemption.authorization.source.clone());
        report.left_out(part, "a path in another than its canonical form: not sent");
    }
    clean
}
