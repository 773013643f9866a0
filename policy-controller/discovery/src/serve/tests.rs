//! The policy server against real clients over loopback, with a stand-in for the index.
#![allow(clippy::arithmetic_side_effects, reason = "test times are small")]

mod answers;
mod authz;
mod compat;
mod connection;
mod destinations;
mod forward;
mod linkerd_discovery;
mod native;
mod report;
mod reported;
mod tokens;
