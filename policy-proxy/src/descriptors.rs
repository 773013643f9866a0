//! The descriptors that the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes as many as the system allows. A process is started with 1,024 as a rule, for the sake of
/// programs that use `select`; a connection takes two, so that 500 idle ones of a stranger would keep
/// everybody else out.
pub(crate) fn raise_bound() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => {
            tracing::debug!(from = ?current, to = ?maximum, "raised the bound on descriptors")
        }
        Err(error) => {
            tracing::warn!(?current, ?maximum, %error, "cannot raise the bound on descriptors");
        }
    }
}
