//! What the objects mean together: pure functions of a key, remembered with what they read.
//!
//! Each question is a type of its own, declared in `query`, with the order of answering: which Server
//! owns each port of a workload shape ([`owner`]), the members of an authentication and who a policy
//! grants to ([`grant`]), which routes a Server has ([`route`]),
//! where Linkerd would order them otherwise ([`precedence`]), its rate limit ([`rate_limit`]), what is particular to a workload ([`workload`]), what each
//! object is told about itself ([`condition`]), and the Servers through which it takes effect ([`host`]). A reference into another namespace is followed by
//! [`follow`] and nothing else.

pub(crate) mod condition;
pub(crate) mod follow;
pub(crate) mod grant;
pub(crate) mod host;
pub(crate) mod owner;
pub(crate) mod precedence;
pub(crate) mod rate_limit;
pub(crate) mod route;
pub(crate) mod workload;
