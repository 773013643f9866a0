//! Selection of objects: all, those of a kind, or one by name.

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
        let (word, group) = match word.split_once('.') {
            Some((word, group)) => (word, Some(group)),
            None => (word, None),
        };
        let kinds: Vec<Kind> = kinds_with_conditions()
            .filter(|kind| kind.is_called(word))
            .filter(|kind| group.is_none_or(|group| kind.group() == group))
            .collect();
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
    fn names_fit_the_object_they_name() {
        let name: ResourceArg = "server/web".parse().unwrap();
        assert!(name.fits("policy.linkerd.io", "Server", "web") && name.is_one());
        assert!(!name.fits("policy.linkerd.io", "Server", "db"));
        assert!(!name.fits("policy.linkerd.io", "HTTPRoute", "web"));
        assert!(ResourceArgs::default().fit("policy.linkerd.io", "Server", "web"));
    }
}
