//! What there is: objects by kind and namespace, and who names whom.

mod definition;
mod table;
mod topic;

pub(crate) use definition::{Index, Touched};
pub(crate) use topic::{Edge, KindSet, Topic, authorized_servers, parents};
