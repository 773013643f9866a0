//! What clients have in force, as their acknowledgements say, and what they are not sent.

mod feed;
mod followers;
mod lacks;
mod record;
mod watching;

pub use feed::Feed;
pub use followers::{InForce, PortAt};
pub use record::{Applied, AppliedPort, Counts, Refused};

pub(crate) use lacks::Lacks;
pub(crate) use watching::Watching;
