//! From the paths that modules name to edges between files.

use super::modules::{Id, Modules};
use super::syntax::{Import, Reference};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The names by which each file reaches another one.
pub(crate) type Named = BTreeMap<(PathBuf, PathBuf), BTreeSet<String>>;

/// The edges between the files of one target, each with the paths that make it.
pub(crate) fn edges(modules: &Modules) -> Named {
    let scopes = Scopes::read(modules);
    let mut edges = Named::new();
    for (holder, reference) in &modules.references {
        let Some(from) = modules.all.get(*holder) else { continue };
        for reached in scopes.walk(*holder, &reference.segments) {
            if let Some(to) = modules.all.get(reached).filter(|to| to.file != from.file) {
                let key = (from.file.clone(), to.file.clone());
                edges.entry(key).or_default().insert(reference.segments.join("::"));
            }
        }
    }
    edges
}

/// Names that `use` brings into each module: modules under a name, and all names of others.
struct Scopes<'a> {
    modules: &'a Modules,
    names: BTreeMap<(Id, &'a str), Id>,
    globs: BTreeMap<Id, BTreeSet<Id>>,
}

impl<'a> Scopes<'a> {
    fn read(modules: &'a Modules) -> Self {
        let mut scopes = Scopes { modules, names: BTreeMap::new(), globs: BTreeMap::new() };
        // A `use` may begin with a name that another one brings, so that one round is not enough.
        while scopes.round() {}
        scopes
    }

    /// Follows every `use` once; whether anything came of it.
    fn round(&mut self) -> bool {
        let mut any = false;
        for (holder, reference) in &self.modules.references {
            let Reference { segments, import: Some(import), .. } = reference else { continue };
            let Some(target) = self.module(*holder, segments) else { continue };
            any |= match import {
                Import::Name(name) => self.names.insert((*holder, name), target).is_none(),
                Import::Glob => self.globs.entry(*holder).or_default().insert(target),
            };
        }
        any
    }

    /// The module that a whole path names.
    fn module(&self, from: Id, segments: &[String]) -> Option<Id> {
        let (mut at, rest) = self.begin(from, segments)?;
        for name in rest {
            at = self.member(at, name)?;
        }
        Some(at)
    }

    /// The modules whose files a path needs: the last one it leads to, and on the way there those
    /// that pass on a module of elsewhere under a name of their own.
    fn walk(&self, from: Id, segments: &[String]) -> Vec<Id> {
        let Some((mut at, rest)) = self.begin(from, segments) else { return Vec::new() };
        let mut needed = Vec::new();
        for name in rest {
            let Some(next) = self.member(at, name) else { break };
            if self.child(at, name) != Some(next) {
                needed.push(at);
            }
            at = next;
        }
        needed.push(at);
        needed
    }

    /// Returns the module where a path begins and the segments that follow; none if it leads out of the
    /// crate.
    fn begin<'b>(&self, from: Id, segments: &'b [String]) -> Option<(Id, &'b [String])> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => Some((0, rest)),
            "self" => Some((from, rest)),
            "super" => {
                let parent = self.modules.all.get(from)?.parent?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.begin(parent, rest),
                    _ => Some((parent, rest)),
                }
            }
            name => Some((self.member(from, name)?, rest)),
        }
    }

    fn child(&self, of: Id, name: &str) -> Option<Id> {
        self.modules.all.get(of)?.children.get(name).copied()
    }

    /// The module that a name means inside of another one.
    fn member(&self, of: Id, name: &str) -> Option<Id> {
        self.member_but(of, name, &mut BTreeSet::new())
    }

    /// As `member`, without looking twice into a module that another one takes all names from.
    fn member_but(&self, of: Id, name: &str, seen: &mut BTreeSet<Id>) -> Option<Id> {
        if !seen.insert(of) {
            return None;
        }
        let own = self.child(of, name).or_else(|| self.names.get(&(of, name)).copied());
        own.or_else(|| {
            let globs = self.globs.get(&of)?;
            globs.iter().find_map(|from| self.member_but(*from, name, seen))
        })
    }
}
