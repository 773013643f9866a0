//! What an object would be told, were it applied: asked of a copy of the index, away from the task
//! that owns it.

use crate::config::ControllerConfig;
use crate::findings::{Finder, Finding, FindingKind};
use crate::incremental::Memo;
use crate::index::Index;
use crate::query::workload::EXAMINED;
use crate::source::{Batch, Change};
use policy_crds::{FieldError, Object};
use std::sync::Arc;

/// An object that does not exist yet is younger than every other.
const YOUNGEST: i64 = i64::MAX;

/// A copy of the index, to be asked what a change would mean.
pub struct Snapshot {
    index: Index,
    config: Arc<ControllerConfig>,
    memo: Memo,
}

impl Snapshot {
    /// The index must have been listed completely: what is missing from it is missing.
    pub(crate) fn new(index: Index, config: Arc<ControllerConfig>) -> Self {
        Self { index, config, memo: Memo::default() }
    }

    /// Finds what the object would lack, were it applied: each with the field it is about.
    pub(crate) fn review(mut self, mut object: Object) -> Vec<FieldError> {
        let exists = self.index.object(&object.meta.key).is_some();
        if object.meta.created.is_none() && !exists {
            object.meta.created = Some(YOUNGEST);
        }
        let object = Arc::new(object);
        let changes = vec![Change::Apply(object.clone())];
        self.index.apply(&Batch { changes, ..Batch::default() });
        let mut finder = Finder::new(&self.index, &mut self.memo, &self.config, EXAMINED);
        let relevant = |finding: &Finding| match finding.kind {
            // Beside which proxies a policy is for is not known here, and the status says it.
            FindingKind::PrecedenceDiffers => false,
            // Whoever applies an object may not look into every namespace.
            FindingKind::ForeignClientMissing => false,
            // Its policy may come after it.
            FindingKind::Unused | FindingKind::UnusedOffered => false,
            // The policies of a new Server may come after it.
            FindingKind::GrantsNobody { .. } => exists,
            // It is told to whoever deletes it.
            FindingKind::OnlyRoute => false,
            FindingKind::Dangling(_)
            | FindingKind::Ineffective(_)
            | FindingKind::Remark
            | FindingKind::SelectsNothing
            | FindingKind::PortName
            | FindingKind::PortNumber
            | FindingKind::Displaced
            | FindingKind::DisplacedInPart
            | FindingKind::NeverReached
            | FindingKind::ClientMissing
            | FindingKind::ForeignIdentity => true,
        };
        finder.of(&object).into_iter().filter(relevant).map(FieldError::from).collect()
    }

    /// Finds what holds without the object, and may surprise whoever deletes it.
    pub(crate) fn review_deletion(mut self, object: Object) -> Vec<FieldError> {
        let object = Arc::new(object);
        // It is stored, whether or not the index has heard of it.
        let changes = vec![Change::Apply(object.clone())];
        self.index.apply(&Batch { changes, ..Batch::default() });
        let mut finder = Finder::new(&self.index, &mut self.memo, &self.config, EXAMINED);
        finder.only_route(&object).into_iter().map(FieldError::from).collect()
    }
}

#[cfg(test)]
mod tests;
