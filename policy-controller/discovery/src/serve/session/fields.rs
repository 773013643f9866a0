//! Reading the fields of a client's messages.

use policy_core::Revision;
use policy_proto::messages::Revision as WireRevision;
use policy_proto::native::decode_revision;
use std::num::NonZeroU16;
use tonic::Status;

/// Most characters of a client's text that are kept or logged.
const MAX_WORDS: usize = 300;

/// A port number, or which field holds none.
pub(super) fn port_number(field: &str, port: u32) -> Result<NonZeroU16, Status> {
    u16::try_from(port).ok().and_then(NonZeroU16::new).ok_or_else(|| {
        Status::invalid_argument(format!("{field}: `{port}` is not from 1 to 65535"))
    })
}

/// A revision, or which field lacks one.
pub(super) fn revision(field: &str, revision: Option<&WireRevision>) -> Result<Revision, Status> {
    match revision {
        Some(revision) => decode_revision(revision)
            .map_err(|error| Status::invalid_argument(format!("{field}.{error}"))),
        None => Err(Status::invalid_argument(format!("{field}: must be set"))),
    }
}

/// Truncates a client's text.
pub(super) fn shortened(words: &str) -> String {
    words.chars().take(MAX_WORDS).collect()
}
