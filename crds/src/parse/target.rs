//! References to other objects by group, kind and name.

use super::name::{namespace, object_name};
use crate::kind::{Kind, OWN_GROUP};
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote};
use crate::resource::NamespacedName;
use std::sync::Arc;

/// The kind of the network sets that are built in.
pub(crate) const SET_KIND: &str = "NetworkSet";

/// The kind of object that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An object of a kind that is read.
    Kind(Kind),
    /// A built-in set of networks.
    NetworkSet,
}

/// A reference: its target and the mapping it was read from.
pub(crate) struct Reference<'a> {
    /// The kind that it names.
    pub(crate) target: Target,
    /// The mapping.
    pub(crate) fields: Fields<'a>,
}

impl<'a> Reference<'a> {
    /// Reads `{group, kind, …}`; a kind that is not one of `allowed` is an error.
    pub(crate) fn read(
        node: &JsonNode<'a>,
        names: &'static [&'static str],
        allowed: &[Target],
    ) -> Option<Self> {
        Self::of(node, names, allowed, |_| None)
    }

    /// The same in a kind of this project: the group may be left out where no other group has a kind of
    /// this name that is allowed.
    pub(crate) fn read_by_kind(
        node: &JsonNode<'a>,
        names: &'static [&'static str],
        allowed: &[Target],
    ) -> Option<Self> {
        Self::of(node, names, allowed, |kind| {
            let mut named = allowed.iter().filter(|it| it.kind().eq_ignore_ascii_case(kind));
            let only = named.next()?;
            named.next().is_none().then_some(*only)
        })
    }

    fn of(
        node: &JsonNode<'a>,
        names: &'static [&'static str],
        allowed: &[Target],
        without_group: impl FnOnce(&str) -> Option<Target>,
    ) -> Option<Self> {
        let fields = node.fields(AllowedFields::Only(names))?;
        let stated = fields.get("group");
        let group = match &stated {
            Some(node) => node.text()?,
            None => "",
        };
        let kind = fields.require("kind")?;
        let text = kind.text_up_to(63)?;
        let found = allowed.iter().copied().find(|t| t.is(group, text));
        let found = found.or_else(|| without_group(text).filter(|_| stated.is_none()));
        if found.is_none() {
            refuse(&fields, &kind, (group, text), allowed);
        }
        Some(Self { target: found?, fields })
    }

    /// `name`, required.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        object_name(&self.fields.require("name")?)
    }

    /// `name` and `namespace`.
    pub(crate) fn namespaced(&self) -> Option<NamespacedName> {
        namespaced(&self.fields)
    }
}

/// `name` and the optional `namespace` of a mapping.
pub(crate) fn namespaced(fields: &Fields<'_>) -> Option<NamespacedName> {
    let name = fields.require("name").and_then(|node| object_name(&node));
    let namespace = match fields.get("namespace") {
        Some(node) => namespace(&node)?,
        None => None,
    };
    Some(NamespacedName { namespace, name: name? })
}

impl Target {
    fn group(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.group(),
            Self::NetworkSet => OWN_GROUP,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.as_str(),
            Self::NetworkSet => SET_KIND,
        }
    }

    /// Group and kind compare without case, `core` is the empty group.
    fn is(self, group: &str, kind: &str) -> bool {
        let group = if group.eq_ignore_ascii_case("core") { "" } else { group };
        self.group().eq_ignore_ascii_case(group) && self.kind().eq_ignore_ascii_case(kind)
    }

    fn describe(self) -> String {
        match self.group() {
            "" => self.kind().to_owned(),
            group => format!("{} ({group})", self.kind()),
        }
    }
}

fn refuse(
    fields: &Fields<'_>,
    kind: &JsonNode<'_>,
    (group, text): (&str, &str),
    allowed: &[Target],
) {
    // The right kind with a missing or mistaken group is the commonest slip of all.
    let same = allowed.iter().find(|t| t.kind().eq_ignore_ascii_case(text));
    if let Some(target) = same {
        let right = target.group();
        fields.error_at(
            "group",
            match (group.is_empty(), right.is_empty()) {
                (true, _) => format!("is required for {}, write `group: {right}`", target.kind()),
                (false, true) => {
                    format!("{} has no {}, leave the field out", quote(group), target.kind())
                }
                (false, false) => {
                    format!("{} has no {}, write `group: {right}`", quote(group), target.kind())
                }
            },
        );
        return;
    }
    let names: Vec<String> = allowed.iter().map(|t| t.describe()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    kind.error(format!("{} is not allowed here, expected {}", quote(text), one_of(&names)));
}
