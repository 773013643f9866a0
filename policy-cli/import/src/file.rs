//! The files that are imported, and the values in them with their lines.

use crate::report::SourceLine;
use policy_crds::document::{self, Document};
use policy_crds::{join_index, join_key, nearest_within, quote};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Lists inside lists of objects that are followed.
const MAX_LIST_DEPTH: usize = 4;

/// Kinds that a message lists.
const MAX_KINDS: usize = 12;

/// Most letters in which a misspelling of a field differs.
const MAX_EDITS: usize = 2;

/// A file that is imported: YAML, of several documents, or JSON.
#[derive(Debug)]
pub struct ImportFile {
    name: Arc<str>,
    documents: Vec<Document>,
}

impl ImportFile {
    /// Reads a file. `name` is the one that messages give it.
    ///
    /// # Errors
    /// Every document that cannot be read, with its line.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Vec<String>> {
        let documents = document::read_bytes(bytes);
        let errors = documents.iter().filter_map(|document| document.value.as_ref().err());
        let errors: Vec<String> = errors.map(|error| format!("{}: {error}", quote(name))).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let file = Self { name: name.into(), documents };
        let errors: Vec<String> = file.roots().filter_map(|root| root.entries().err()).collect();
        if errors.is_empty() { Ok(file) } else { Err(errors) }
    }

    /// The documents that have content.
    pub(crate) fn roots(&self) -> impl Iterator<Item = SourceNode<'_>> {
        self.documents.iter().filter_map(|document| {
            let value = document.value.as_ref().ok().filter(|value| !value.is_null())?;
            Some(SourceNode { value, path: String::new(), document, file: self })
        })
    }

    /// The Kubernetes objects: documents, and the items of lists.
    pub(crate) fn objects(&self) -> Vec<SourceNode<'_>> {
        let mut found = Vec::new();
        for root in self.roots() {
            collect(root, 0, &mut found);
        }
        found
    }

    /// The message about a file as a whole.
    pub(crate) fn error(&self, message: &str) -> String {
        format!("{}: {message}", quote(&self.name))
    }

    /// The message about files none of which has what an import reads, with what they have.
    pub(crate) fn nothing_read(files: &[Self], message: &str) -> String {
        let names: Vec<String> = files.iter().map(|file| quote(&file.name)).collect();
        let found: BTreeSet<String> =
            files.iter().flat_map(Self::objects).map(|object| object.kind_and_version()).collect();
        let found: Vec<String> = found.into_iter().take(MAX_KINDS).collect();
        let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        format!("{}: {message}; found: {found}", names.join(", "))
    }
}

fn collect<'a>(node: SourceNode<'a>, depth: usize, found: &mut Vec<SourceNode<'a>>) {
    let is_list =
        node.value.get("kind").and_then(Value::as_str).is_some_and(|it| it.ends_with("List"));
    let items = node.get("items").filter(|items| items.value.is_array());
    match items.filter(|_| is_list && depth < MAX_LIST_DEPTH) {
        Some(items) => {
            for item in items.elements() {
                collect(item, depth.saturating_add(1), found);
            }
        }
        None => found.push(node),
    }
}

/// A value of a file, which knows its place.
#[derive(Clone, Debug)]
pub(crate) struct SourceNode<'a> {
    value: &'a Value,
    path: String,
    document: &'a Document,
    file: &'a ImportFile,
}

impl<'a> SourceNode<'a> {
    /// The raw value.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// The last key of its path.
    pub(crate) fn key(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// The line at which it begins.
    pub(crate) fn place(&self) -> SourceLine {
        let location = self.document.locate(&self.path).unwrap_or_default();
        SourceLine { file: self.file.name.clone(), line: location.line }
    }

    /// A message about it, with its file, line and field.
    pub(crate) fn error(&self, message: impl AsRef<str>) -> String {
        let (place, message) = (self.place(), message.as_ref());
        let field = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        format!("{}: line {}: {field}{message}", quote(&place.file), place.line)
    }

    /// The line of a field below it, which the reader of kinds names.
    pub(crate) fn place_below(&self, field: &str) -> SourceLine {
        let below = self.below(field);
        match self.document.locate(&below.path) {
            Some(_) => below.place(),
            None => self.place(),
        }
    }

    /// A message about a field below it, which the reader of kinds names.
    pub(crate) fn error_below(&self, field: &str, message: &str) -> String {
        let (place, below) = (self.place_below(field), self.below(field));
        format!("{}: line {}: {}: {message}", quote(&place.file), place.line, below.path)
    }

    fn below(&self, field: &str) -> Self {
        let path = match (self.path.as_str(), field) {
            ("", field) => field.to_owned(),
            (path, "") => path.to_owned(),
            (path, field) => format!("{path}.{field}"),
        };
        Self { path, ..self.clone() }
    }

    /// The value of a key; `null` counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Self { value, path: join_key(&self.path, key), ..self.clone() })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn require(&self, key: &str) -> Result<Self, String> {
        self.get(key).ok_or_else(|| self.error(format!("{} is required", quote(key))))
    }

    /// The kind of an object, and the version of its definition.
    pub(crate) fn kind_and_version(&self) -> String {
        let text = |key: &str| self.get(key).and_then(|it| it.scalar()).unwrap_or_default();
        match (text("kind"), text("apiVersion")) {
            (kind, _) if kind.is_empty() => "an object without kind".to_owned(),
            (kind, version) if version.is_empty() => kind,
            (kind, version) => format!("{kind} ({version})"),
        }
    }

    /// The remark about the first of these keys whose value is a list without elements, as templates leave it
    /// whose values are empty.
    pub(crate) fn empty_list(&self, keys: &[&str]) -> Option<String> {
        let is_empty = |key: &&&str| {
            self.get(key).is_some_and(|node| node.value.as_array().is_some_and(Vec::is_empty))
        };
        keys.iter().find(is_empty).map(|key| format!("{} is an empty list", quote(key)))
    }

    /// The elements of a list; none of anything else.
    fn elements(&self) -> Vec<Self> {
        let items = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        let item = |(at, value)| Self { value, path: join_index(&self.path, at), ..self.clone() };
        items.iter().enumerate().map(item).collect()
    }

    /// The elements of a list.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn list(&self) -> Result<Vec<Self>, String> {
        if self.value.is_array() { Ok(self.elements()) } else { Err(self.expected("a list")) }
    }

    /// The elements of the list of a key; none if it is absent.
    ///
    /// # Errors
    /// It is no list.
    pub(crate) fn list_of(&self, key: &str) -> Result<Vec<Self>, String> {
        self.get(key).map_or_else(|| Ok(Vec::new()), |node| node.list())
    }

    /// The entries of a mapping, in alphabetical order.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn entries(&self) -> Result<Vec<(&'a str, Self)>, String> {
        let Value::Object(map) = self.value else { return Err(self.expected("a mapping")) };
        let entry = |(key, value): (&'a String, &'a Value)| {
            let node = Self { value, path: join_key(&self.path, key), ..self.clone() };
            (key.as_str(), node)
        };
        Ok(map.iter().map(entry).collect())
    }

    /// The text of a string.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn text(&self) -> Result<&'a str, String> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    /// The text of the string of a key.
    ///
    /// # Errors
    /// It is absent or no string.
    pub(crate) fn text_of(&self, key: &str) -> Result<&'a str, String> {
        self.require(key)?.text()
    }

    /// The texts of a list of strings; none if the key is absent.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn texts_of(&self, key: &str) -> Result<Vec<&'a str>, String> {
        self.list_of(key)?.iter().map(Self::text).collect()
    }

    /// The text of a scalar: a string, a number or a truth value.
    pub(crate) fn scalar(&self) -> Option<String> {
        match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The truth value of a key; `None` if it is absent.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn truth_of(&self, key: &str) -> Result<Option<bool>, String> {
        let Some(node) = self.get(key) else { return Ok(None) };
        node.value.as_bool().map(Some).ok_or_else(|| node.expected("true or false"))
    }

    /// The first key of a mapping that is none of these, with what it may have been meant for.
    pub(crate) fn unknown(&self, known: &[&str]) -> Option<(Self, String)> {
        let Value::Object(map) = self.value else { return None };
        let key = map.keys().find(|key| !known.contains(&key.as_str()))?;
        // `notPaths` is no misspelling of `paths`.
        let meant = match nearest_within(key, known, MAX_EDITS) {
            Some(meant) => format!("is unknown, did you mean {}?", quote(meant)),
            None => "is not translated".to_owned(),
        };
        let node = self.get(key).unwrap_or_else(|| self.clone());
        Some((node, format!("{} {meant}", quote(key))))
    }

    /// The remark about the first key of a mapping that its format does not have, or else of the first of
    /// `others`, which the format has besides `known`.
    pub(crate) fn untranslated(&self, known: &[&str], others: &[&str]) -> Option<String> {
        let Value::Object(map) = self.value else { return None };
        let all: Vec<&str> = known.iter().chain(others).copied().collect();
        if let Some(key) = map.keys().find(|key| !all.contains(&key.as_str())) {
            let meant = nearest_within(key, &all, MAX_EDITS);
            let meant = meant.map(|meant| format!(", did you mean {}?", quote(meant)));
            return Some(format!("{} is unknown{}", quote(key), meant.unwrap_or_default()));
        }
        let key = map.keys().find(|key| !known.contains(&key.as_str()))?;
        Some(format!("{} is not translated", quote(key)))
    }

    /// The remark about a mapping of lists that is not translated as it stands, as by [`Self::untranslated`], or
    /// because a list or all of it is empty: without a value it would stand for everything.
    ///
    /// # Errors
    /// It is no mapping of lists of strings.
    pub(crate) fn untranslated_lists(
        &self,
        known: &[&str],
        others: &[&str],
    ) -> Result<Option<String>, String> {
        self.entries()?;
        let found = self.untranslated(known, others).or_else(|| self.empty_list(known));
        if found.is_some() {
            return Ok(found);
        }
        for key in known {
            if !self.texts_of(key)?.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(format!("{} is empty", quote(self.key()))))
    }

    /// The root of its document.
    pub(crate) fn root(&self) -> Option<Self> {
        let value = self.document.value.as_ref().ok()?;
        Some(Self { value, path: String::new(), ..self.clone() })
    }

    /// The element of a list or the value of a key.
    pub(crate) fn step(&self, step: &str) -> Option<Self> {
        if let Value::Array(items) = self.value {
            let at: usize = step.parse().ok()?;
            let value = items.get(at)?;
            return Some(Self { value, path: join_index(&self.path, at), ..self.clone() });
        }
        self.get(step)
    }

    fn expected(&self, what: &str) -> String {
        let found = match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a truth value",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "a mapping",
        };
        self.error(format!("expected {what}, found {found}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_broken_is_named_with_file_and_line() {
        let broken = ImportFile::read("api.yaml", b"a: 1\nb: [\n---\nc: {}\n");
        let errors = broken.map(|_| ()).unwrap_err();
        assert!(errors.iter().all(|error| error.starts_with("`api.yaml`: line ")), "{errors:?}");
    }

    #[test]
    fn a_message_names_file_line_and_field() {
        let file = ImportFile::read("api.yaml", b"a:\n  /b c:\n  - 1\n").unwrap();
        let root = file.roots().next().unwrap();
        let entries = root.get("a").unwrap().entries().unwrap();
        let element = entries[0].1.list().unwrap().remove(0);
        let message = "`api.yaml`: line 3: a[\"/b c\"][0]: expected a string, found a number";
        assert_eq!(element.text(), Err(message.to_owned()));
    }

    #[test]
    fn lists_are_followed_and_null_is_absent() {
        let text =
            "kind: List\nitems:\n- {kind: A}\n- {kind: BList, items: [{kind: B, x: null}]}\n";
        let file = ImportFile::read("f", text.as_bytes()).unwrap();
        let objects = file.objects();
        let kinds: Vec<&str> = objects.iter().map(|it| it.text_of("kind").unwrap()).collect();
        assert_eq!(kinds, ["A", "B"]);
        assert!(objects[1].get("x").is_none());
        let (_, message) = objects[1].unknown(&["kinds", "x"]).unwrap();
        assert_eq!(message, "`kind` is unknown, did you mean `kinds`?");
    }
}
