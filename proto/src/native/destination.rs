//! Destinations: what the server says of an address and port, whole and as changes, and what a client
//! makes of it.
//!
//! An answer is one or more messages of at most [`MAX_ENDPOINTS`] endpoints. The client goes by its
//! last complete answer until the next is complete.

mod read;
mod state;
mod write;

pub use read::decode_lookup;
pub use state::DestinationState;
pub use write::{change_of_destination, encode_destination, encode_lookup};

/// Most endpoints in one message.
pub const MAX_ENDPOINTS: usize = 500;

/// Most endpoints of one destination that a client takes.
const MAX_ENDPOINTS_IN_ALL: usize = 100_000;
