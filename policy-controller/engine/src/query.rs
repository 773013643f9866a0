//! What can be asked about the index, and the form of each answer. Who answers is in `resolve` and
//! `compile`; what is remembered of it, in `incremental`.

pub mod condition;
pub(crate) mod effective_servers;
pub(crate) mod grant;
pub(crate) mod policy;
pub(crate) mod port_ownership;
pub(crate) mod precedence;
pub(crate) mod workload;
