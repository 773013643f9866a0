//! What bindings of groups and services give a Server (docs/spec/requests.md).
//!
//! [`describe`] finds the routes of a group, with those that it includes, and of a service ([`walk`]). [`binding`]
//! says what becomes of one binding on its Server. [`bound`] makes the routes of a Server of all its
//! bindings, with the grants and effects of policies on them and on the [`class`]es that select them.
//! [`condition`] has the conditions of all these objects.

mod binding;
mod bound;
mod class;
pub(crate) mod condition;
mod describe;
mod merge;
mod policies;
mod servers;
mod walk;

pub(crate) use binding::{is_binding, is_class, server_of};
pub(crate) use describe::own_routes;
pub(crate) use servers::servers_through;
