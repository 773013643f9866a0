//! The process's limit of open file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit. The default soft limit is 1,024, for programs that use
/// `select`; a connection takes two descriptors, so that 500 idle connections of one client would
/// lock all others out.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => {
            tracing::debug!(from = ?current, to = ?maximum, "raised the limit of open file descriptors")
        }
        Err(error) => {
            tracing::warn!(?current, ?maximum, %error, "cannot raise the limit of open file descriptors");
        }
    }
}
