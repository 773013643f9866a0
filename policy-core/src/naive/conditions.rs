//! Conditions on a request besides its match.

use crate::condition::{
    EffectCondition, HeaderCondition, HeaderOperator, SegmentCondition, SegmentOperator,
};
use crate::path_form::match_form;
use crate::request::RequestView;

/// Returns true if `request` meets the condition of an effect. One on a segment is met, too, where
/// parsers read different segments.
pub(super) fn is_met(condition: &EffectCondition, request: &RequestView<'_>) -> bool {
    match condition {
        EffectCondition::Segment(condition) => affects_segment(condition, request.path),
        EffectCondition::Header(condition) => has_header(condition, request),
    }
}

/// Returns true if the segment of `path` meets the condition.
pub(super) fn has_segment(condition: &SegmentCondition, path: &str) -> bool {
    let place = usize::try_from(condition.place).unwrap_or(usize::MAX);
    let segments: Vec<&str> = path.split('/').collect();
    // What precedes the first slash is no segment.
    let Some(text) = segments.get(place.saturating_add(1)) else { return false };
    let readable = !text.is_empty() && path.starts_with('/') && reads_one_way(path);
    let listed = condition.values().iter().filter(|value| &***value == *text).count() > 0;
    readable && listed == (condition.operator == SegmentOperator::In)
}

/// Returns true if an effect under this condition applies to `path`.
pub(super) fn affects_segment(condition: &SegmentCondition, path: &str) -> bool {
    has_segment(condition, path) || (path.starts_with('/') && !reads_one_way(path))
}

/// Returns true if every parser reads the same segments.
fn reads_one_way(path: &str) -> bool {
    let mut inner = path.split('/').skip(1).collect::<Vec<_>>();
    if inner.last() == Some(&"") {
        inner.pop();
    }
    let ambiguous = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(';');
    let decoded = |after: &str| u8::from_str_radix(after.get(..2)?, 16).ok();
    let harmless = |octet: u8| octet > 0x1f && !matches!(octet, b'/' | b'\\' | b';' | 0x7f);
    let encoded = path.split('%').skip(1).all(|after| decoded(after).is_some_and(harmless));
    *match_form(path) == *path && encoded && !inner.into_iter().any(ambiguous)
}

fn has_header(condition: &HeaderCondition, request: &RequestView<'_>) -> bool {
    let lines: Vec<&[u8]> = if &*condition.name == "host" {
        request.host.iter().map(|host| host.as_bytes()).collect()
    } else {
        let own = request.headers.iter().filter(|(name, _)| name.as_str() == &*condition.name);
        own.map(|(_, line)| line.as_bytes()).collect()
    };
    match &condition.operator {
        HeaderOperator::Exists => !lines.is_empty(),
        HeaderOperator::DoesNotExist => lines.is_empty(),
        HeaderOperator::In(values) => values.iter().any(|value| lines.contains(&value.as_bytes())),
        HeaderOperator::NotIn(values) => {
            values.iter().all(|value| !lines.contains(&value.as_bytes()))
        }
    }
}
