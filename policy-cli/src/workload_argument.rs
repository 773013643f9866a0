//! Arguments that name an object as `kubectl` does: `deploy/web`, `deployment.apps/web`.

use policy_crds::{Kind, nearest};

/// Abbreviations of kinds that are not read themselves.
const SHORT: [(&str, &str); 4] = [
    ("dc", "deploymentconfig"),
    ("ksvc", "service"),
    ("rc", "replicationcontroller"),
    ("ro", "rollout"),
];

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
            return Err(format!("`{text}` is not KIND/NAME, for example deploy/{text}"));
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("`{text}` has no name after the kind, or more than one"));
        }
        let (word, group) = match word.split_once('.') {
            Some((word, group)) => (word, Some(group)),
            None => (word, None),
        };
        Ok(Self { word, group, name })
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

    /// Returns the words of a kind that is not read itself; `None` if the word looks like a misspelt one
    /// of `kinds`, which is then suggested.
    pub(crate) fn other_kind(&self, kinds: &[Kind]) -> Result<String, String> {
        let word = self.word.to_ascii_lowercase();
        let known = kinds.iter().map(|kind| kind.as_str().to_ascii_lowercase());
        let known: Vec<String> = known.chain(["deploy".to_owned()]).collect();
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        match nearest(&word, &names).filter(|_| self.group.is_none()) {
            Some(near) => Err(format!("`{}` is not a kind; did you mean `{near}`?", self.word)),
            None => {
                let short = SHORT.iter().find(|(short, _)| *short == word);
                Ok(short.map_or(word, |(_, kind)| (*kind).to_owned()))
            }
        }
    }
}

/// Reads `KIND/NAME` where the kind is one of these.
///
/// # Errors
/// The text has another form, or names another kind.
pub(crate) fn kind_and_name<'t>(text: &'t str, kinds: &[Kind]) -> Result<(Kind, &'t str), String> {
    let named = KindAndName::parse(text)?;
    let Some(kind) = named.kind(kinds) else {
        let known: Vec<String> =
            kinds.iter().map(|kind| kind.as_str().to_ascii_lowercase()).collect();
        let known = known.join(", ");
        return Err(format!("`{}` is not one of {known}", named.word));
    };
    Ok((kind, named.name))
}
