//! The places of objects in a tree, so that the state of one does not cost a pass over all.

use policy_crds::ObjectKey;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// The places of objects among the numbered rules of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreePlaces(HashMap<ObjectKey, Places>);

/// The places of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    /// Its rules.
    own: Vec<usize>,
    /// The rules that name it as a child.
    naming: Vec<usize>,
    /// The Servers that answer its rules, or rules that these lead to.
    servers: BTreeSet<ObjectKey>,
}

impl TreePlaces {
    /// Adds rules of the last object of a chain, which these Servers answer.
    pub(crate) fn add<'s>(
        &mut self,
        chain: &[ObjectKey],
        rules: Range<usize>,
        servers: impl Iterator<Item = &'s ObjectKey>,
    ) {
        let servers: BTreeSet<&ObjectKey> = servers.collect();
        for object in chain.iter().filter(|_| !servers.is_empty()) {
            let known = &mut self.0.entry(object.clone()).or_default().servers;
            known.extend(servers.iter().map(|server| (*server).clone()));
        }
        if let Some(object) = chain.last() {
            self.0.entry(object.clone()).or_default().own.extend(rules);
        }
    }

    /// Adds a rule that names an object as a child.
    pub(crate) fn add_naming(&mut self, child: &ObjectKey, rule: usize) {
        let naming = &mut self.0.entry(child.clone()).or_default().naming;
        if naming.last() != Some(&rule) {
            naming.push(rule);
        }
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        self.0.keys()
    }

    /// The rules of an object.
    pub(crate) fn own(&self, object: &ObjectKey) -> &[usize] {
        self.0.get(object).map_or(&[], |places| &places.own)
    }

    /// The rules that name an object as a child.
    pub(crate) fn naming(&self, object: &ObjectKey) -> &[usize] {
        self.0.get(object).map_or(&[], |places| &places.naming)
    }

    /// The Servers that answer the rules of an object, or rules that these lead to.
    pub(crate) fn servers(&self, object: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.0.get(object).into_iter().flat_map(|places| &places.servers)
    }
}
