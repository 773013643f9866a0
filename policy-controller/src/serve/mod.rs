//! Serves policies over gRPC: Linkerd's `InboundServerPolicies` and our `PolicyDiscovery`, beside
//! `grpc.health.v1`. The contract for clients is `docs/watch-api.md`.

mod codec;
mod config;
mod listener;
mod metrics;
mod peer;
pub mod token;

pub use config::ServeConfig;
pub use metrics::ServeMetrics;
