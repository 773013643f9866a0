//! Findings about objects: references to nothing, Servers that select nothing or are displaced,
//! matches that are never reached and routes of groups that match nothing, clients that do not exist, identities of other meshes, unused
//! authentications and ReferenceGrants, shadowed rules of InboundRoutes and policies that no Server
//! answers for, grants that permit much, Servers on which nothing is granted,
//! the only route of one, and what leaves the trees with an object.
//!
//! Admission computes them for an object before it is stored, the command line for all objects that
//! it reads. Broken rules of a kind are no findings: the parser reports them.

mod clients;
mod conditions;
mod delegation;
mod finder;
mod finding;
mod grants;
mod identities;
mod large_port;
mod reference_grants;
mod requests;
mod routes;
mod server;
mod tree_deletion;
mod unused;

pub(crate) use finder::Finder;
pub use finding::{Finding, FindingKind};
