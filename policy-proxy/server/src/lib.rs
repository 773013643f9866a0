//! Parts that every listening process of the project shares: TLS with credentials that change, room for
//! connections and what one peer may hold, whom a bearer token stands for, whether the process is ready,
//! and the metrics of the process itself.

mod accept;
mod allowance;
pub mod log;
mod metric_names;
pub mod names;
mod process;
mod readiness;
pub mod review;
mod room;
mod tls;
mod tls_metrics;

pub use accept::after_accept_error;
pub use allowance::{Allowance, Held, Peer};
pub use process::ProcessMetrics;
pub use readiness::{Readiness, Requirement};
pub use room::Room;
pub use tls::{Arrived, TlsError, TlsFiles, TlsHandle, Vouched};
pub use tls_metrics::TlsMetrics;
