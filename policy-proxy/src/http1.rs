//! HTTP/1.1 as it is on the wire (RFC 9112), without any I/O of its own but [`client`], which asks one
//! server over whatever stream it is given.

pub(crate) mod ask;
pub(crate) mod client;
pub(crate) mod date;
pub mod decode;
pub(crate) mod encode;
mod heads;
pub(crate) mod maps;
pub(crate) mod out;
pub mod reply;
pub mod request;
pub(crate) mod response;
pub(crate) mod scratch;
