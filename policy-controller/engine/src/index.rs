//! The index: objects by kind and namespace, and the references between them.

mod awaited;
mod definition;
mod expressions;
mod input;
mod kept;
mod table;

pub(crate) use definition::{Index, Touched};
pub(crate) use input::{Edge, Input, KindSet, authorized_servers, parents};
