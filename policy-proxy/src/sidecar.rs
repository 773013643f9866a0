//! The sidecar: accepts connections to the workload's ports and forwards what policy permits.
//!
//! Stages of a connection: accept it and look up its original destination ([`accept`]), detect a
//! ClientHello and terminate TLS ([`tls`]), detect HTTP ([`detect`]), then forward requests
//! ([`http`]) or bytes ([`opaque`]). A connection to the sidecar's own port names its destination
//! in a transport header ([`direct`]) and is forwarded like the others. All state of a worker stays
//! on the worker's thread.

mod accept;
mod accepted;
mod body;
mod client_body;
mod client_conn;
pub mod client_hello;
mod copy;
mod detect;
mod direct;
mod dispatch;
mod enforcer;
pub mod first_line;
mod handle;
mod head_room;
mod http;
mod http1;
mod http2;
mod inflight;
mod io;
mod limits;
mod listen;
mod opaque;
mod original_dst;
mod outbound;
mod permits;
mod places;
mod reset;
mod response;
mod response_end;
mod serve;
mod server_first;
mod settings;
mod tls;
mod tunnel;
mod upload;
mod upstream;
mod worker;

pub use handle::Sidecar;
pub use limits::{Limits, SocketOptions, Timeouts};
pub use listen::StartError;
pub(crate) use listen::available;
pub(crate) use settings::notices;
pub use settings::{ClientAddress, Listener, SidecarConfig, Target};
