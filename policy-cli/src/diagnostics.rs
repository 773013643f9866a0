//! Shared parts of `preflight` and `health`: check results, their output, and reads of a cluster
//! that record missing permissions as unknown.

pub(crate) mod access_review;
pub(crate) mod check;
pub(crate) mod clock;
pub(crate) mod definition_owners;
pub(crate) mod definitions;
pub(crate) mod exit;
pub(crate) mod fetch;
pub(crate) mod installed_injector;
pub(crate) mod metadata;
pub(crate) mod network_policy;
pub(crate) mod outbound_policy;
pub(crate) mod pod_networks;
pub(crate) mod release;
pub(crate) mod report;
pub(crate) mod result;
pub(crate) mod security;
pub(crate) mod server;
