//! Route delegation and host ownership: InboundRoutes and the RouteAdmissionPolicy
//! (docs/spec/delegation.md).
//!
//! A root claims paths of its hosts ([`claims`]), none of which is a name of others' Services
//! ([`service_names`]). [`ownership`] decides from scratch, for each host,
//! which claim is active. [`tree`] walks from a root along the delegations that are permitted,
//! consented to and contained ([`child`]), without filters that the root does not allow ([`filters`])
//! and what others keep ([`kept`]); the tree of an invalid
//! root denies what it keeps ([`closed`]), and no delegation of a root takes the room of another
//! ([`shares`]). [`on_server`] makes the routes of a Server of the trees of all
//! hosts that objects of its namespace name ([`server_hosts`]), and of what each has on them
//! ([`paths`], [`names_below`]). Routes with hostnames lose those that others claimed ([`hostnames`]) before the routes were
//! attached ([`attached`]), and wildcards below which too many are claimed ([`crowded`]). Nothing of a tree is kept between two answers, so that no order of events can leave
//! anything behind.
//!
//! An event costs what it touches: a question that is about many objects, such as who owns a
//! wildcard, is one query with a small answer. What depends on it is computed again only if the answer
//! differs.

mod admission;
mod admitted;
mod attached;
mod child;
mod claims;
mod closed;
pub(crate) mod condition;
mod consent;
mod crowded;
mod filters;
mod hostnames;
mod kept;
mod names_below;
mod on_server;
mod origin;
mod ownership;
mod paths;
mod place;
mod selection;
mod server_hosts;
mod service_names;
mod serving;
mod shares;
mod state;
mod tree;

pub(crate) use admission::EFFECTIVE;
pub(crate) use condition::{served_by, served_through};
pub(crate) use consent::{consents_to, inbound_parents};
pub(crate) use hostnames::{LostHosts, is_decided, keeps_through, lost_hosts, words};
pub(crate) use origin::is_child;
