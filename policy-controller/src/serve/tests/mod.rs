//! The policy server against real clients over loopback, with a stand-in for the index.
#![allow(clippy::arithmetic_side_effects, reason = "test times are small")]

mod access;
mod answers;
mod client;
mod compat;
mod connection;
mod forward;
mod guarded;
mod mesh;
mod native;
mod report;
mod tokens;
