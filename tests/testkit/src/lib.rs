//! Support for the tests of several crates: waiting, free ports, certificates, HTTP clients, Python and
//! Node.js with gRPC, tests that are skipped, and the endpoints that kube-proxy chooses.
//!
//! Nothing here knows what is tested, so that every crate's tests can have it. What cannot go on
//! panics, which ends the test.

mod authority;
mod client;
pub mod endpoints;
mod long;
mod packages;
mod ports;
mod skip;
mod wait;

pub use authority::{Authority, Leaf, dns, lasting, leaf_params, self_signed, uri};
pub use client::{Answer, http1_client, http2_client};
pub use long::long_or;
pub use packages::{node_modules, python};
pub use ports::free_port;
pub use skip::{in_ci, say, skip};
pub use wait::{PATIENCE, soon, wait_for, wait_until, wait_until_blocking, wait_within};
