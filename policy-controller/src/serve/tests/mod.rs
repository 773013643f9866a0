//! The policy server against real clients over loopback, with a stand-in for the index.

mod access;
mod answers;
mod client;
mod compat;
mod connection;
mod guarded;
mod mesh;
mod native;
mod report;
mod tokens;
