//! Builds values and their places from the events of the YAML library.

use super::definition::{Document, MAX_DEPTH, MAX_VALUES, SyntaxError, ambiguous, failed};
use super::json_stream;
use super::locate::{CompactSpan, Spans};
use super::location::{Location, Origin};
use super::scalar;
use crate::reader::quote;
use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{
    Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag, options,
};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Longest key that is not quoted or explicit, in characters; a label key has at most 317.
const MAX_KEY: usize = 1024;

/// Bytes of text that count as much as a value where they are copied.
const BYTES_PER_VALUE: usize = 64;

/// Cost of a document beside its values.
const DOCUMENT_VALUES: usize = 10;

pub(super) fn documents(text: &str) -> Vec<Document> {
    let mark = text.len().saturating_sub(text.trim_start_matches('\u{feff}').len());
    let body = text.get(mark..).unwrap_or(text);
    if u32::try_from(text.len()).is_err() {
        let message = "longer than 4 GiB".to_owned();
        return vec![failed(SyntaxError { location: Location::default(), message })];
    }
    let origin = Origin::after(mark);
    if let Some(values) = json_stream::values(body) {
        return of_stream(body, origin, &values, &mut 0);
    }
    // `kubectl` goes on with YAML after a stream of JSON.
    let (head, rest) = json_stream::before_separator(body);
    if !rest.is_empty()
        && let Some(ranges) = json_stream::values(head)
    {
        let mut values = 0;
        let mut documents = of_stream(head, origin, &ranges, &mut values);
        let mut origin = origin;
        origin.pass(head);
        documents.extend(of_yaml(rest, origin, &mut values));
        return documents;
    }
    of_yaml(body, origin, &mut 0)
}

/// Reads the values of a stream of JSON at `origin` in its file, each as a document. `values` counts those
/// that the file has.
fn of_stream(
    body: &str,
    mut origin: Origin,
    ranges: &[Range<usize>],
    values: &mut usize,
) -> Vec<Document> {
    let mut documents = Vec::new();
    let mut passed = 0;
    for range in ranges {
        origin.pass(body.get(passed..range.start).unwrap_or_default());
        let text = body.get(range.clone()).unwrap_or_default();
        documents.extend(of_yaml(text, origin, values));
        origin.pass(text);
        passed = range.end;
        if *values > MAX_VALUES {
            break;
        }
    }
    documents
}

/// Reads the documents of a text at `origin` in its file. `values` counts those that the file has.
fn of_yaml(body: &str, origin: Origin, values: &mut usize) -> Vec<Document> {
    let options = options! {
        emit_comments: false,
        simple_key_max_lookahead: MAX_KEY,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let parser = Parser::new_from_str_with_options(body, options);
    let mut reader = Reader { parser, origin, values: *values, duplicate: None };
    let mut documents = Vec::new();
    while let Some(document) = reader.document() {
        let is_unfinished = document.value.is_err() && document.salvaged.is_none();
        let fatal = is_unfinished && (reader.is_exhausted() || !reader.recover());
        documents.push(document);
        if fatal {
            break;
        }
    }
    *values = reader.values;
    documents
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// The place of the text, which the parser does not know.
    origin: Origin,
    /// Values built so far.
    values: usize,
    /// The first key of the document that appears twice.
    duplicate: Option<SyntaxError>,
}

/// A value, its places, and how many values it holds.
#[derive(Clone)]
struct SpannedValue {
    value: Value,
    spans: Spans,
    count: usize,
}

/// The values that aliases can refer to.
type Anchors = HashMap<usize, Rc<SpannedValue>>;

/// A collection that is still being read.
enum OpenCollection {
    List { place: CompactSpan, anchor: usize, items: Vec<SpannedValue> },
    Map { place: CompactSpan, anchor: usize, map: Mapping },
}

#[derive(Default)]
struct Mapping {
    value: Map<String, Value>,
    spans: HashMap<Box<str>, (CompactSpan, Spans)>,
    /// A key that waits for its value.
    key: Option<(String, CompactSpan)>,
    /// Mappings merged by `<<`; keys of the mapping itself take precedence.
    merged: Vec<SpannedValue>,
    count: usize,
}

impl<'t> Reader<'t> {
    /// The next document, or nothing at the end of the text.
    fn document(&mut self) -> Option<Document> {
        let start = loop {
            match self.parser.next() {
                None | Some(Ok((Event::StreamEnd, _))) => return None,
                Some(Ok((Event::DocumentStart(..), span))) => break self.place(&span),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Some(failed(self.scan_error(&error))),
            }
        };
        let content = self.charge(DOCUMENT_VALUES, start).and_then(|()| self.content());
        let duplicate = self.duplicate.take();
        Some(match content {
            Ok(SpannedValue { value, spans, .. }) => {
                let (value, salvaged) = match duplicate {
                    None => (Ok(value), None),
                    Some(error) => (Err(error), Some(value)),
                };
                Document { value, salvaged, location: start.location(), spans }
            }
            Err(error) => failed(duplicate.unwrap_or(error)),
        })
    }

    /// True if the text has more values than will be read.
    fn is_exhausted(&self) -> bool {
        self.values > MAX_VALUES
    }

    /// Skips the rest of a document that cannot be read; false if there is no way on.
    fn recover(&mut self) -> bool {
        self.parser.proceed_next_document().is_ok()
    }

    fn content(&mut self) -> Result<SpannedValue, SyntaxError> {
        let mut anchors = Anchors::new();
        let mut open: Vec<OpenCollection> = Vec::new();
        let mut root = SpannedValue { value: Value::Null, spans: Spans::default(), count: 0 };
        while let Some(next) = self.parser.next() {
            let (event, span) = next.map_err(|error| self.scan_error(&error))?;
            let place = self.place(&span);
            let done = match event {
                Event::Scalar(text, style, anchor, tag) => {
                    self.charge(1, place)?;
                    let value = scalar_value(&text, style, tag.as_deref(), place)?;
                    let spans = Spans::scalar(place);
                    Some((anchor, SpannedValue { value, spans, count: weight(&text) }, place))
                }
                Event::Alias(id) => {
                    let loops = || error_at(place, "an alias inside the value it refers to");
                    let built = anchors.get(&id).ok_or_else(loops)?.clone();
                    self.charge(built.count, place)?;
                    Some((0, SpannedValue::clone(&built), place))
                }
                Event::SequenceStart(_, anchor, _) => {
                    self.charge(1, place)?;
                    open.push(OpenCollection::List { place, anchor, items: Vec::new() });
                    None
                }
                Event::MappingStart(_, anchor, _) => {
                    self.charge(1, place)?;
                    open.push(OpenCollection::Map { place, anchor, map: Mapping::default() });
                    None
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    let closed = open.pop().map(|open| open.close(place));
                    closed.map(|(anchor, built)| {
                        let place = built.spans.place();
                        (anchor, built, place)
                    })
                }
                Event::DocumentEnd => return Ok(root),
                Event::StreamStart
                | Event::StreamEnd
                | Event::DocumentStart(..)
                | Event::Anchor(..)
                | Event::Comment(..) => None,
                Event::UnresolvedAlias(_) | _ => return Err(error_at(place, "cannot be read")),
            };
            let depth = open.len();
            if depth > MAX_DEPTH {
                return Err(error_at(place, &format!("nested more than {MAX_DEPTH} deep")));
            }
            let Some((anchor, built, place)) = done else { continue };
            if anchor != 0 {
                // The copy that aliases will be made from costs as much as an alias.
                self.charge(built.count, place)?;
                anchors.insert(anchor, Rc::new(built.clone()));
            }
            let is_top = open.len() == 1;
            match open.last_mut() {
                Some(parent) => self.note(parent.add(built, place, is_top)?),
                None => root = built,
            }
        }
        Ok(root)
    }

    /// Keeps the first error of a key that appears twice.
    fn note(&mut self, duplicate: Option<SyntaxError>) {
        self.duplicate = self.duplicate.take().or(duplicate);
    }

    /// Counts values against the limit of the whole text.
    fn charge(&mut self, count: usize, place: CompactSpan) -> Result<(), SyntaxError> {
        self.values = self.values.saturating_add(count);
        if self.values > MAX_VALUES {
            return Err(error_at(place, &format!("more than {MAX_VALUES} values")));
        }
        Ok(())
    }

    fn place(&self, span: &Span) -> CompactSpan {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let byte =
            |n: Option<usize>| narrow(n.unwrap_or_default().saturating_add(self.origin.bytes));
        let start = byte(span.start.byte_offset());
        let (line, column) = self.origin.place(span.start.line(), span.start.col());
        CompactSpan {
            line: narrow(line),
            column: narrow(column).saturating_add(1),
            start,
            end: byte(span.end.byte_offset()).max(start),
        }
    }

    fn scan_error(&self, error: &ScanError) -> SyntaxError {
        let place = self.place(&Span::empty(*error.marker()));
        let mut message = error.info();
        if let Some(first) = message.get(..1).map(str::to_ascii_lowercase) {
            message.replace_range(..1, &first);
        }
        error_at(place, message.trim_end_matches('.'))
    }
}

impl OpenCollection {
    /// The finished collection with its anchor.
    fn close(self, end: CompactSpan) -> (usize, SpannedValue) {
        let whole = |place: CompactSpan| CompactSpan { end: end.end, ..place };
        match self {
            Self::List { place, anchor, items } => {
                let count = items.iter().map(|b| b.count).fold(1, usize::saturating_add);
                let (values, spans) = items.into_iter().map(|b| (b.value, b.spans)).unzip();
                let spans = Spans::list(whole(place), spans);
                (anchor, SpannedValue { value: Value::Array(values), spans, count })
            }
            Self::Map { place, anchor, mut map } => {
                for merged in std::mem::take(&mut map.merged) {
                    map.merge(merged);
                }
                let spans = Spans::map(whole(place), map.spans);
                let count = map.count.saturating_add(1);
                (anchor, SpannedValue { value: Value::Object(map.value), spans, count })
            }
        }
    }

    /// Adds a finished value; `is_top`: to the top level of a document. Returns the error of a key that is there already.
    fn add(
        &mut self,
        built: SpannedValue,
        place: CompactSpan,
        is_top: bool,
    ) -> Result<Option<SyntaxError>, SyntaxError> {
        match self {
            Self::List { items, .. } => {
                items.push(built);
                Ok(None)
            }
            Self::Map { map, .. } => map.add(built, place, is_top),
        }
    }
}

impl Mapping {
    /// Takes a key, or the value of the key before. Returns the error of a key that is there already.
    fn add(
        &mut self,
        built: SpannedValue,
        place: CompactSpan,
        is_top: bool,
    ) -> Result<Option<SyntaxError>, SyntaxError> {
        let Some((key, key_place)) = self.key.take() else {
            self.key = Some((key_text(built.value, place)?, place));
            return Ok(None);
        };
        if key == MERGE {
            self.take_merged(built, key_place)?;
            return Ok(None);
        }
        self.count = self.count.saturating_add(built.count).saturating_add(weight(&key));
        self.spans.insert(key.as_str().into(), (key_place, built.spans));
        if let Some(first) = self.value.get_mut(&key) {
            // What begins an object, after the end of another.
            let hint = match key.as_str() {
                "apiVersion" if is_top => "; another object begins after a line with `---` alone",
                _ => "",
            };
            let message = format!("duplicate key {}{hint}", quote(&key));
            let error = error_at(key_place, &message);
            if *first != built.value {
                *first = ambiguous();
            }
            return Ok(Some(error));
        }
        self.value.insert(key, built.value);
        Ok(None)
    }

    fn take_merged(&mut self, built: SpannedValue, place: CompactSpan) -> Result<(), SyntaxError> {
        match &built.value {
            Value::Object(_) => self.merged.push(built),
            Value::Array(items) if items.iter().all(Value::is_object) => {
                let Value::Array(values) = built.value else { return Ok(()) };
                for (value, spans) in values.into_iter().zip(built.spans.items()) {
                    self.merged.push(SpannedValue { value, spans: spans.clone(), count: 0 });
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                return Err(error_at(place, "`<<` needs a mapping or a list of mappings"));
            }
        }
        Ok(())
    }

    /// Adds the keys that are not there yet.
    fn merge(&mut self, merged: SpannedValue) {
        let Value::Object(values) = merged.value else { return };
        for (key, place, spans) in merged.spans.entries() {
            if !self.value.contains_key(key) {
                self.spans.insert(key.into(), (place, spans.clone()));
            }
        }
        for (key, value) in values {
            self.value.entry(key).or_insert(value);
        }
        self.count = self.count.saturating_add(merged.count);
    }
}

/// Cost of a copy of a text: long texts must not be multiplied by short aliases.
fn weight(text: &str) -> usize {
    (text.len() / BYTES_PER_VALUE).saturating_add(1)
}

/// The key that merges another mapping into its own (YAML 1.1).
const MERGE: &str = "<<";

/// A key as JSON writes it.
fn key_text(value: Value, place: CompactSpan) -> Result<String, SyntaxError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Err(error_at(place, "a key is missing")),
        Value::Array(_) | Value::Object(_) => {
            Err(error_at(place, "a key must be text, not a list or a mapping"))
        }
    }
}

fn scalar_value(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    place: CompactSpan,
) -> Result<Value, SyntaxError> {
    let quoted = style != ScalarStyle::Plain;
    let Some(tag) = tag else {
        return Ok(if quoted { Value::String(text.to_owned()) } else { scalar::plain(text) });
    };
    let kind = tag.suffix_in_namespace("tag:yaml.org,2002:");
    let value = scalar::tagged(text, kind.as_deref());
    value.ok_or_else(|| error_at(place, &format!("{} cannot be read as its tag says", quote(text))))
}

fn error_at(place: CompactSpan, message: &str) -> SyntaxError {
    let point = CompactSpan { end: place.start, ..place };
    SyntaxError { location: point.location(), message: message.to_owned() }
}
