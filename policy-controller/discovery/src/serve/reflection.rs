//! gRPC's server reflection: what is served here, and how its messages look, for tools and generic
//! clients.

mod descriptors;
mod service;

pub(super) use service::{Reflection, ReflectionService};
