//! Precedence among several matches of one request (Gateway API, HTTPRouteRule).

use crate::matching::{PathPattern, RequestMatch, Segment};
use std::cmp::Reverse;

/// The order of matches that match the same path; smaller is tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    path: PathRank,
    no_method: bool,
    headers: Reverse<usize>,
    query: Reverse<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathRank {
    /// For each segment, whether it is a parameter.
    Exact(Vec<bool>),
    Regex,
    Prefix(Reverse<usize>, Vec<bool>),
}

impl Precedence {
    /// The place of a match, before its place in the list.
    pub fn of(wanted: &RequestMatch) -> Self {
        let path = match &wanted.path {
            PathPattern::Regex(_) => PathRank::Regex,
            PathPattern::Segments { segments, rest } => {
                let kinds: Vec<bool> =
                    segments.iter().map(|s| matches!(s, Segment::Parameter(_))).collect();
                if *rest {
                    PathRank::Prefix(Reverse(kinds.len()), kinds)
                } else {
                    PathRank::Exact(kinds)
                }
            }
        };
        Self {
            path,
            no_method: wanted.method().is_none(),
            headers: Reverse(wanted.headers().len()),
            query: Reverse(wanted.query().len()),
        }
    }
}
