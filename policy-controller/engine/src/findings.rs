//! The lacks of a set of objects: references to nothing, Servers that select nothing or are displaced,
//! matches that are never reached, clients that do not exist, identities of other meshes, authentications
//! without a user, Servers on which nothing is granted, and the only route of one.
//!
//! Admission asks this of an object before it is stored, the command line of all objects that it
//! reads. What breaks a rule of its kind is no finding: the parser says so.

mod clients;
mod conditions;
mod finder;
mod finding;
mod grants;
mod identities;
mod routes;
mod server;
mod unused;

pub(crate) use finder::Finder;
pub use finding::{Finding, FindingKind};
