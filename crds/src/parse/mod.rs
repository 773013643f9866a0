//! From a JSON value to an [`Object`]: every rule of every kind, each error naming its field.

mod authorization_policy;
mod duration;
mod egress_network;
mod error;
mod external_workload;
mod header;
mod identity;
mod input;
mod label;
mod mesh_tls_authentication;
mod metadata;
mod name;
mod network;
mod network_authentication;
mod node;
mod object;
mod part;
mod path;
mod probe;
mod rate_limit;
mod reference_grant;
mod route;
mod server;
mod server_authorization;
mod target;
mod type_meta;
mod workload;

pub use error::NotAnObject;
pub use object::{parse, parse_all};
pub use part::{Part, parts};
