//! Route delegation and host ownership: InboundRoutes and the RouteAdmissionPolicy
//! (docs/spec/delegation.md).
//!
//! A root claims paths of its hosts. [`claims`] decides from scratch, for a host and all hosts that
//! overlap with it, which claim is active. [`tree`] walks from a root along the delegations that are
//! permitted, consented to and contained ([`child`]). [`on_server`] makes the routes of a Server of
//! the trees of all hosts that objects of its namespace name. Nothing of a tree is kept between two
//! answers, so that no order of events can leave anything behind.

mod admission;
mod child;
mod claims;
pub(crate) mod condition;
mod on_server;
mod serving;
mod state;
mod tree;

pub(crate) use admission::EFFECTIVE;
pub(crate) use child::consents_to;
pub(crate) use condition::{is_decided, lost_hosts, served_by, served_through};
pub(crate) use on_server::met;
pub(crate) use tree::is_child;
