//! Revisions of policies.

use crate::error::DecodeError;
use crate::messages as m;
use policy_core::revision::Revision;

/// Encodes a revision.
pub fn encode_revision(revision: &Revision) -> m::Revision {
    let Revision { epoch, content, versions } = revision;
    m::Revision {
        epoch: epoch.to_string(),
        content: *content,
        versions: versions.iter().map(|(kind, version)| (kind.to_string(), *version)).collect(),
    }
}

/// Reads a revision. Cannot fail now; callers must expect that it may.
///
/// # Errors
/// None yet.
pub fn decode_revision(revision: &m::Revision) -> Result<Revision, DecodeError> {
    let m::Revision { epoch, content, versions } = revision;
    Ok(Revision {
        epoch: epoch.as_str().into(),
        content: *content,
        versions: versions.iter().map(|(kind, version)| (kind.as_str().into(), *version)).collect(),
    })
}
