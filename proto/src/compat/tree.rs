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
//! Of the spellings of a path the guard leaves those that no match of the table could tell apart.
//! A host of which another match could outrank the guard, or whose order would be another one there,
//! is denied as a whole.

use super::filter::FilterEncoding;
use super::options::EncodeOptions;
use super::route_kind::{Http, LinkerdRoute, RoutePlan, RulePlan};
use crate::unsupported::{Part, Report};
use http::header::HOST;
use policy_core::decision::Denied;
use policy_core::filter::{Failure, FilterKind};
use policy_core::matching::{HostPattern, PathPattern, RequestMatch, Segment};
use policy_core::name::Origin;
use policy_core::policy::{Exemption, PathHandling, Protocol, Route, RouteTable, Rule};
use policy_core::policy::{ServerPolicy, Unmatched};
use policy_core::precedence::Precedence;
use policy_core::{ObjectRef, canonical_path, match_form};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most matches of trees on one port, those of a route counted for each of its hosts. A Linkerd
/// proxy compares a request with every one.
const MAX_MATCHES: usize = 4096;

/// The result where no rule of a tree's host matches.
pub(super) const CLOSED: Unmatched = Unmatched::Deny(Denied::NotDelegated);

/// A host's table, or that of routes without hosts.
type Table<'p> = Option<&'p HostPattern>;

/// A match in a table of a tree.
struct Entry<'p> {
    route: &'p Route,
    rule: &'p Rule,
    wanted: Cow<'p, RequestMatch>,
    /// Its place in the list.
    listed: usize,
}

/// The tables of trees, which may have no routes.
fn closed(policy: &ServerPolicy) -> impl Iterator<Item = Table<'_>> {
    let RouteTable { routes: _, hosts, otherwise } = &policy.routes;
    let hosts = hosts.iter().filter(|(_, then)| **then == CLOSED).map(|(host, _)| Some(host));
    hosts.chain((*otherwise == CLOSED).then_some(None))
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
    for (origin, why) in concerned(&tables, &refused) {
        report.denied(Part::Route(origin.clone()), format!("{why}: denied there"));
    }
    let mut sent = policy.clone();
    let routes = policy.routes.routes.iter();
    sent.routes.routes = routes.filter_map(|r| rewritten(policy, r, &tables, &refused)).collect();
    if policy.routes.otherwise == CLOSED {
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

/// The tables of a route, each once.
fn of_route(route: &Route) -> BTreeSet<Table<'_>> {
    if route.hosts.is_empty() { [None].into() } else { route.hosts.iter().map(Some).collect() }
}

/// The tables that cannot be sent, and why.
fn refused<'p>(
    policy: &ServerPolicy,
    tables: &BTreeMap<Table<'p>, Vec<Entry<'p>>>,
    options: &EncodeOptions,
) -> BTreeMap<Table<'p>, String> {
    let is_grpc = policy.protocol == Protocol::Grpc;
    let of_hosts = tables.iter().filter(|(table, _)| table.is_some());
    let count = of_hosts.map(|(_, entries)| entries.len()).fold(0, usize::saturating_add);
    let of_table = |(table, entries): (&Table<'p>, &Vec<Entry<'p>>)| {
        let why = match table {
            Some(_) if is_grpc => Some("paths that were handed down, for gRPC".to_owned()),
            Some(_) if count > MAX_MATCHES => Some(format!(
                "{count} matches of paths that were handed down, of at most {MAX_MATCHES} \
                 (`TooLarge`)"
            )),
            // Calls are as in any other table: there is no guard that could be outranked.
            None if is_grpc => None,
            Some(_) | None => fault(entries, options).map(str::to_owned),
        };
        why.map(|why| (*table, why))
    };
    tables.iter().filter_map(of_table).collect()
}

/// The routes that are left out of a table, one for each object, with the reason.
fn concerned<'p>(
    tables: &BTreeMap<Table<'p>, Vec<Entry<'p>>>,
    refused: &BTreeMap<Table<'p>, String>,
) -> Vec<(&'p Origin, String)> {
    let mut first: BTreeMap<Option<&ObjectRef>, (&Origin, String)> = BTreeMap::new();
    for (table, why) in refused {
        let on = match table {
            Some(HostPattern::Exact(name)) => format!("`{name}`: "),
            Some(HostPattern::Suffix(suffix)) => format!("`*.{suffix}`: "),
            None => String::new(),
        };
        for Entry { route, .. } in tables.get(table).into_iter().flatten() {
            let found = || (&route.origin, format!("{on}{why}"));
            first.entry(route.origin.object()).or_insert_with(found);
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
    if own.iter().all(|table| !tables.contains_key(table)) {
        return Some(Arc::clone(route));
    }
    if own.iter().all(|table| refused.contains_key(table)) {
        return None;
    }
    let mut sent = Route::clone(route);
    sent.hosts =
        route.hosts.iter().filter(|host| !refused.contains_key(&Some(*host))).cloned().collect();
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
/// that of Linkerd's proxies.
fn is_order_kept(group: &mut [&Entry<'_>]) -> bool {
    let same = |a: &Entry<'_>, b: &Entry<'_>| {
        a.route.authorizations == b.route.authorizations
            && a.route.inherits_server == b.route.inherits_server
            && a.route.origin.refusal().is_some() == b.route.origin.refusal().is_some()
            && a.rule.effects == b.rule.effects
    };
    group.sort_by_cached_key(|entry| (Precedence::of(&entry.wanted), entry.listed));
    let theirs = |entry: &Entry<'_>| {
        let wanted = &entry.wanted;
        let (headers, query) = (wanted.headers().len(), wanted.query().len());
        (Reverse(headers), Reverse(query), wanted.method().is_none(), entry.listed)
    };
    group.is_sorted_by_key(|entry| theirs(entry))
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

/// Returns true if every segment of the path is a literal of unreserved characters.
fn is_unreserved(wanted: &RequestMatch) -> bool {
    let unreserved =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    match &wanted.path {
        PathPattern::Regex(_) => false,
        PathPattern::Segments { segments, rest: _ } => segments.iter().all(|s| match s {
            Segment::Literal(text) => text.bytes().all(unreserved),
            Segment::Parameter(_) => false,
        }),
    }
}

/// The spellings of paths that a guard refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// Those of which another spelling may be one of unreserved characters.
    OfUnreserved,
    /// All but the match form.
    ButMatchForm,
}

impl Refused {
    /// The guard of each table: as wide as its matches require, so that clients may encode what no
    /// match names.
    fn of_tables(policy: &ServerPolicy) -> BTreeMap<Table<'_>, Self> {
        let least = match policy.paths {
            PathHandling::Canonical => Self::OfUnreserved,
            PathHandling::Raw => Self::ButMatchForm,
        };
        let mut tables: BTreeMap<Table<'_>, Self> =
            closed(policy).map(|table| (table, least)).collect();
        for route in &policy.routes.routes {
            if route.rules.iter().flat_map(|rule| &rule.matches).all(is_unreserved) {
                continue;
            }
            for table in of_route(route) {
                tables.entry(table).and_modify(|refused| *refused = Self::ButMatchForm);
            }
        }
        tables
    }

    /// The whole path matches it if it is refused.
    fn expression(self) -> String {
        // No path but that of `OPTIONS *` and of CONNECT; empty segments; dot segments.
        let shape = r"|[^/].*|.*//.*|.*/\.\.?(?:/.*)?";
        let spelling = match self {
            // Not visible ASCII; `\` and `;`; a broken encoding; one of an unreserved character, a
            // control byte, `/`, `;` or `\`.
            Self::OfUnreserved => {
                r".*[^\x21-\x7E].*|.*[\\;].*|.*%(?:[^0-9A-Fa-f].*|[0-9A-Fa-f](?:[^0-9A-Fa-f].*)?)?|.*%(?:[01][0-9A-Fa-f]|2[D-Fd-f]|3[0-9Bb]|4[1-9A-Fa-f]|5[0-9AaCcFf]|6[1-9A-Fa-f]|7[0-9AaEeFf]).*"
            }
            // A character that the match form encodes; a broken encoding, or one in lower case; one of
            // a character that the match form does not encode, or of one that is refused.
            Self::ButMatchForm => {
                r".*[^A-Za-z0-9\-._~!$&'()*+,=:@/%].*|.*%(?:[^0-9A-F].*|[0-9A-F](?:[^0-9A-F].*)?)?|.*%(?:[01][0-9A-F]|2[146-9A-F]|3[0-9ABD]|4[0-9A-F]|5[0-9ACF]|6[1-9A-F]|7[0-9AEF]).*"
            }
        };
        format!("^(?:{shape}|{spelling})$")
    }
}

/// The routes that refuse unclean paths, which come before all others. gRPC has no regular expressions.
pub(super) fn guards<F: LinkerdRoute>(policy: &ServerPolicy) -> Vec<RoutePlan<F>> {
    let tables = Refused::of_tables(policy);
    let mut guards = Vec::new();
    for refused in [Refused::OfUnreserved, Refused::ButMatchForm] {
        let Some(matched) = F::expression(refused.expression()) else { continue };
        let guarded = tables.iter().filter(|(_, own)| **own == refused).map(|(table, _)| *table);
        guards.extend(split(&guarded.collect::<Vec<_>>()).into_iter().map(|hosts| {
            let rule = RulePlan { matches: vec![matched.clone()], filters: refusal::<F>() };
            RoutePlan {
                metadata: RoutePlan::<F>::named(&Origin::Guard),
                hosts,
                rules: vec![rule],
                grants: Vec::new(),
                inherits: false,
            }
        }));
    }
    guards
}

/// The routes that deny what no other of a tree's host matches, which come after all others.
pub(super) fn denials<F: LinkerdRoute>(policy: &ServerPolicy) -> Vec<RoutePlan<F>> {
    let tables: Vec<Table<'_>> = closed(policy).collect();
    let deny = |hosts| RoutePlan::everything(Denied::NotDelegated.as_str(), hosts, false);
    split(&tables).into_iter().map(deny).collect()
}

/// Returns the lists of hosts for the routes of these tables: all hosts together, and none for the
/// table without hosts.
fn split(tables: &[Table<'_>]) -> Vec<Vec<HostPattern>> {
    let hosts: Vec<HostPattern> = tables.iter().flatten().copied().cloned().collect();
    let hostless = tables.contains(&None).then(Vec::new);
    (!hosts.is_empty()).then_some(hosts).into_iter().chain(hostless).collect()
}

/// Answers 400. Without grants the proxy denies before, save for clients on its own loopback
/// interface, which it lets pass every route.
fn refusal<F: LinkerdRoute>() -> Vec<F::Filter> {
    let failure = FilterKind::Failure(Failure {
        status: 400,
        grpc_status: 3,
        message: "ambiguous target".into(),
        numerator: 1,
        denominator: 1,
    });
    match F::filter(&failure) {
        FilterEncoding::Sent(filter) => vec![filter],
        FilterEncoding::Omitted(_) | FilterEncoding::Denied(_) => Vec::new(),
    }
}
