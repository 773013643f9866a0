//! The requests of a route that a policy is about.

use policy_core::{SegmentCondition, SegmentOperator};

/// The most parts into which requests are divided.
const MAX_PARTS: usize = 64;

/// Conditions, all of which a request meets.
type All = Vec<SegmentCondition>;

/// Some of the requests of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requests {
    alternatives: Vec<All>,
    /// The same, and no request is of two of them; `None` if these would be too many.
    disjoint: Option<Vec<All>>,
    /// True if it may be about further requests that no condition can tell.
    is_partial: bool,
}

impl Requests {
    /// All of them.
    pub(crate) fn all() -> Self {
        Self::of(vec![Vec::new()], false)
    }

    /// Those that meet one of these lists of conditions. `is_partial`: and some that cannot be told.
    pub(crate) fn of(alternatives: Vec<All>, is_partial: bool) -> Self {
        let alternatives = widest(alternatives);
        let is_partial = is_partial && !alternatives.iter().any(Vec::is_empty);
        Self { disjoint: disjoint(&alternatives), alternatives, is_partial }
    }

    /// Lists of conditions, one of which a request meets.
    pub(crate) fn alternatives(&self) -> &[All] {
        &self.alternatives
    }

    /// The same, so that no request meets two of them.
    pub(super) fn disjoint(&self) -> Option<&[All]> {
        self.disjoint.as_deref()
    }

    /// True if it may be about further requests.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }
}

/// The lists without those of which another one asks for less, or before for the same.
fn widest(lists: Vec<All>) -> Vec<All> {
    let within = |wide: &All, narrow: &All| wide.iter().all(|item| narrow.contains(item));
    let mut kept: Vec<All> = Vec::new();
    for list in lists {
        if !kept.iter().any(|other| within(other, &list)) {
            kept.retain(|other| !within(&list, other));
            kept.push(list);
        }
    }
    kept
}

/// Of each list the requests that meet none before it.
fn disjoint(lists: &[All]) -> Option<Vec<All>> {
    let mut found = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        let mut parts = vec![list.clone()];
        for earlier in lists.iter().take(number) {
            parts = parts.iter().flat_map(|part| without(part, earlier)).collect();
            if parts.len() > MAX_PARTS {
                return None;
            }
        }
        found.append(&mut parts);
    }
    (found.len() <= MAX_PARTS).then_some(found)
}

/// The requests that meet all of `part`, and not all of `other`: one part for each condition that is the
/// first one not met.
fn without(part: &All, other: &All) -> Vec<All> {
    let mut parts = Vec::new();
    let mut met = part.clone();
    for condition in other {
        // A request that meets it is no part of what is left.
        if met.contains(condition) {
            continue;
        }
        let opposite = opposite(condition);
        let mut own = met.clone();
        if !own.contains(&opposite) {
            own.push(opposite.clone());
        }
        parts.push(own);
        if met.contains(&opposite) {
            // None of the requests meets the condition.
            break;
        }
        met.push(condition.clone());
    }
    parts
}

fn opposite(condition: &SegmentCondition) -> SegmentCondition {
    let operator = match condition.operator {
        SegmentOperator::In => SegmentOperator::NotIn,
        SegmentOperator::NotIn => SegmentOperator::In,
    };
    let (parameter, place) = (&condition.parameter, condition.place);
    SegmentCondition::new(parameter, place, operator, condition.values())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(place: u32, operator: SegmentOperator, text: &str) -> SegmentCondition {
        SegmentCondition::new("id", place, operator, [text])
    }

    fn is(place: u32, text: &str) -> SegmentCondition {
        of(place, SegmentOperator::In, text)
    }

    fn not(place: u32, text: &str) -> SegmentCondition {
        of(place, SegmentOperator::NotIn, text)
    }

    #[test]
    fn what_asks_for_more_than_another_adds_nothing() {
        let lists = vec![vec![is(1, "a"), is(2, "b")], vec![is(1, "a")], vec![is(1, "c")]];
        assert_eq!(widest(lists), [[is(1, "a")], [is(1, "c")]]);
        let same = vec![vec![is(1, "a"), is(2, "b")], vec![is(2, "b"), is(1, "a")]];
        assert_eq!(widest(same), [[is(1, "a"), is(2, "b")]]);
        let every = Requests::of(vec![vec![is(1, "a")], vec![]], true);
        assert_eq!(every, Requests::all());
    }

    #[test]
    fn no_request_is_of_two_parts_and_none_is_lost() {
        let lists =
            [vec![not(0, "x"), is(1, "a")], vec![not(1, "x")], vec![is(2, "c"), not(0, "x")]];
        let parts = disjoint(&lists).unwrap_or_default();
        let texts = ["x", "a", "b", "c"];
        for path in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
            for last in texts {
                let path = [*path.0, *path.1, last];
                let meets = |list: &All| {
                    list.iter().all(|one| {
                        let text = usize::try_from(one.place).ok().and_then(|at| path.get(at));
                        let named = one.values().iter().any(|value| Some(&&**value) == text);
                        named == (one.operator == SegmentOperator::In)
                    })
                };
                let wanted = usize::from(lists.iter().any(meets));
                assert_eq!(parts.iter().filter(|part| meets(part)).count(), wanted, "{path:?}");
            }
        }
    }

    #[test]
    fn too_many_parts_are_none() {
        let lists: Vec<All> =
            (0..8).map(|at| (0..8).map(|part| is(at, &part.to_string())).collect()).collect();
        assert_eq!(disjoint(&lists), None);
    }
}
