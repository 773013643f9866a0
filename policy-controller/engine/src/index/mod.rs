//! What there is: objects by kind and namespace, and who names whom.

mod definition;
mod kind_set;
mod table;
mod topic;

pub(crate) use definition::{Index, Touched};
pub(crate) use kind_set::KindSet;
pub(crate) use topic::{Edge, Topic, authorized_servers, parents};
