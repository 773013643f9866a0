//! What listening processes of the control plane share: TLS with credentials that change, how much one
//! peer may hold open, and whether the process is ready.

mod accept;
mod allowance;
mod metric_names;
mod readiness;
mod tls;
mod tls_metrics;

pub use accept::after_accept_error;
pub use allowance::{Allowance, Held, Peer};
pub use readiness::{Readiness, Requirement};
pub use tls::{Arrived, TlsError, TlsFiles, TlsHandle};
pub use tls_metrics::TlsMetrics;
