//! HTTP/1.1 as it is on the wire (RFC 9112), without any I/O of its own but [`client`], which asks one
//! server over whatever stream it is given.

pub mod client;
pub(crate) mod date;
pub mod decode;
pub mod encode;
mod head_arena;
mod header_pool;
mod line;
pub mod read_buf;
pub mod request_decode;
mod request_encode;
pub mod response_decode;
pub mod response_encode;
pub mod write_buf;
