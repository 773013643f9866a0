//! The queries about the index, and the types of their answers. `resolve` and `compile` have their
//! functions, `incremental` memoizes them.

pub mod claims;
pub mod condition;
pub mod delegation;
pub mod delegation_state;
pub(crate) mod destination;
pub(crate) mod effective_servers;
pub(crate) mod effects;
pub(crate) mod grant;
pub(crate) mod host_paths;
pub(crate) mod hostnames;
pub(crate) mod policy;
pub(crate) mod port_ownership;
pub(crate) mod precedence;
pub mod reference;
pub(crate) mod requests;
pub(crate) mod smi;
pub(crate) mod tree_places;
pub(crate) mod workload;
