//! Whether an installation works: the control plane, what the API server asks it, certificates, rights,
//! and the pods that are to have sidecars.
//!
//! ```text
//! cluster ─read─▶ facts ─findings─▶ ready, leader, replica, … ─▶ findings
//! ```
//!
//! Only `read` and what it calls ask the cluster. Everything else is a function of what was read.

mod accounts;
mod answers;
mod authority;
mod configured;
mod expiry;
mod facts;
mod findings;
mod judged;
mod leader;
mod mounted;
mod read;
mod ready;
mod refused;
mod replica;
mod roots;
mod sidecars;
mod told;
mod versions;

pub(crate) use findings::findings;
pub(crate) use read::read;
