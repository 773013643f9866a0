//! Requests to a world: what its routes are for, and what is near to it, in any spelling.

use super::world::{Entry, METHODS, World};
use crate::testing::choices::Choices;

/// Segments of requests: texts of groups in several spellings, others, and what is refused.
const SEGMENTS: [&str; 20] = [
    "a", "b", "42", "new", "a:b", "~x", "a%20b", "%61", "%34%32", "a%3Ab", "a%3ab", "%7ex",
    "a%2520b", "..", "%2e%2E", ".", "a;b", "a%2fb", "%zz", "a%5cb",
];
/// The first ones of these are spellings of texts.
const PLAIN: usize = 13;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: &'static str,
    /// The path as it is sent.
    pub path: String,
    /// True if it has the header that routes may ask for.
    pub header: bool,
}

impl Request {
    /// Requests to a world, made of any bytes.
    pub fn read(world: &World, data: &[u8], count: usize) -> Vec<Self> {
        let mut from = Choices(data);
        let entries = world.groups.iter().flatten().flat_map(|group| &group.entries);
        let paths = entries.filter_map(|entry| match entry {
            Entry::Route(route) => Some(route.path.as_str()),
            Entry::Include(..) => None,
        });
        let paths: Vec<&str> = paths.collect();
        (0..count).map(|_| one(&mut from, &paths)).collect()
    }
}

fn one(from: &mut Choices<'_>, paths: &[&str]) -> Request {
    let mut segments: Vec<String> = Vec::new();
    let pattern = if paths.is_empty() || from.one_in(5) { "/" } else { from.of(paths) };
    for segment in pattern.split('/').filter(|segment| !segment.is_empty()) {
        match segment.chars().next() {
            Some('*') => segments.extend((0..=from.below(2)).map(|_| text(from))),
            Some(':') => segments.push(text(from)),
            _ if from.one_in(12) => segments.push(text(from)),
            _ if from.one_in(6) => segments.push(encoded(segment)),
            _ => segments.push(segment.to_owned()),
        }
    }
    match from.below(12) {
        0 => segments.push(text(from)),
        1 => drop(segments.pop()),
        2 => segments.insert(from.below(segments.len() + 1), String::new()),
        _ => {}
    }
    let mut path = segments.iter().flat_map(|segment| ["/", segment]).collect::<String>();
    if path.is_empty() || from.one_in(4) {
        path.push('/');
    }
    Request { method: from.of(&METHODS), path, header: from.one_in(2) }
}

fn text(from: &mut Choices<'_>) -> String {
    let all = if from.one_in(16) { &SEGMENTS[..] } else { &SEGMENTS[..PLAIN] };
    from.of(all).to_owned()
}

/// Another spelling: the first character in hexadecimal digits, unless it is such already.
fn encoded(segment: &str) -> String {
    match segment.split_at(1) {
        ("%", _) => segment.to_ascii_lowercase(),
        (first, rest) => format!("%{:02x}{rest}", first.as_bytes()[0]),
    }
}
