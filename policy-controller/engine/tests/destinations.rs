//! What addresses and ports lead to: whole answers to what clients dial.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test"
)]

#[path = "destinations/addresses.rs"]
mod addresses;
#[path = "destinations/events.rs"]
mod events;
#[path = "destinations/handle.rs"]
mod handle;
#[path = "destinations/kube_proxy.rs"]
mod kube_proxy;
#[path = "destinations/meshed.rs"]
mod meshed;
#[path = "destinations/services.rs"]
mod services;
#[path = "destinations/world.rs"]
mod world;
