//! What clients have in force, as their acknowledgements say.

mod feed;
mod followers;
mod record;

pub use feed::Feed;
pub use followers::{InForce, PortAt};
pub use record::{Applied, AppliedPort, Counts, Refused};
