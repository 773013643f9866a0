//! The matches that share one path pattern, indexed where they are many.
//!
//! A match with an exact header or parameter value is found by that value, another by its method;
//! only matches with neither are tried in order.

use crate::decision::RuleId;
use crate::index::bounds::BuildError;
use crate::index::form_urlencoded::{FormDecoder, pairs};
use crate::index::request_predicates::{RequestPredicates, Value};
use crate::index::{at, next_id};
use crate::match_result::MatchResult;
use crate::request::RequestView;
use hashbrown::{HashMap, HashSet, HashTable};
use http::header::HOST;
use http::{HeaderName, Method};
use std::sync::Arc;

/// Up to this number, matches are tried in order.
const FEW: usize = 8;

/// Up to this number, the header names of an index are looked up in the request; above it, those of
/// the request in the index.
const FEW_NAMES: usize = 4;

/// One match of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Its place in the order of precedence of all matches.
    pub(crate) rank: u32,
    /// Its number among the policy's matches.
    pub(crate) wanted: u32,
}

/// The matches of one path: none, the number of a match, or, with the highest bit, that of a list. Most
/// paths have one match, and ten thousand of them need no list each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

const LIST: u32 = 1 << 31;

impl Slot {
    /// No match. Never the number of a list, because [`next_id`] returns smaller numbers only.
    pub(crate) const EMPTY: Self = Self(u32::MAX);

    /// Adds a match; `lists` has those of paths with several.
    pub(crate) fn add(&mut self, wanted: u32, lists: &mut Vec<Vec<u32>>) -> Result<(), BuildError> {
        let too_many = || BuildError::TooMany("list of matches");
        if wanted & LIST != 0 {
            return Err(too_many());
        }
        if *self == Self::EMPTY {
            *self = Self(wanted);
            return Ok(());
        }
        if self.0 & LIST == 0 {
            let number = next_id(lists.len(), "path table")?;
            // One less than the highest, which stands for no match.
            if number >= LIST.saturating_sub(1) {
                return Err(too_many());
            }
            lists.push(vec![self.0]);
            *self = Self(number | LIST);
        }
        let list = usize::try_from(self.0 & !LIST).ok().and_then(|at| lists.get_mut(at));
        list.ok_or_else(too_many)?.push(wanted);
        Ok(())
    }
}

/// The best match so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Best {
    pub(crate) rank: u32,
    pub(crate) found: Option<(RuleId, MatchResult)>,
}

impl Best {
    pub(crate) fn none() -> Self {
        Self { rank: u32::MAX, found: None }
    }
}

/// A request and the matches that it is evaluated against.
#[derive(Clone, Copy)]
pub(crate) struct MatchContext<'a> {
    pub(crate) request: &'a RequestView<'a>,
    pub(crate) wanted: &'a [RequestPredicates],
    /// The rank of each match.
    pub(crate) ranks: &'a [u32],
    pub(crate) lists: &'a [List],
    /// Current indices of the routes, by their number in the index, [`NONE`] for removed ones;
    /// absent if none has moved.
    pub(crate) places: Option<&'a [u32]>,
}

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

impl MatchContext<'_> {
    /// Finds the first match of a path that is not `NoMatch`, if it is better than `best`.
    pub(crate) fn check(self, slot: Slot, best: &mut Best) {
        if slot == Slot::EMPTY {
            return;
        }
        if slot.0 & LIST == 0 {
            let rank = at(self.ranks, slot.0).copied().unwrap_or(u32::MAX);
            let one = Candidate { rank, wanted: slot.0 };
            first(std::slice::from_ref(&one), self, best);
        } else if let Some(list) = at(self.lists, slot.0 & !LIST) {
            list.find(self, best);
        }
    }

    /// Returns the rule by its number in the policy; `None` if its route was removed.
    fn rule(&self, id: RuleId) -> Option<RuleId> {
        let Some(places) = self.places else { return Some(id) };
        let route = *at(places, id.route)?;
        (route != NONE).then_some(RuleId { route, rule: id.rule })
    }
}

/// Matches in order of precedence.
#[derive(Debug)]
pub(crate) enum List {
    /// Tried in order.
    Linear(Box<[Candidate]>),
    /// Found by the values that they require.
    Indexed(Box<ValueIndex>),
}

/// Candidates by exact value and by method. Those with neither are tried in order.
#[derive(Debug, Default)]
pub(crate) struct ValueIndex {
    unindexed: Box<[Candidate]>,
    methods: Vec<(Method, Vec<Candidate>)>,
    header_names: HashSet<HeaderName, foldhash::fast::FixedState>,
    headers: HashTable<ValueBucket<HeaderName>>,
    query: HashTable<ValueBucket<Arc<str>>>,
}

/// The candidates that require one exact value.
#[derive(Debug)]
struct ValueBucket<N> {
    name: N,
    value: Arc<[u8]>,
    list: Vec<Candidate>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum ValueKey<'a> {
    Header(&'a HeaderName, &'a Arc<[u8]>),
    Query(&'a Arc<str>, &'a Arc<[u8]>),
}

fn keys(wanted: &RequestPredicates) -> impl Iterator<Item = ValueKey<'_>> {
    let headers = wanted.headers().iter().filter_map(|(name, value)| match value {
        // A match on `host` looks at no line.
        Value::Exact(bytes) if *name != HOST => Some(ValueKey::Header(name, bytes)),
        Value::Exact(_) => None,
        Value::Regex(_) => None,
    });
    let query = wanted.query().iter().filter_map(|(name, value)| match value {
        Value::Exact(bytes) => Some(ValueKey::Query(name, bytes)),
        Value::Regex(_) => None,
    });
    headers.chain(query)
}

impl List {
    /// Arranges candidates, which are in order of rank.
    pub(crate) fn new(candidates: Vec<Candidate>, all: &[RequestPredicates]) -> Self {
        if candidates.len() <= FEW {
            return Self::Linear(candidates.into());
        }
        let mut common: HashMap<ValueKey<'_>, usize> = HashMap::new();
        for wanted in candidates.iter().filter_map(|c| at(all, c.wanted)) {
            for key in keys(wanted) {
                let count = common.entry(key).or_default();
                *count = count.saturating_add(1);
            }
        }
        let mut index = ValueIndex::default();
        let mut unindexed = Vec::new();
        for candidate in candidates {
            let Some(wanted) = at(all, candidate.wanted) else { continue };
            // The rarest key leaves the fewest candidates to try.
            let rarest = keys(wanted).min_by_key(|key| common.get(key).copied());
            match (rarest, wanted.method()) {
                (Some(ValueKey::Header(name, value)), _) => {
                    index.add_header(name, value, candidate)
                }
                (Some(ValueKey::Query(name, value)), _) => index.add_query(name, value, candidate),
                (None, Some(method)) => index.add_method(method, candidate),
                (None, None) => unindexed.push(candidate),
            }
        }
        index.unindexed = unindexed.into();
        Self::Indexed(Box::new(index))
    }

    /// Finds the first candidate that is not `NoMatch`, if it is better than `best`.
    pub(crate) fn find(&self, context: MatchContext<'_>, best: &mut Best) {
        match self {
            Self::Linear(candidates) => first(candidates, context, best),
            Self::Indexed(index) => {
                first(&index.unindexed, context, best);
                index.find(context, best);
            }
        }
    }
}

fn first(candidates: &[Candidate], context: MatchContext<'_>, best: &mut Best) {
    for candidate in candidates {
        if candidate.rank >= best.rank {
            return;
        }
        let Some(wanted) = at(context.wanted, candidate.wanted) else { continue };
        let Some(rule) = context.rule(wanted.id) else { continue };
        match wanted.evaluate(context.request) {
            MatchResult::NoMatch => {}
            judgement @ (MatchResult::Match | MatchResult::Indeterminate) => {
                *best = Best { rank: candidate.rank, found: Some((rule, judgement)) };
                return;
            }
        }
    }
}

impl ValueIndex {
    fn add_header(&mut self, name: &HeaderName, value: &Arc<[u8]>, candidate: Candidate) {
        self.header_names.insert(name.clone());
        let entry = self.headers.entry(
            hash(name.as_str().bytes(), value.iter().copied()),
            |bucket| bucket.name == *name && bucket.value == *value,
            |bucket| hash(bucket.name.as_str().bytes(), bucket.value.iter().copied()),
        );
        let new = || ValueBucket { name: name.clone(), value: value.clone(), list: Vec::new() };
        entry.or_insert_with(new).into_mut().list.push(candidate);
    }

    fn add_query(&mut self, name: &Arc<str>, value: &Arc<[u8]>, candidate: Candidate) {
        let entry = self.query.entry(
            hash(name.bytes(), value.iter().copied()),
            |bucket| bucket.name == *name && bucket.value == *value,
            |bucket| hash(bucket.name.bytes(), bucket.value.iter().copied()),
        );
        let new = || ValueBucket { name: name.clone(), value: value.clone(), list: Vec::new() };
        entry.or_insert_with(new).into_mut().list.push(candidate);
    }

    fn add_method(&mut self, method: &Method, candidate: Candidate) {
        match self.methods.iter_mut().find(|(known, _)| known == method) {
            Some((_, list)) => list.push(candidate),
            None => self.methods.push((method.clone(), vec![candidate])),
        }
    }

    fn find(&self, context: MatchContext<'_>, best: &mut Best) {
        let request = context.request;
        if self.header_names.len() <= FEW_NAMES {
            for name in &self.header_names {
                for line in request.headers.get_all(name) {
                    self.find_header(name, line.as_bytes(), context, best);
                }
            }
        } else {
            for (name, line) in request.headers {
                if self.header_names.contains(name) {
                    self.find_header(name, line.as_bytes(), context, best);
                }
            }
        }
        if !self.query.is_empty() {
            for (name, value) in pairs(request.query) {
                let (name, value) = (FormDecoder::new(name), FormDecoder::new(value));
                let found = self.query.find(hash(name, value), |bucket| {
                    name.is(bucket.name.as_bytes()) && value.is(&bucket.value)
                });
                if let Some(bucket) = found {
                    first(&bucket.list, context, best);
                }
            }
        }
        if let Some((_, list)) = self.methods.iter().find(|(known, _)| known == request.method) {
            first(list, context, best);
        }
    }

    fn find_header(
        &self,
        name: &HeaderName,
        line: &[u8],
        context: MatchContext<'_>,
        best: &mut Best,
    ) {
        let wanted = hash(name.as_str().bytes(), line.iter().copied());
        let found =
            self.headers.find(wanted, |bucket| bucket.name == *name && *bucket.value == *line);
        if let Some(bucket) = found {
            first(&bucket.list, context, best);
        }
    }
}

/// FNV-1a over name and value, which may come in pieces, with its bits mixed at the end because
/// the table uses the highest ones.
fn hash(name: impl Iterator<Item = u8>, value: impl Iterator<Item = u8>) -> u64 {
    let step = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let state = name.fold(0xcbf2_9ce4_8422_2325, step);
    // Separates name and value: no byte has this value.
    let state = (state ^ 0x100).wrapping_mul(0x0100_0000_01b3);
    let state = value.fold(state, step);
    let mixed = (state ^ (state >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
