//! ReferenceGrants that permit more than their author may mean, and those that nothing uses.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::query::reference::{ForeignReferencesOf, ReferencePermission};
use crate::resolve::reference::content;
use policy_crds::resource::{GrantFrom, GrantTo, ReferenceGrant};
use policy_crds::{Field, Object, ObjectKey};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Finder<'_> {
    /// The findings about the width of a ReferenceGrant. They are about references that decide
    /// something here; others are for those who follow them.
    pub(super) fn wide_grants(&self, object: &Object) -> Vec<Finding> {
        let Some(grant) = content(object) else { return Vec::new() };
        let key = &object.meta.key;
        let mut findings = Vec::new();
        for (i, to) in grant.to.iter().enumerate() {
            let decides = grant.from.iter().any(|from| decides(from, to));
            let Some(kind) = to.known_kind().filter(|_| decides && to.name.is_none()) else {
                continue;
            };
            let message = format!(
                "has no `name`: permits references to every {} of namespace `{}`, later ones too",
                kind.in_full(),
                key.namespace
            );
            findings.push(finding(
                key,
                FindingKind::GrantsEvery,
                &format!("spec.to[{i}]"),
                message,
            ));
        }
        for (i, from) in grant.from.iter().enumerate() {
            let attaches = grant.to.iter().any(|to| {
                from.fields(to).into_iter().any(|reference| reference.field == Field::Parent)
            });
            let Some(kind) = from.known_kind().filter(|_| attaches) else { continue };
            let (kind, namespace) = (kind.in_full(), &from.namespace);
            let message = format!(
                "trusts namespace `{namespace}` in full: on a Server that it may attach to, each \
                 {kind} from there with a host or a longer path wins over the Server's own routes, \
                 and policies of `{namespace}` grant its requests; an InboundRoute that delegates a \
                 path of a host bounds the trust to that path"
            );
            let found =
                finding(key, FindingKind::TrustsRoutes, &format!("spec.from[{i}]"), message);
            findings.push(found);
        }
        findings
    }

    /// The ReferenceGrants among all objects that no reference uses. Not reported where another
    /// controller may follow what is permitted, nor while one is applied alone, because what it
    /// permits may follow.
    pub(crate) fn unused_grants(&mut self, objects: &[Arc<Object>]) -> Vec<Finding> {
        let mut used: BTreeSet<ObjectKey> = BTreeSet::new();
        for object in objects {
            let references = self.query(&ForeignReferencesOf(object.meta.key.clone()));
            for reference in references.iter() {
                if let ReferencePermission::Granted(entries) = &reference.permission {
                    used.extend(entries.iter().map(|entry| entry.grant.clone()));
                }
            }
        }
        let own = objects.iter().filter(|object| content(object).is_some_and(is_followed_here));
        let unused = own.filter(|object| !used.contains(&object.meta.key));
        unused
            .map(|object| {
                let message = "permits no reference that there is: nothing changes without it";
                finding(&object.meta.key, FindingKind::UnusedGrant, "spec", message.to_owned())
            })
            .collect()
    }
}

/// True if policy depends on references of this kind.
fn decides(from: &GrantFrom, to: &GrantTo) -> bool {
    from.fields(to).into_iter().any(|reference| !reference.to.is_empty())
}

/// True if nobody but this controller follows what a grant permits.
fn is_followed_here(grant: &ReferenceGrant) -> bool {
    let mut pairs = grant.from.iter().flat_map(|from| grant.to.iter().map(move |to| (from, to)));
    pairs.all(|(from, to)| decides(from, to))
}
