//! Statuses that another client has changed.

use policy_crds::ObjectKey;

/// The statuses that another client has changed and this one restores. A warning is logged once,
/// because two installations with one controller name would overwrite each other for ever.
#[derive(Debug, Default)]
pub(crate) struct Overwritten {
    count: u64,
    is_reported: bool,
}

impl Overwritten {
    /// Notes one of them.
    pub(super) fn note(&mut self, key: &ObjectKey, controller: &str) {
        self.count = self.count.saturating_add(1);
        if !std::mem::replace(&mut self.is_reported, true) {
            tracing::warn!(
                object = %key,
                controller,
                "conditions of this controller were overwritten by another client: is there another \
                 installation with this controller name?"
            );
        }
    }

    /// Takes the number of those since the last call.
    pub(crate) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }
}
