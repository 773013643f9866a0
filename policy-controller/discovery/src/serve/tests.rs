//! The policy server against real clients over loopback, with a stand-in for the index.
#![allow(clippy::arithmetic_side_effects, reason = "test times are small")]

mod answers;
mod authz;
mod compat;
mod connection;
mod denied;
mod destinations;
mod forward;
mod grpc_clients;
mod held;
mod linkerd_discovery;
mod native;
mod reflection;
mod report;
mod reported;
mod tokens;
mod too_large;
