//! Precedence among several matches of one request (Gateway API, HTTPRouteRule; docs/spec/requests.md 2.1).

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

/// The order of paths. Of paths without parameters it is that of the Gateway API: exact ones, regular
/// expressions, longer prefixes, shorter prefixes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathRank {
    /// Text alone.
    Exact,
    Regex,
    /// From the left, as httprouter has it: text, then a parameter, then what may be any number of
    /// segments.
    Segments(Vec<SegmentRank>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SegmentRank {
    Literal,
    Parameter,
    Rest,
}

impl PathRank {
    fn of(path: &PathPattern) -> Self {
        let PathPattern::Segments { segments, rest } = path else { return Self::Regex };
        let rank = |segment: &Segment| match segment {
            Segment::Literal(_) => SegmentRank::Literal,
            Segment::Parameter(_) => SegmentRank::Parameter,
        };
        let ranks = segments.iter().map(rank);
        let rest = rest.then_some(SegmentRank::Rest);
        let ranks: Vec<SegmentRank> = ranks.chain(rest).collect();
        match ranks.iter().all(|rank| *rank == SegmentRank::Literal) {
            true => Self::Exact,
            false => Self::Segments(ranks),
        }
    }
}

impl Precedence {
    /// The place of a match, before its place in the list.
    pub fn of(wanted: &RequestMatch) -> Self {
        let path = PathRank::of(&wanted.path);
        Self {
            path,
            no_method: wanted.method().is_none(),
            headers: Reverse(wanted.headers().len()),
            query: Reverse(wanted.query().len()),
        }
    }
}
