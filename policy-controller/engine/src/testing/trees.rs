//! Random worlds of InboundRoutes, and what must hold of each: the promises of
//! docs/spec/delegation.md, written against paths and objects and not against the engine.

mod oracle;
mod properties;
mod render;
mod world;

pub use oracle::{Claim, Fewer, claims, may_answer, without_a_holder, without_idle_roots};
pub use properties::{
    Permitted, check, claims_are_those_of_the_objects, contained, less_is_the_rest, permitted,
    routes_leave_hosts_to_their_owners,
};
pub use world::{ANSWERED_HOSTS, HOSTS, NAMESPACES, PATHS, SERVERS, World};
