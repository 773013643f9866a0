//! Building blocks of every listening process of the project: TLS with credentials that change,
//! permits and fair scheduling of connections, quotas of peers, reviews of bearer tokens,
//! readiness, default gateways, and metrics of the process itself.

mod accept;
mod allowance;
mod client_network;
mod connection_permits;
mod fair_scheduler;
mod gateways;
mod limit;
pub mod log;
pub mod names;
mod process;
mod readiness;
pub mod review;
mod tls;
mod tls_metrics;

pub use accept::after_accept_error;
pub use allowance::{Allowance, AllowancePermit, Peer};
pub use client_network::ClientNetwork;
pub use connection_permits::ConnectionPermits;
pub use fair_scheduler::{FairScheduler, SchedulerPermit};
pub use gateways::DefaultGateways;
pub use limit::{Limit, Limiter, Rate};
pub use process::ProcessMetrics;
pub use readiness::{Readiness, Requirement};
pub use tls::{TlsConnection, TlsError, TlsFiles, TlsHandle};
pub use tls_metrics::TlsMetrics;
