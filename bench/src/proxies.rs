//! The proxies: ours, and the peers it is measured beside, each set up as its documentation
//! recommends for so many workers, all on loopback and without redirection.

mod envoy;
mod haproxy;
mod nginx;
mod portcullis;
mod ports;
mod programs;
mod proxy;
mod setup;
mod start;

pub use portcullis::metric;
pub use ports::{Ports, free};
pub use programs::{Kind, Programs, shipped};
pub use proxy::Proxy;
pub use setup::{Application, Setup, Side, Upstreams};
