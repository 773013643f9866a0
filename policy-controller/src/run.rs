//! Starts a whole controller: source, index, gRPC server; in a process of its own ([`run`]) or
//! inside another ([`start_embedded`]).
//!
//! The process has three threads that matter. `index` owns the index, so that compiling holds up no
//! stream; `policy` serves the gRPC port, so that a herd of proxies holds up nothing that has a
//! deadline: webhooks, probes and the Lease, which the main thread has. A source other than a directory
//! is one more arm of [`run`].

mod admin_port;
mod cluster_tasks;
mod embedded;
mod error;
mod freshness;
mod identity;
mod index;
mod issuer;
mod kept;
mod logging;
mod ports;
mod program;
mod serving;
mod signals;
mod supervisor;
mod thread;

pub use embedded::{Embedded, start_embedded};
pub use error::RunError;
pub use issuer::issuer;
pub use program::{main, run};
