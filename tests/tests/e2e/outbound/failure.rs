//! The failure matrix of docs/operations.md: who is away, and what becomes of new pods, new connections
//! and open ones, while pods call without a pause.
//!
//! A receiver here admits whoever has an identity and nobody else, so that an answer of 200 was asked
//! for in mesh TLS, and a connection in plaintext would be answered with 403.

mod caller;
mod control_plane;
mod names;
mod unreachable;

use caller::{Caller, Calls};
