//! HTTP/1.1 as it is on the wire (RFC 9112), without any I/O of its own but [`client`], which asks one
//! server over whatever stream it is given.

mod ask;
pub mod client;
pub(crate) mod date;
pub mod decode;
pub mod encode;
mod heads;
mod line;
mod maps;
pub mod out;
pub mod reply;
pub mod request;
pub mod response;
pub mod scratch;
