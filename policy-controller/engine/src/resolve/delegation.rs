//! Route delegation and host ownership: InboundRoutes and the RouteAdmissionPolicy
//! (docs/spec/delegation.md).
//!
//! A root claims paths of its hosts ([`claims`]). [`ownership`] decides from scratch, for each host,
//! which claim is active. [`tree`] walks from a root along the delegations that are permitted,
//! consented to and contained ([`child`]), without what others keep ([`kept`]); the tree of an invalid
//! root denies what it keeps ([`closed`]). [`on_server`] makes the routes of a Server of the trees of all
//! hosts that objects of its namespace name ([`server_hosts`]), and of what each has on them
//! ([`paths`]). Nothing of a tree is kept between two answers, so that no order of events can leave
//! anything behind.
//!
//! An event costs what it touches: a question that is about many objects, such as who owns a
//! wildcard, is one query with a small answer. What depends on it is computed again only if the answer
//! differs.

mod admission;
mod child;
mod claims;
mod closed;
pub(crate) mod condition;
mod kept;
mod on_server;
mod ownership;
mod paths;
mod selection;
mod server_hosts;
mod serving;
mod state;
mod tree;

pub(crate) use admission::EFFECTIVE;
pub(crate) use child::{consents_to, inbound_parents};
pub(crate) use condition::{is_decided, lost_hosts, served_by, served_through};
pub(crate) use tree::is_child;
