//! What there is: objects by kind and namespace, and who names whom.

mod definition;
mod edge;
mod kind_set;
mod links;
mod table;
mod topic;

pub(crate) use definition::{Index, Touched};
pub(crate) use edge::{Edge, authorized_servers, parents};
pub(crate) use kind_set::KindSet;
pub(crate) use topic::Topic;
