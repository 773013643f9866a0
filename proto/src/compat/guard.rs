//! Guards: the routes of a tree's hosts that refuse, before all others, paths of which another spelling
//! stands for the same.
//!
//! Of the spellings of a path they leave those that no match of the table could tell apart.

use super::filter::FilterEncoding;
use super::options::EncodeOptions;
use super::route_kind::{LinkerdRoute, RoutePlan, RulePlan};
use super::table::{Table, closed, of_route};
use http::Method;
use policy_core::decision::Denied;
use policy_core::filter::{Failure, FilterKind};
use policy_core::matching::{HostPattern, PathPattern, RequestMatch, Segment};
use policy_core::name::Origin;
use policy_core::policy::{PathHandling, ServerPolicy};
use std::collections::BTreeMap;

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
        // None but `*`, which OPTIONS may ask for; empty segments; dot segments.
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
pub(super) fn guards<F: LinkerdRoute>(
    policy: &ServerPolicy,
    options: &EncodeOptions,
) -> Vec<RoutePlan<F>> {
    let tables = Refused::of_tables(policy);
    let mut guards = Vec::new();
    for refused in [Refused::OfUnreserved, Refused::ButMatchForm] {
        let Some(matched) = F::expression(refused.expression()) else { continue };
        let guarded = tables.iter().filter(|(_, own)| **own == refused).map(|(table, _)| *table);
        let guarded: Vec<Table<'_>> = guarded.collect();
        let without_path = without_path(policy, &guarded);
        let without_path = without_path.iter().filter_map(|wanted| F::matched(wanted, options));
        let matches: Vec<F::Match> = [matched].into_iter().chain(without_path).collect();
        guards.extend(split(&guarded).into_iter().map(|hosts| {
            let rule = RulePlan { matches: matches.clone(), filters: refusal::<F>() };
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

/// Matches for CONNECT, whose target has no path. A Linkerd proxy counts one character of any path for
/// the prefix `/`, and none for an expression that covers an empty one. So each match of that prefix has
/// a guard with its other predicates.
fn without_path(policy: &ServerPolicy, tables: &[Table<'_>]) -> Vec<RequestMatch> {
    let everything = PathPattern::prefix("/");
    let routes = policy.routes.routes.iter();
    let routes = routes.filter(|route| of_route(route).iter().any(|own| tables.contains(own)));
    let matches = routes.flat_map(|route| &route.rules).flat_map(|rule| &rule.matches);
    let of_prefix = matches.filter_map(|wanted| {
        let (path, method, headers, query) = wanted.parts();
        let is_met = method.is_none_or(|method| *method == Method::CONNECT);
        let has_more = !headers.is_empty() || !query.is_empty();
        (is_met && has_more && *path == everything).then(|| (headers.to_vec(), query.to_vec()))
    });
    let connect = |(headers, query)| {
        RequestMatch::new(everything.clone(), Some(Method::CONNECT), headers, query)
    };
    [(Vec::new(), Vec::new())].into_iter().chain(of_prefix).map(connect).collect()
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
        required: false,
    });
    match F::filter(&failure) {
        FilterEncoding::Sent(filter) => vec![filter],
        FilterEncoding::Omitted(_) | FilterEncoding::Denied(_) => Vec::new(),
    }
}
