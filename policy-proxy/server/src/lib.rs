//! Building blocks of every listening process of the project: TLS with credentials that change,
//! listening ports that divide their room among clients, fair scheduling, quotas of peers, reviews
//! of bearer tokens, readiness, default gateways, and metrics of the process itself.

mod accept;
mod allowance;
mod capacity;
mod client_group;
mod client_network;
mod core_dumps;
mod fair_scheduler;
mod gateways;
mod http2;
mod limit;
mod listener;
pub mod log;
pub mod names;
mod process;
mod readiness;
pub mod review;
mod tls;
mod tls_metrics;
mod unread_copies;

pub use accept::after_accept_error;
pub use allowance::{Allowance, AllowancePermit, Peer};
pub use capacity::{
    CapacityBounds, CapacityExceeded, RevocationOrder, Share, SharedCapacity, UseGuard, WorkGuard,
};
pub use client_group::ClientGroup;
pub use client_network::ClientNetwork;
pub use core_dumps::forbid_core_dumps;
pub use fair_scheduler::{FairScheduler, SchedulerPermit};
pub use gateways::DefaultGateways;
pub use http2::{Http2Connection, Http2Error, Http2Settings, RequestBody, head_bytes};
pub use limit::{Limit, Limiter, Rate};
pub use listener::{
    Accepted, ConnectionEnd, ConnectionRefusal, ConnectionService, CurrentTls, HandshakeTurns,
    Listener, ListenerSettings, ListenerStream, Transport,
};
pub use process::ProcessMetrics;
pub use readiness::{Readiness, Requirement};
pub use tls::{TlsError, TlsFiles, TlsHandle};
pub use tls_metrics::TlsMetrics;
pub use unread_copies::UnreadCopies;
