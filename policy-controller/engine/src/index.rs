//! What there is: objects by kind and namespace, and who names whom.

mod definition;
mod input;
mod table;

pub(crate) use definition::{Index, Touched};
pub(crate) use input::{Edge, Input, KindSet, authorized_servers, parents};
