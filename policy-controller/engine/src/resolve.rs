//! Resolves what the objects mean together: pure functions of a key, memoized with their reads.
//!
//! Each query is a type of its own, declared in `query`. [`port_ownership`] finds the Server that
//! owns each port of a workload shape, [`grant`] the members of an authentication and the clients a
//! policy grants to, [`effects`] the timeouts and changes of headers of policies, [`overlaps`] the policies
//! whose order matters, [`route`] the routes of a Server, [`carried`] those that a Server cannot carry,
//! [`precedence`] the rules that Linkerd would order differently, [`rate_limit`] the rate limit of a
//! Server, [`workload`] the shape and the facts of a workload, [`delegation`] what InboundRoutes give a
//! Server, [`requests`] what bindings of groups and services give it, [`smi`] what TrafficTargets close and grant,
//! [`condition`] the conditions of
//! each object, and [`effective_servers`] the Servers
//! through which an object takes effect. [`destination`] finds what an address and port lead to.
//! [`reference`] alone follows references into other
//! namespaces.

pub(crate) mod carried;
pub(crate) mod condition;
pub(crate) mod delegation;
mod denying;
pub(crate) mod destination;
pub(crate) mod effective_servers;
pub(crate) mod effects;
pub(crate) mod grant;
pub(crate) mod overlaps;
pub(crate) mod port_ownership;
pub(crate) mod precedence;
pub(crate) mod rate_limit;
pub(crate) mod reference;
pub(crate) mod requests;
pub(crate) mod route;
pub(crate) mod smi;
pub(crate) mod workload;
