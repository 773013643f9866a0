//! What bindings of groups and services give a Server (docs/spec/requests.md).
//!
//! [`describe`] finds the routes of a service, and those of a group with all that it includes
//! ([`walk`]), each made of a [`part`] of what is written. [`binding`] says what becomes of one binding on its Server,
//! for which its namespace has [`room`]. [`bound`] makes the routes of
//! a Server of all its bindings: routes with one match are [`merge`]d, with the grants and effects of
//! the [`policies`] on their bindings and on the [`class`]es that select them. [`condition`] has the
//! conditions of all these objects, [`servers`] the Servers through which they take effect.

mod binding;
mod bound;
mod class;
pub(crate) mod condition;
mod describe;
mod merge;
mod part;
mod policies;
mod room;
mod servers;
mod walk;

pub(crate) use binding::{is_binding, is_class, server_of};
pub(crate) use part::own_routes;
pub(crate) use servers::servers_through;
