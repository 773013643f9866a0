//! Selection of objects: all, those of a kind, or one by name.

use crate::workload_argument::KindAndName;
use policy_crds::Kind;
use policy_crds::spec::Conditions;
use std::str::FromStr;

/// The kinds that have conditions.
fn kinds_with_conditions() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.spec().conditions != Conditions::None)
}

/// A resource argument: `KIND` or `KIND.GROUP`, either with `/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceArg {
    /// The argument as written.
    pub(crate) text: String,
    kinds: Vec<Kind>,
    name: Option<String>,
}

impl FromStr for ResourceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (word, name) = match text.split_once('/') {
            Some((word, name)) if !name.is_empty() && !name.contains('/') => (word, Some(name)),
            Some(_) => return Err(format!("`{text}` is not KIND/NAME")),
            None => (text, None),
        };
        let named = KindAndName::of_kind(word, "");
        let kinds: Vec<Kind> = kinds_with_conditions().filter(|kind| named.is_of(*kind)).collect();
        if kinds.is_empty() {
            let mut known: Vec<&str> = kinds_with_conditions().map(Kind::plural).collect();
            known.dedup();
            return Err(format!("`{text}`: no such kind has conditions; {}", known.join(", ")));
        }
        Ok(Self { text: text.to_owned(), kinds, name: name.map(str::to_owned) })
    }
}

impl ResourceArg {
    /// True if it selects an object.
    pub(crate) fn fits(&self, group: &str, kind: &str, name: &str) -> bool {
        let of_kind = self.kinds.iter().any(|k| k.group() == group && k.as_str() == kind);
        of_kind && self.name.as_deref().is_none_or(|own| own == name)
    }

    /// The kinds that it may refer to.
    pub(crate) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// True if it names an object rather than a kind.
    pub(crate) fn is_one(&self) -> bool {
        self.name.is_some()
    }
}

/// All resource arguments; empty: every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceArgs(pub(crate) Vec<ResourceArg>);

impl ResourceArgs {
    /// Reads the words of a command as `kubectl` does. Kinds come first, and names of each of them may
    /// follow: `server web api`, `servers,httproutes web`. Otherwise every word is an object: `server/web`.
    ///
    /// # Errors
    /// A kind has no conditions, or a word has another form.
    pub(crate) fn of_words(words: &[String]) -> Result<Self, String> {
        let Some((first, names)) = words.split_first() else { return Ok(Self::default()) };
        if first.contains('/') {
            let read = |word: &String| match word.contains('/') {
                true => word.parse::<ResourceArg>(),
                false => Err(format!("`{word}` is not KIND/NAME, as `{first}` before it is")),
            };
            return words.iter().map(read).collect::<Result<Vec<_>, _>>().map(Self);
        }
        if let Some(word) = names.iter().find(|name| name.is_empty() || name.contains('/')) {
            return Err(format!(
                "`{word}` is not a name, which is expected after the kind `{first}`"
            ));
        }
        let kinds: Vec<ResourceArg> = first.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Ok(Self(kinds));
        }
        let of_name = |name: &String, kind: &ResourceArg| ResourceArg {
            text: format!("{}/{name}", kind.text),
            kinds: kind.kinds.clone(),
            name: Some(name.clone()),
        };
        let named = kinds.iter().flat_map(|kind| names.iter().map(move |name| of_name(name, kind)));
        Ok(Self(named.collect()))
    }

    /// True if an object is selected.
    pub(crate) fn fit(&self, group: &str, kind: &str, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|own| own.fits(group, kind, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        text.parse::<ResourceArg>().unwrap().kinds
    }

    #[test]
    fn kinds_are_named_as_in_a_cluster() {
        assert_eq!(kinds("servers"), [Kind::Server]);
        assert_eq!(kinds("saz/a"), [Kind::ServerAuthorization]);
        assert_eq!(kinds("httproute"), [Kind::PolicyHttpRoute, Kind::GatewayHttpRoute]);
        assert_eq!(kinds("httproutes.gateway.networking.k8s.io"), [Kind::GatewayHttpRoute]);
        let error = "services/a".parse::<ResourceArg>().unwrap_err();
        assert!(error.starts_with("`services/a`: no such kind"), "{error}");
        assert!("server/".parse::<ResourceArg>().is_err());
    }

    #[test]
    fn names_follow_their_kind_as_for_kubectl() {
        let texts = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let args = ResourceArgs::of_words(&words)?;
            Ok::<_, String>(args.0.into_iter().map(|arg| arg.text).collect::<Vec<_>>())
        };
        let read = |words: &[&str]| texts(words).unwrap();
        assert_eq!(read(&["server", "web"]), ["server/web"]);
        assert_eq!(read(&["server", "web", "api"]), ["server/web", "server/api"]);
        assert_eq!(read(&["servers,httproutes"]), ["servers", "httproutes"]);
        assert_eq!(read(&["server/web", "saz/api"]), ["server/web", "saz/api"]);
        assert_eq!(
            read(&["servers,httproutes", "web", "api"]),
            ["servers/web", "servers/api", "httproutes/web", "httproutes/api"]
        );
        assert_eq!(read(&["server", "server"]), ["server/server"], "an object may be named so");
        assert_eq!(
            read(&["servers.v1beta3.policy.linkerd.io", "web"]),
            ["servers.v1beta3.policy.linkerd.io/web"]
        );
        for (words, error) in [
            (["server/web", "api"], "`api` is not KIND/NAME, as `server/web` before it is"),
            (
                ["server", "saz/a"],
                "`saz/a` is not a name, which is expected after the kind `server`",
            ),
        ] {
            assert_eq!(texts(&words).unwrap_err(), error);
        }
        let none = texts(&["servers,", "web"]).unwrap_err();
        assert!(none.starts_with("``: no such kind has conditions; "), "{none}");
    }

    #[test]
    fn names_fit_the_object_they_name() {
        let name: ResourceArg = "server/web".parse().unwrap();
        assert!(name.fits("policy.linkerd.io", "Server", "web") && name.is_one());
        assert!(!name.fits("policy.linkerd.io", "Server", "db"));
        assert!(!name.fits("policy.linkerd.io", "HTTPRoute", "web"));
        assert!(ResourceArgs::default().fit("policy.linkerd.io", "Server", "web"));
    }
}
