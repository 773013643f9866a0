//! The pages that people read: their lines, the code in them, and what a page gets wrong.

use policy_tests::sources::root;
use std::fmt;
use std::fs;
use std::path::Path;

/// A page.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// Path from the root of the repository.
    pub(crate) path: String,
    pub(crate) lines: Vec<Line>,
}

/// A line of a page.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) text: String,
    pub(crate) place: Place,
    /// The heading that it stands below, without marks.
    pub(crate) heading: String,
    /// The heads of the columns, in a table.
    pub(crate) columns: Vec<String>,
}

/// The place of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the text.
    Prose,
    /// In a fence of this language.
    Fence(String),
}

/// A name in a page that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    pub(crate) page: String,
    pub(crate) line: usize,
    /// The kind of name.
    pub(crate) class: &'static str,
    pub(crate) name: String,
    /// The error, in words.
    pub(crate) why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page, line, class, name, why } = self;
        write!(f, "{page}:{line}: {class} `{name}`: {why}")
    }
}

/// The pages of Linkerd's behaviour: the names in them are Linkerd's. Their links and files are ours.
const OF_LINKERD: [&str; 2] = ["docs/spec/controller.md", "docs/spec/proxy.md"];

/// Files besides Markdown that people read.
const OTHERS: [&str; 2] =
    ["charts/portcullis/values.yaml", "charts/portcullis/templates/NOTES.txt"];

/// Every page.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    collect(&root(), &mut paths);
    paths.extend(OTHERS.map(str::to_owned));
    paths.sort();
    let read = |path: String| {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        Page::new(path, &text)
    };
    let pages: Vec<Page> = paths.into_iter().map(read).collect();
    assert!(pages.len() > 30, "{} pages", pages.len());
    pages
}

/// Every page whose names are ours.
pub(crate) fn own_pages() -> impl Iterator<Item = Page> {
    pages().into_iter().filter(|page| !OF_LINKERD.contains(&page.path.as_str()))
}

fn collect(folder: &Path, paths: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules"].contains(&&*name) {
                collect(&path, paths);
            }
        } else if name.ends_with(".md") {
            let relative = path.strip_prefix(root()).unwrap();
            paths.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
}

impl Page {
    /// A page of this text, by the form of files of this name.
    pub(crate) fn new(path: impl Into<String>, text: &str) -> Self {
        let path = path.into();
        let lines = match path.rsplit('.').next() {
            Some("yaml") => comments(text),
            Some("txt") => notes(text),
            _ => markdown(text),
        };
        Self { path, lines }
    }

    pub(crate) fn fault(
        &self,
        line: &Line,
        class: &'static str,
        name: impl Into<String>,
        why: impl Into<String>,
    ) -> Fault {
        let (page, line) = (self.path.clone(), line.number);
        Fault { page, line, class, name: name.into(), why: why.into() }
    }
}

fn markdown(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let (mut fence, mut heading, mut columns) = (None, String::new(), Vec::new());
    for (number, text) in (1..).zip(text.lines()) {
        if let Some(language) = text.trim_start().strip_prefix("```") {
            let language = language.split(' ').next().unwrap_or_default().to_owned();
            fence = if fence.is_some() { None } else { Some(language) };
            continue;
        }
        let place = fence.clone().map_or(Place::Prose, Place::Fence);
        if place == Place::Prose {
            if text.starts_with('#') {
                heading = text.trim_start_matches('#').trim().to_owned();
            }
            if !text.starts_with('|') {
                columns = Vec::new();
            } else if columns.is_empty() {
                columns = cells(text);
            }
        }
        let (text, heading, columns) = (text.to_owned(), heading.clone(), columns.clone());
        lines.push(Line { number, text, place, heading, columns });
    }
    lines
}

/// The cells of a row of a table.
pub(crate) fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "\u{0}");
    row.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

/// The comments of YAML.
fn comments(text: &str) -> Vec<Line> {
    let comment = |(number, line): (usize, &str)| {
        let text = line.trim_start().strip_prefix("# ")?.to_owned();
        Some(prose(number, text))
    };
    (1..).zip(text.lines()).filter_map(comment).collect()
}

/// Output of `helm`: indented lines are commands.
fn notes(text: &str) -> Vec<Line> {
    let line = |(number, text): (usize, &str)| {
        let text = text.replace("{{ $namespace }}", "portcullis");
        let place = match text.strip_prefix("     ") {
            Some(_) => Place::Fence("sh".to_owned()),
            None => Place::Prose,
        };
        Line { place, ..prose(number, text) }
    };
    (1..).zip(text.lines()).map(line).collect()
}

fn prose(number: usize, text: String) -> Line {
    Line { number, text, place: Place::Prose, heading: String::new(), columns: Vec::new() }
}

/// A piece of code in a line of text, and the text since the piece before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span<'a> {
    pub(crate) before: &'a str,
    pub(crate) code: String,
}

impl Line {
    pub(crate) fn is_prose(&self) -> bool {
        self.place == Place::Prose
    }

    /// True in a fence of commands.
    pub(crate) fn is_shell(&self) -> bool {
        self.place == Place::Fence("sh".to_owned())
    }

    /// The pieces of code in a line of text.
    pub(crate) fn spans(&self) -> Vec<Span<'_>> {
        if self.is_prose() { spans(&self.text) } else { Vec::new() }
    }
}

/// The pieces of code in a text.
pub(crate) fn spans(text: &str) -> Vec<Span<'_>> {
    let parts: Vec<&str> = text.split('`').collect();
    let pairs = parts.chunks_exact(2);
    pairs.map(|pair| Span { before: pair[0], code: pair[1].replace("\\|", "|") }).collect()
}

/// Fails with every fault.
pub(crate) fn none(mut faults: Vec<Fault>) {
    faults.sort();
    faults.dedup();
    let shown: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{} names stand for nothing:\n{}", shown.len(), shown.join("\n"));
}
