//! The native service's messages: full states, changes, facts, revisions.
//!
//! The server keeps an [`EncodedPort`] per policy and feature set, and sends [`EncodedPort::full`] or
//! the [`diff`] of two. The client applies either to a [`PortState`]. Destinations of outbound
//! connections are in [`destination`].

pub mod destination;
mod downgrade;
mod facts;
mod header;
mod interner;
mod message_reader;
mod port;
mod read;
mod read_route;
mod revision;
mod state;
pub mod stream_decoder;
mod update;
mod write;
mod write_route;

pub(crate) use read::{bounded, duration as read_duration, header_name, header_value};
pub(crate) use read::{method, pattern, prefix};
pub(crate) use write::duration as write_duration;

pub use facts::{decode_facts, decode_features, encode_facts, encode_features};
pub use port::{EncodedPort, diff, encode_port};
pub use revision::{decode_revision, encode_revision};
pub use state::{Applied, ApplyError, PortState};
pub use update::Update;
