//! The product as its users have it: the chart installed on a real node, namespaces annotated, real
//! pods with real sidecars, and clients in pods, on the node, on another node and outside the cluster.

mod annotations;
mod apart;
mod asked;
mod away;
mod chaos;
mod clients;
mod default_deny;
mod delegation;
mod emojivoto;
mod expected;
mod flip;
mod identities;
mod lost;
mod metrics;
mod modes;
mod namespaces;
mod outbound;
mod ports;
mod protocols;
mod removal;
mod rotation;
mod stale;
mod ways;
mod why;
mod workloads;
mod world;
