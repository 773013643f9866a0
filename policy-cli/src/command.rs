//! One module per command: its arguments and its output.

pub(crate) mod authz;
pub(crate) mod check;
pub(crate) mod denied;
pub(crate) mod echo;
pub(crate) mod edges;
pub(crate) mod export;
pub(crate) mod grants;
pub(crate) mod health;
pub(crate) mod identity;
pub(crate) mod import;
pub(crate) mod inject;
pub(crate) mod preflight;
pub(crate) mod request;
pub(crate) mod routes;
pub(crate) mod status;
pub(crate) mod tap;
pub(crate) mod up;
pub(crate) mod version;
pub(crate) mod watch;
pub(crate) mod why;

use anyhow::Context;
use std::future::Future;

/// Runs `work` on a single-threaded runtime.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(work)
}
