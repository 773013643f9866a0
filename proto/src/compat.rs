//! Linkerd's messages: one port of one workload, whole; and what a client's destination stands for.
//!
//! [`encode`] expresses as much of a policy as those messages can, and never more than the policy
//! permits: a part that a Linkerd proxy could not enforce is omitted if that permits less, else the
//! route or the port is denied. [`decode`] reads the messages of a Linkerd controller and keeps
//! their meaning: the Server's grants count on every route.
//!
//! [`profile`], [`updates`] and [`outbound_policy`] say what a client's proxy does with a connection
//! to a [`Destination`](policy_core::destination::Destination). An endpoint that is in the mesh is
//! never one that such a client would reach in plaintext.

mod capitals;
mod deny_all;
mod destination;
mod destination_path;
mod destination_updates;
mod encode;
mod exemption;
mod filter;
mod grant;
mod guard;
mod match_order;
mod meta;
mod network;
mod options;
mod outbound_policy;
mod read;
mod read_grant;
mod read_route;
mod route;
mod route_kind;
mod table;
mod tree;

pub use destination::{is_opaque, profile};
pub use destination_path::{ContextToken, PathError, PathTarget, parse_path, read_target};
pub use destination_updates::updates;
pub use encode::{Encoded, encode, server_ips};
pub use options::EncodeOptions;
pub use outbound_policy::outbound_policy;
pub use read::{decode, decode_facts};
pub use tree::{MAX_TREE_MATCHES, tree_matches};
