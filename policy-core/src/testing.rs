//! Policies, connections and hostile requests for tests: builders and property-test strategies.
//!
//! The strategies draw from small alphabets, so that predicates and requests often match and near
//! misses are common.

pub mod benchmark;
mod builders;
mod effects;
mod owned;
pub mod replay;
mod strategies;

pub use builders::{default_policy, grant, identity, network, object, policy, route, set};
pub use effects::{any_policy_with_effects, any_rewrite, any_timeouts, refusal};
pub use owned::{OwnedConnection, OwnedRequest, OwnedTls};
pub use strategies::{any_client, any_policy, any_request};
