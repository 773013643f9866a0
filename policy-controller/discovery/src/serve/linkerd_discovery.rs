//! `Destination` and `OutboundPolicies`, for clients of Linkerd's API: where their connections lead,
//! one stream per name or address.
//!
//! A client asks `OutboundPolicies` what an address stands for. If it is a Service's, the answer
//! sends it to `Destination.Get` for the endpoints; if it is not, `NOT_FOUND` sends it to the endpoint
//! in the profile (`Destination.GetProfile`), which it has asked for at the same time.
//!
//! **Invariants.** The answers depend on what is asked and on the place that the client states, never
//! on its identity. The first message comes at once and is complete. A client of a Service without
//! endpoints is told so; it is never sent elsewhere.

mod destination;
mod discovery;
mod follow;
mod outbound;
mod stream;
mod view;

pub(crate) use destination::DestinationService;
pub(crate) use discovery::Discovery;
pub(crate) use outbound::OutboundService;
