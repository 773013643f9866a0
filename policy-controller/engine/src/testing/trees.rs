//! Random worlds of InboundRoutes, and what must hold of each: the promises of
//! docs/spec/delegation.md, written against paths and objects and not against the engine.

mod oracle;
mod properties;
mod render;
mod world;

pub use oracle::{Claim, claims, may_answer, without_idle_roots};
pub use properties::{Permitted, check, claims_are_those_of_the_objects, contained, permitted};
pub use world::{ANSWERED_HOSTS, HOSTS, NAMESPACES, PATHS, SERVERS, World};
