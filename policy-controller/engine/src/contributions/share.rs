//! Contributions, by namespace, and which of them a message has no room for.

use super::contributor::contributor;
use super::size::Measure;
use super::without::without;
use policy_core::{ObjectRef, ServerPolicy};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The most objects that the words of a contribution name.
const MAX_NAMED: usize = 3;

/// The part of a policy that the objects of another namespace contribute, and those to which they hand on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceContribution {
    /// The namespace.
    pub namespace: Arc<str>,
    /// About as many bytes of a message.
    pub bytes: usize,
    /// The bytes that the automata of its expressions take in a proxy.
    pub expressions: usize,
    /// The objects that hold the rules, the largest part first.
    pub objects: Vec<ObjectRef>,
}

impl fmt::Display for NamespaceContribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, bytes, expressions, objects } = self;
        let named: Vec<String> = objects.iter().take(MAX_NAMED).map(ToString::to_string).collect();
        write!(f, "namespace {namespace}: some {bytes} bytes")?;
        if *expressions > 0 {
            write!(f, ", {expressions} of expressions when compiled,")?;
        }
        write!(f, " of {}", named.join(", "))?;
        match objects.len().saturating_sub(named.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The contributions of other namespaces to a policy, the largest first.
pub fn contributions(policy: &ServerPolicy) -> Vec<NamespaceContribution> {
    let mut found: BTreeMap<&str, (Measure, BTreeMap<&ObjectRef, usize>)> = BTreeMap::new();
    for route in &policy.routes.routes {
        let Some(namespace) = contributor(&policy.owner, &route.origin) else { continue };
        let (measure, objects) = found.entry(namespace).or_default();
        let before = measure.bytes;
        measure.route(route);
        if let Some(object) = route.origin.object() {
            let bytes = objects.entry(object).or_default();
            *bytes = bytes.saturating_add(measure.bytes.saturating_sub(before));
        }
    }
    let contribution = |(namespace, (measure, objects)): (&str, (Measure, BTreeMap<_, usize>))| {
        let mut objects: Vec<(&ObjectRef, usize)> = objects.into_iter().collect();
        objects.sort_by_key(|(_, bytes)| Reverse(*bytes));
        let objects = objects.into_iter().map(|(object, _)| object.clone()).collect();
        let Measure { bytes, expressions, .. } = measure;
        NamespaceContribution { namespace: namespace.into(), bytes, expressions, objects }
    };
    let mut all: Vec<NamespaceContribution> = found.into_iter().map(contribution).collect();
    all.sort_by_key(|one| Reverse(one.bytes));
    all
}

/// The policy with all that other namespaces contribute denied.
pub fn owners_part(policy: &ServerPolicy) -> ServerPolicy {
    let all = contributions(policy);
    without(policy, &all.iter().map(|one| &*one.namespace).collect())
}

/// By how much a policy exceeds its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Bytes of a message.
    Bytes(usize),
    /// Bytes of automata in a proxy.
    Expressions(usize),
}

impl Excess {
    fn size(self) -> usize {
        match self {
            Self::Bytes(size) | Self::Expressions(size) => size,
        }
    }

    /// The part of a contribution in what is exceeded.
    fn part(self, of: &NamespaceContribution) -> usize {
        match self {
            Self::Bytes(_) => of.bytes,
            Self::Expressions(_) => of.expressions,
        }
    }
}

/// Leaves out the largest contributions to a policy that exceeds a bound, as few as make room. Returns the
/// value that `make` gives for the rest, and the contributions that are left out. `make` returns `None` for
/// a policy that is still too large. `None`: not even the owner's part fits.
pub fn fitted<T>(
    policy: &ServerPolicy,
    excess: Excess,
    mut make: impl FnMut(&ServerPolicy) -> Option<T>,
) -> Option<(T, Vec<NamespaceContribution>)> {
    let mut all = contributions(policy);
    all.sort_by_key(|one| Reverse(excess.part(one)));
    let mut bytes = 0_usize;
    // The sizes are estimates, by which the search begins.
    let enough = all.iter().take_while(|one| {
        let lacks = bytes < excess.size();
        bytes = bytes.saturating_add(excess.part(one));
        lacks
    });
    let mut count = enough.count().max(1).min(all.len());
    let mut made_without = |count: usize| {
        let lacking = all.get(..count).filter(|lacking| !lacking.is_empty())?;
        let namespaces: BTreeSet<&str> = lacking.iter().map(|one| &*one.namespace).collect();
        Some((make(&without(policy, &namespaces))?, lacking.to_vec()))
    };
    // Without so many it is too large.
    let mut too_few = 0_usize;
    let mut found = made_without(count);
    while found.is_none() {
        if count >= all.len() {
            return None;
        }
        too_few = count;
        count = count.saturating_mul(2).min(all.len());
        found = made_without(count);
    }
    while count.saturating_sub(too_few) > 1 {
        let middle = too_few.saturating_add(count) / 2;
        match made_without(middle) {
            Some(fewer) => (found, count) = (Some(fewer), middle),
            None => too_few = middle,
        }
    }
    found
}
