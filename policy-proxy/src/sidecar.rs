//! The sidecar: accepts connections to the workload's ports and forwards what policy permits.
//!
//! A connection lives like this: accept, find out where it was going ([`accept`]), look for a
//! ClientHello ([`tls`]), look for HTTP ([`detect`]), then either carry requests ([`http`]) or bytes
//! ([`opaque`]). One that was going to the sidecar's own port says where it wants to go ([`direct`]) and
//! is carried like the others. Everything that belongs to one worker stays on its thread.

mod accept;
mod accepted;
mod body;
mod bounds;
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
mod http;
mod http1;
mod http2;
mod inflight;
mod io;
mod listen;
mod opaque;
mod permits;
mod response;
mod serve;
mod settings;
mod tls;
mod tunnel;
mod upload;
mod upstream;
mod worker;

pub use bounds::{Limits, Sockets, Timeouts};
pub use handle::Sidecar;
pub use listen::StartError;
pub use settings::{ClientAddress, Listener, SidecarConfig, Target};
