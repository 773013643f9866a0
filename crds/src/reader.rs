//! Strict reading of JSON values: every access knows its path, every broken rule is collected, and
//! unknown fields are errors.

use crate::field::{join_index, join_key};
use crate::object::FieldError;
use policy_core::suggest::nearest;
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::sync::Arc;

pub(crate) use crate::quote::quote;

/// The most errors of one object that are kept.
const MAX_ERRORS: usize = 100;

/// The most regular expressions of one object that are compiled. Each may take a quarter of a
/// mebibyte and a millisecond, however short it is.
const MAX_EXPRESSIONS: usize = 128;
/// The most bytes that the automata of one object take where they are used.
const MAX_COMPILED: usize = 8 * 1024 * 1024;

/// The broken rules of one object, in the order they were found, and the cost of reading it.
#[derive(Default)]
pub(crate) struct Errors {
    list: RefCell<Vec<FieldError>>,
    expressions: Cell<usize>,
    compiled: Cell<usize>,
}

impl Errors {
    /// Adds one, unless there are too many already.
    pub(crate) fn add(&self, field: impl Into<String>, message: impl Into<String>) {
        let mut list = self.list.borrow_mut();
        if list.len() < MAX_ERRORS {
            list.push(FieldError { field: field.into(), message: message.into() });
        }
    }

    /// Number of errors: taken before and after, it shows if a part could be read.
    pub(crate) fn count(&self) -> usize {
        self.list.borrow().len()
    }

    /// All of them.
    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.list.into_inner()
    }
}

/// The fields allowed in a mapping.
#[derive(Clone, Copy)]
pub(crate) enum AllowedFields {
    /// These only.
    Only(&'static [&'static str]),
    /// Any but those that are nearly one of these; what is not read is ignored.
    NoneNear(&'static [&'static str]),
    /// Any; what is not read is ignored.
    Any,
}

/// A value and where it is.
#[derive(Clone)]
pub(crate) struct JsonNode<'a> {
    value: &'a Value,
    path: String,
    errors: &'a Errors,
}

/// A mapping and where it is.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
    errors: &'a Errors,
}

/// Reads every element of a list, so that each error is reported; `None` if one cannot be read.
pub(crate) fn every<'a, T>(
    list: &[JsonNode<'a>],
    read: impl Fn(&JsonNode<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let all: Vec<Option<T>> = list.iter().map(read).collect();
    all.into_iter().collect()
}

impl<'a> JsonNode<'a> {
    /// A value at `path`.
    pub(crate) fn new(value: &'a Value, path: &str, errors: &'a Errors) -> Self {
        Self { value, path: path.to_owned(), errors }
    }

    /// The raw value.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Reports that this value breaks a rule.
    pub(crate) fn error(&self, message: impl Into<String>) {
        self.errors.add(self.path.as_str(), message);
    }

    /// The path of the value.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn expected(&self, what: &str) {
        self.error(format!("expected {what}, found {}", describe(self.value)));
    }

    /// The value as a mapping; unknown fields are errors where `known` says so.
    pub(crate) fn fields(&self, known: AllowedFields) -> Option<Fields<'a>> {
        let Value::Object(map) = self.value else {
            self.expected("a mapping");
            return None;
        };
        let fields = Fields { map, path: self.path.clone(), errors: self.errors };
        fields.refuse(known);
        Some(fields)
    }

    /// The value as a list.
    pub(crate) fn list(&self) -> Option<Vec<JsonNode<'a>>> {
        let Value::Array(items) = self.value else {
            self.expected("a list");
            return None;
        };
        let node =
            |(i, value)| JsonNode { value, path: join_index(&self.path, i), errors: self.errors };
        Some(items.iter().enumerate().map(node).collect())
    }

    /// The value as a list whose elements `read` reads. It reads every element, so that each error is
    /// reported; `None` if one cannot be read.
    pub(crate) fn list_of<T>(&self, read: impl Fn(&JsonNode<'a>) -> Option<T>) -> Option<Vec<T>> {
        every(&self.list()?, read)
    }

    /// The value as a list of at most `max` elements.
    pub(crate) fn list_up_to(&self, max: usize) -> Option<Vec<JsonNode<'a>>> {
        let list = self.list()?;
        if list.len() > max {
            self.error(format!("{} elements, at most {max} are allowed", list.len()));
            return None;
        }
        Some(list)
    }

    /// The value as text.
    pub(crate) fn text(&self) -> Option<&'a str> {
        if let Value::String(text) = self.value {
            return Some(text);
        }
        self.expected("text");
        None
    }

    /// The value as text of 1 to `max` bytes.
    pub(crate) fn text_up_to(&self, max: usize) -> Option<&'a str> {
        let text = self.text()?;
        if text.is_empty() {
            self.error("must not be empty");
            return None;
        }
        if text.len() > max {
            self.error(format!("{} is longer than {max} bytes", quote(text)));
            return None;
        }
        Some(text)
    }

    /// The value as a truth value.
    pub(crate) fn boolean(&self) -> Option<bool> {
        if let Value::Bool(value) = self.value {
            return Some(*value);
        }
        self.expected("`true` or `false`");
        None
    }

    /// The value as a whole number within bounds.
    pub(crate) fn integer(&self, min: i64, max: i64) -> Option<i64> {
        let number = self.value.as_i64().filter(|n| (min..=max).contains(n));
        if number.is_none() {
            self.expected(&format!("a whole number from {min} to {max}"));
        }
        number
    }

    /// The value as one of a fixed set of texts.
    pub(crate) fn choice<T: Copy>(&self, allowed: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = allowed.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
            self.error(format!("unknown value {}, expected {}", quote(text), one_of(&names)));
        }
        found.map(|(_, value)| *value)
    }

    /// Counts a regular expression. Reports an error and returns false if the object has too many.
    pub(crate) fn count_expression(&self) -> bool {
        let count = self.errors.expressions.get().saturating_add(1);
        self.errors.expressions.set(count);
        let few = count <= MAX_EXPRESSIONS;
        if !few {
            let rule = format!("at most {MAX_EXPRESSIONS} are allowed in one object");
            self.error(format!("regular expression number {count}, {rule}"));
        }
        few
    }

    /// Counts the size of an expression that was compiled. Reports an error and returns false if those of
    /// the object take too much together.
    pub(crate) fn count_compiled(&self, bytes: usize) -> bool {
        let sum = self.errors.compiled.get().saturating_add(bytes);
        self.errors.compiled.set(sum);
        let little = sum <= MAX_COMPILED;
        if !little {
            let rule = format!("at most {MAX_COMPILED} are allowed in one object");
            self.error(format!("the regular expressions take {sum} bytes when compiled, {rule}"));
        }
        little
    }

    /// Runs `read` and gives its result only if it reported nothing.
    pub(crate) fn clean<T>(&self, read: impl FnOnce(&Self) -> Option<T>) -> Option<T> {
        let (value, clean) = self.examined(read);
        value.filter(|_| clean)
    }

    /// Runs `read` and gives its result, and true if it reported nothing.
    pub(crate) fn examined<T>(&self, read: impl FnOnce(&Self) -> T) -> (T, bool) {
        let before = self.errors.count();
        let value = read(self);
        // At the cap nothing is added any more, so nothing counts as clean.
        (value, before == self.errors.count() && before < MAX_ERRORS)
    }
}

impl<'a> Fields<'a> {
    /// The errors it reports to.
    pub(crate) fn errors(&self) -> &'a Errors {
        self.errors
    }

    /// Reports a rule that the mapping as a whole breaks.
    pub(crate) fn error(&self, message: impl Into<String>) {
        self.errors.add(self.path.as_str(), message);
    }

    /// Reports a rule about the field `name`, which may be absent.
    pub(crate) fn error_at(&self, name: &str, message: impl Into<String>) {
        self.errors.add(join_key(&self.path, name), message);
    }

    /// The field `name`; absent and `null` are the same, as for the API server.
    pub(crate) fn get(&self, name: &str) -> Option<JsonNode<'a>> {
        let value = self.map.get(name).filter(|v| !v.is_null())?;
        Some(JsonNode { value, path: join_key(&self.path, name), errors: self.errors })
    }

    /// The field `name`, whose absence is an error.
    pub(crate) fn require(&self, name: &str) -> Option<JsonNode<'a>> {
        let node = self.get(name);
        if node.is_none() {
            self.error_at(name, "is required");
        }
        node
    }

    /// Every field, `null` left out.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, JsonNode<'a>)> + use<'a, '_> {
        self.map.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
            let path = join_key(&self.path, key);
            (key.as_str(), JsonNode { value, path, errors: self.errors })
        })
    }

    /// Returns true if there is a field that is not one of `names`.
    pub(crate) fn has_unknown(&self, names: &[&str]) -> bool {
        self.map.keys().any(|key| !names.contains(&key.as_str()))
    }

    /// Returns the field that is nearly `name`, and no other of `names` more nearly.
    pub(crate) fn misspelt(&self, name: &str, names: &[&str]) -> Option<&'a str> {
        let mut unknown = self.map.keys().filter(|key| !names.contains(&key.as_str()));
        unknown.find(|key| nearest(key, names) == Some(name)).map(String::as_str)
    }

    /// The field `name`, or the one that is nearly it, with the error about it.
    pub(crate) fn meant(
        &self,
        name: &str,
        names: &[&str],
    ) -> Option<(JsonNode<'a>, Option<FieldError>)> {
        if let Some(node) = self.get(name) {
            return Some((node, None));
        }
        let node = self.get(self.misspelt(name, names)?)?;
        let message = format!("unknown field, did you mean `{name}`?");
        let error = FieldError { field: node.path().to_owned(), message };
        Some((node, Some(error)))
    }

    /// Returns true if there is a field that is nearly one of `names`.
    pub(crate) fn has_near(&self, names: &[&str]) -> bool {
        let unknown = self.map.keys().filter(|key| !names.contains(&key.as_str()));
        unknown.into_iter().any(|key| nearest(key, names).is_some())
    }

    /// Reports each field that is not allowed.
    pub(crate) fn refuse(&self, known: AllowedFields) {
        match known {
            AllowedFields::Only(names) => self.refuse_unknown(names),
            AllowedFields::NoneNear(names) => {
                for key in self.map.keys().filter(|key| !names.contains(&key.as_str())) {
                    if let Some(name) = nearest(key, names) {
                        self.error_at(key, format!("unknown field, did you mean `{name}`?"));
                    }
                }
            }
            AllowedFields::Any => {}
        }
    }

    /// Reports each field that is not one of `names`.
    pub(crate) fn refuse_unknown(&self, names: &[&str]) {
        for key in self.map.keys().filter(|key| !names.contains(&key.as_str())) {
            let hint = match nearest(key, names) {
                Some(name) => format!("unknown field, did you mean `{name}`?"),
                None if names.is_empty() => "unknown field, none is allowed here".to_owned(),
                None => format!("unknown field, expected {}", one_of(names)),
            };
            self.error_at(key, hint);
        }
    }
}

/// `one of `a`, `b``, or just the one.
pub(crate) fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if quoted.len() == 1 { quoted.concat() } else { format!("one of {}", quoted.join(", ")) }
}

/// A description of a value, for messages.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Number(number) => {
            let mut text = String::new();
            // Writing to a String cannot fail.
            let _ = write!(text, "{number}");
            format!("the number {}", quote(&text))
        }
        Value::String(text) => format!("the text {}", quote(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

/// Shares a text.
pub(crate) fn shared(text: &str) -> Arc<str> {
    Arc::from(text)
}
