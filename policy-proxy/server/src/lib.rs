//! Parts that every listening process of the project shares: TLS with credentials that change, room and
//! turns for connections, what one peer may hold, whom a bearer token stands for, whether the process is
//! ready, which gateways its network has, and the metrics of the process itself.

mod accept;
mod allowance;
mod client_network;
mod gateways;
mod limit;
pub mod log;
pub mod names;
mod process;
mod readiness;
pub mod review;
mod room;
mod tls;
mod tls_metrics;
mod turns;

pub use accept::after_accept_error;
pub use allowance::{Allowance, Held, Peer};
pub use client_network::ClientNetwork;
pub use gateways::DefaultGateways;
pub use limit::{Limit, Limiter, Rate};
pub use process::ProcessMetrics;
pub use readiness::{Readiness, Requirement};
pub use room::Room;
pub use tls::{Arrived, TlsError, TlsFiles, TlsHandle};
pub use tls_metrics::TlsMetrics;
pub use turns::{Turn, Turns};
