//! The location of each value of a document.

use super::location::Location;
use crate::field::{Step, steps};
use std::collections::HashMap;
use std::sync::Arc;

/// A place in the text, compact: there is one per value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CompactSpan {
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl CompactSpan {
    pub(super) fn location(self) -> Location {
        let wide = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        Location {
            line: wide(self.line),
            column: wide(self.column),
            bytes: wide(self.start)..wide(self.end),
        }
    }
}

/// The places of a value and of the values in it. Shared, so that an alias costs nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans(Arc<SpanNode>);

#[derive(Debug, Default)]
struct SpanNode {
    place: CompactSpan,
    inside: SpanChildren,
}

#[derive(Debug, Default)]
enum SpanChildren {
    #[default]
    Nothing,
    /// Key, its place, and the value's.
    Map(HashMap<Box<str>, (CompactSpan, Spans)>),
    List(Vec<Spans>),
}

impl Spans {
    pub(super) fn scalar(place: CompactSpan) -> Self {
        Self(Arc::new(SpanNode { place, inside: SpanChildren::Nothing }))
    }

    pub(super) fn list(place: CompactSpan, items: Vec<Spans>) -> Self {
        Self(Arc::new(SpanNode { place, inside: SpanChildren::List(items) }))
    }

    pub(super) fn map(
        place: CompactSpan,
        entries: HashMap<Box<str>, (CompactSpan, Spans)>,
    ) -> Self {
        Self(Arc::new(SpanNode { place, inside: SpanChildren::Map(entries) }))
    }

    /// Keys of a mapping with their places, for merging.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, CompactSpan, &Spans)> {
        let entries = match &self.0.inside {
            SpanChildren::Map(entries) => Some(entries),
            SpanChildren::Nothing | SpanChildren::List(_) => None,
        };
        entries.into_iter().flatten().map(|(key, (place, spans))| (&**key, *place, spans))
    }

    /// The elements of a list.
    pub(super) fn items(&self) -> &[Spans] {
        match &self.0.inside {
            SpanChildren::List(items) => items,
            SpanChildren::Nothing | SpanChildren::Map(_) => &[],
        }
    }

    /// The place of `field` or of its nearest existing parent. A value that is a collection is
    /// shown by its key, where it has one: its own text may be many lines.
    pub(super) fn locate(&self, field: &str) -> Location {
        let (mut at, mut place) = (self, self.first());
        for step in steps(field) {
            match (&at.0.inside, step) {
                (SpanChildren::Map(entries), Step::Key(key)) => {
                    let Some((key_place, next)) = entries.get(key.as_str()) else { break };
                    at = next;
                    place = match next.0.inside {
                        SpanChildren::Nothing if next.0.place.end > next.0.place.start => {
                            next.0.place
                        }
                        SpanChildren::Nothing | SpanChildren::Map(_) | SpanChildren::List(_) => {
                            *key_place
                        }
                    };
                }
                (SpanChildren::List(items), Step::Index(index)) => {
                    let Some(next) = items.get(index) else { break };
                    at = next;
                    place = match next.0.inside {
                        SpanChildren::Nothing => next.0.place,
                        SpanChildren::Map(_) | SpanChildren::List(_) => next.first(),
                    };
                }
                (SpanChildren::Nothing | SpanChildren::Map(_) | SpanChildren::List(_), _) => break,
            }
        }
        place.location()
    }

    /// The whole place of the value.
    pub(super) fn place(&self) -> CompactSpan {
        self.0.place
    }

    /// The place where the value begins, as a point.
    fn first(&self) -> CompactSpan {
        CompactSpan { end: self.0.place.start, ..self.0.place }
    }
}

/// Line and column of a byte offset.
pub(super) fn position(text: &str, offset: usize) -> Location {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
    let line = before.bytes().filter(|b| *b == b'\n').count().saturating_add(1);
    let column = before.get(line_start..).unwrap_or_default().chars().count().saturating_add(1);
    Location { line, column, bytes: offset..offset }
}
