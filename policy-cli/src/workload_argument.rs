//! Arguments that name an object as `kubectl` does: `deploy/web`, `deployment.apps/web`, `deploy web`.

use crate::usage::wrong_use;
use policy_crds::{Kind, nearest};
use std::fmt;
use std::str::FromStr;

/// Abbreviations of kinds that are not read themselves.
const SHORT: [(&str, &str); 4] = [
    ("dc", "deploymentconfig"),
    ("ksvc", "service"),
    ("rc", "replicationcontroller"),
    ("ro", "rollout"),
];

/// Reads the workload of a command, in one word (`deploy/web`, or `deploy` for every one of the kind) or in
/// two (`deploy web`). `None` without a word.
///
/// # Errors
/// The words name several workloads, or none: wrong use of the command line.
pub(crate) fn named<T: FromStr<Err = String>>(words: &[String]) -> anyhow::Result<Option<T>> {
    let text = match words {
        [] => return Ok(None),
        [word] => word.clone(),
        [kind, name] if !kind.contains('/') && !name.contains('/') => format!("{kind}/{name}"),
        [..] => {
            return Err(wrong_use("one workload can be named: KIND/NAME, or KIND NAME"));
        }
    };
    text.parse().map(Some).map_err(|message: String| wrong_use(&message))
}

/// `KIND/NAME` or `KIND.GROUP/NAME`, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindAndName<'t> {
    /// The kind, its plural or an abbreviation.
    pub(crate) word: &'t str,
    /// The API group, possibly with a version before it.
    group: Option<&'t str>,
    /// The name.
    pub(crate) name: &'t str,
}

impl<'t> KindAndName<'t> {
    /// Reads an argument.
    ///
    /// # Errors
    /// The text has another form.
    pub(crate) fn parse(text: &'t str) -> Result<Self, String> {
        let Some((word, name)) = text.split_once('/') else {
            let kind = Self::of_kind(text, "");
            let is_kind = Kind::ALL.iter().any(|own| kind.is_of(*own))
                || SHORT.iter().any(|(short, long)| [short, long].contains(&&kind.word));
            return Err(match is_kind {
                true => format!("`{text}` is a kind: {text}/NAME names an object of it"),
                false => format!("`{text}` is not KIND/NAME, for example deploy/{text}"),
            });
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("`{text}` has no name after the kind, or more than one"));
        }
        Ok(Self::of_kind(word, name))
    }

    /// Returns the object of a kind, which may have its group.
    pub(crate) fn of_kind(kind: &'t str, name: &'t str) -> Self {
        let (word, group) = match kind.split_once('.') {
            Some((word, group)) => (word, Some(group)),
            None => (kind, None),
        };
        Self { word, group, name }
    }

    /// Returns the first of these kinds that the text names without an object.
    pub(crate) fn kind_alone(text: &str, kinds: &[Kind]) -> Option<Kind> {
        (!text.contains('/')).then(|| KindAndName::of_kind(text, "").kind(kinds)).flatten()
    }

    /// True if it names an object of this kind.
    pub(crate) fn is_of(&self, kind: Kind) -> bool {
        let is_version = |version: &str| kind.versions().contains(&version);
        let fits = |group: &str| match group.split_once('.') {
            _ if group == kind.group() => true,
            Some((version, group)) => is_version(version) && group == kind.group(),
            None => is_version(group) && kind.group().is_empty(),
        };
        kind.is_called(self.word) && self.group.is_none_or(fits)
    }

    /// Returns the first of these kinds of which it names an object.
    pub(crate) fn kind(&self, kinds: &[Kind]) -> Option<Kind> {
        kinds.iter().copied().find(|kind| self.is_of(*kind))
    }

    /// Returns the kind that is not read itself.
    ///
    /// # Errors
    /// The word looks like a misspelt one of `kinds`, which is then suggested.
    pub(crate) fn other_kind(&self, kinds: &[Kind]) -> Result<OtherKind, String> {
        let word = self.word.to_ascii_lowercase();
        let known = kinds.iter().map(|kind| kind.as_str().to_ascii_lowercase());
        let known: Vec<String> = known.chain(["deploy".to_owned()]).collect();
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        match nearest(&word, &names).filter(|_| self.group.is_none()) {
            Some(near) => Err(format!("`{}` is not a kind; did you mean `{near}`?", self.word)),
            None => {
                let short = SHORT.iter().find(|(short, _)| *short == word);
                let word = short.map_or(word, |(_, kind)| (*kind).to_owned());
                Ok(OtherKind { word, group: self.group.map(without_version) })
            }
        }
    }
}

/// A kind that is not read itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherKind {
    /// The kind or its plural, in lower case.
    pub(crate) word: String,
    /// The API group, where it is stated.
    pub(crate) group: Option<String>,
}

impl OtherKind {
    /// True if it is a kind of this group. A group that is not known is that of any kind.
    pub(crate) fn is(&self, group: Option<&str>, kind: &str) -> bool {
        let kind = kind.to_ascii_lowercase();
        let named = self.word == kind || self.word.strip_suffix('s') == Some(&kind);
        let group = group.zip(self.group.as_deref());
        named && group.is_none_or(|(own, wanted)| own == wanted)
    }
}

/// `rollout.argoproj.io`
impl fmt::Display for OtherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word)?;
        self.group.iter().try_for_each(|group| write!(f, ".{group}"))
    }
}

/// A group without the version that may precede it.
fn without_version(group: &str) -> String {
    let is_version = |text: &str| {
        let number = text.strip_prefix('v');
        number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    match group.split_once('.') {
        Some((version, group)) if is_version(version) => group.to_owned(),
        Some(_) | None => group.to_owned(),
    }
}
