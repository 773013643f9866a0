//! Reviews of objects as if they were applied, on a copy of the index, outside of the task that
//! owns it.

use crate::config::ControllerConfig;
use crate::findings::{Finder, Finding, FindingKind};
use crate::incremental::Memo;
use crate::index::Index;
use crate::policy_edit::PolicyEdit;
use crate::query::workload::MAX_EXAMINED;
use crate::source::{Batch, Change};
use crate::widened::RouteEdit;
use policy_crds::{FieldError, Kind, Object, ObjectKey};
use std::sync::Arc;

/// An object that does not exist yet is younger than every other.
const YOUNGEST: i64 = i64::MAX;

/// A copy of the index in which changes can be tried.
pub struct Snapshot {
    index: Index,
    config: Arc<ControllerConfig>,
    memo: Memo,
}

impl Snapshot {
    /// Creates a snapshot. The index must have been listed completely, because an object that is
    /// not in it counts as missing.
    pub(crate) fn new(index: Index, config: Arc<ControllerConfig>) -> Self {
        Self { index, config, memo: Memo::default() }
    }

    /// Computes the warnings about an object as if it were applied, each with its field.
    pub(crate) fn review(mut self, mut object: Object) -> Vec<FieldError> {
        let exists = self.index.object(&object.meta.key).is_some();
        if object.meta.created.is_none() && !exists {
            object.meta.created = Some(YOUNGEST);
        }
        let object = Arc::new(object);
        let bound = self.bound_only_by(&object.meta.key);
        let edit = RouteEdit::new(&self.index, &self.config, &object);
        let other = PolicyEdit::new(&self.index, &self.config, &object);
        let changes = vec![Change::Apply(object.clone())];
        self.index.apply(&Batch { changes, ..Batch::default() });
        let mut finder = Finder::new(&self.index, &mut self.memo, &self.config, MAX_EXAMINED);
        let relevant = |finding: &Finding| match finding.kind {
            // Beside which proxies a policy is for is not known here, and the status says it.
            FindingKind::PrecedenceDiffers => false,
            // The user may not be allowed to read that namespace, and could guess what is in it.
            FindingKind::ForeignClientMissing | FindingKind::NeverReachedElsewhere => false,
            // The object that refers to it may come after it.
            FindingKind::Unused | FindingKind::UnusedOffered | FindingKind::UnusedGrant => false,
            // What delegates to its target may come after it.
            FindingKind::NotServed => false,
            // The policies of a new Server may come after it.
            FindingKind::GrantsNobody { .. } => exists,
            // Reported when the object is deleted, or names its Server no longer.
            FindingKind::OnlyRoute => false,
            // Of what is read as a whole.
            FindingKind::TakesAway => false,
            FindingKind::Dangling(_)
            | FindingKind::Ineffective(_)
            | FindingKind::Remark
            | FindingKind::Overlaps
            | FindingKind::SelectsNothing
            | FindingKind::PortName
            | FindingKind::PortNumber
            | FindingKind::ServicePort
            | FindingKind::Displaced
            | FindingKind::DisplacedInPart
            | FindingKind::NeverReached
            | FindingKind::ClientMissing
            | FindingKind::ForeignIdentity
            | FindingKind::GrantsEvery
            | FindingKind::TrustsRoutes
            | FindingKind::LargePort => true,
        };
        let mut found: Vec<Finding> = finder.of(&object).into_iter().filter(relevant).collect();
        found.extend(finder.leaves(&object.meta.key, &bound));
        if object.meta.key.kind != Kind::Server {
            found.extend(finder.large_ports(&object.meta.key));
        }
        let found = found.into_iter().map(FieldError::from);
        let widened = edit.and_then(|edit| edit.widened(&self.index, &mut self.memo, &self.config));
        let other = other.and_then(|it| it.widened(&self.index, &mut self.memo, &self.config));
        found.chain(widened).chain(other).collect()
    }

    /// The Servers that nothing else binds to routes than an object as it is stored, if it is.
    fn bound_only_by(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let Some(stored) = self.index.object(key) else { return Vec::new() };
        // What is computed here does not hold for the index that has the new object.
        let mut memo = Memo::default();
        let mut finder = Finder::new(&self.index, &mut memo, &self.config, MAX_EXAMINED);
        finder.bound_only_by(stored)
    }

    /// Findings that hold without the object, and may surprise the user who deletes it.
    pub(crate) fn review_deletion(mut self, object: Object) -> Vec<FieldError> {
        let object = Arc::new(object);
        // It is stored, whether or not the index has heard of it.
        let changes = vec![Change::Apply(object.clone())];
        self.index.apply(&Batch { changes, ..Batch::default() });
        let mut finder = Finder::new(&self.index, &mut self.memo, &self.config, MAX_EXAMINED);
        let mut found = finder.only_route(&object);
        found.extend(finder.leaves_trees(&object));
        found.into_iter().map(FieldError::from).collect()
    }
}

#[cfg(test)]
mod tests;
