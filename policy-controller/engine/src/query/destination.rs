//! What an address and port lead to, and the answers that it is made from.

use crate::publish::destination::DestinationQuestion;

/// The answer to a question about a destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DestinationOf(pub(crate) DestinationQuestion);
