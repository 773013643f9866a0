//! Linkerd's messages: one port of one workload, whole.
//!
//! [`encode`] expresses as much of a policy as those messages can, and never more than the policy
//! permits: a part that a Linkerd proxy could not enforce is omitted if that permits less, else the
//! route or the port is denied. [`decode`] reads the messages of a Linkerd controller and keeps
//! their meaning: the Server's grants count on every route.

mod capitals;
mod deny_all;
mod encode;
mod exemption;
mod filter;
mod grant;
mod guard;
mod match_order;
mod meta;
mod network;
mod options;
mod read;
mod read_grant;
mod read_route;
mod route;
mod route_kind;
mod table;
mod tree;

pub use encode::{Encoded, encode, server_ips};
pub use options::EncodeOptions;
pub use read::{decode, decode_facts};
