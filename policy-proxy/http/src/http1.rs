//! HTTP/1.1 message syntax (RFC 9112). Only [`client`] does I/O: it sends requests to one server
//! over the stream that it is given.

pub mod client;
pub(crate) mod date;
pub mod decode;
pub mod encode;
mod head_arena;
mod header_pool;
pub mod last_after_body;
mod line;
pub mod read_buf;
pub mod request_decode;
mod request_encode;
pub mod response_decode;
pub mod response_encode;
pub mod unencoded;
pub mod write_buf;
