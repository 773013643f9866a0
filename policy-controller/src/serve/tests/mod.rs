//! The policy server against real clients over loopback, with a stand-in for the index.

mod answers;
mod client;
mod compat;
mod connection;
mod native;
