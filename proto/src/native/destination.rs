//! Destinations: what the server says of an address and port, whole and as changes, and what a client
//! makes of it.
//!
//! An answer is one or more messages of at most [`MAX_ENDPOINTS`] endpoints. The client goes by its
//! last complete answer until the next is complete.

mod bounds;
mod read;
mod state;
mod write;

pub use bounds::MAX_ENDPOINTS;
pub use read::decode_lookup;
pub use state::DestinationState;
pub use write::{change_of_destination, encode_destination, encode_lookup};
