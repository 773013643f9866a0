//! The index: objects by kind and namespace, and the references between them.

mod definition;
mod input;
mod table;

pub(crate) use definition::{Index, Touched};
pub(crate) use input::{Edge, Input, KindSet, authorized_servers, parents};
