//! Streams whose clients are not sent all parts of a policy.

use super::omissions::Omissions;
use super::record::AckRegistry;
use std::sync::Arc;

/// Counts one stream with omissions for as long as it lives.
#[derive(Debug)]
pub(crate) struct OmissionGuard {
    applied: AckRegistry,
    omissions: Arc<Omissions>,
}

impl AckRegistry {
    /// Counts one more stream with these omissions.
    pub(crate) fn omit(&self, omissions: &Arc<Omissions>) -> OmissionGuard {
        self.add_omissions(omissions);
        OmissionGuard { applied: self.clone(), omissions: omissions.clone() }
    }
}

impl OmissionGuard {
    /// Replaces the omissions of a stream. Equal omissions are left as they are.
    pub(crate) fn replace(
        before: &mut Option<Self>,
        applied: &AckRegistry,
        omissions: Option<&Arc<Omissions>>,
    ) {
        if before.as_ref().map(|watching| &watching.omissions) != omissions {
            // The new one first: common omissions are never counted as zero in between.
            let now = omissions.map(|omissions| applied.omit(omissions));
            *before = now;
        }
    }
}

impl Drop for OmissionGuard {
    fn drop(&mut self) {
        self.applied.remove_omissions(&self.omissions);
    }
}
