//! The policies that clients have in force, by their acknowledgements, and the parts they are not
//! sent.

mod feed;
mod followers;
mod omission_guard;
mod omissions;
mod record;
mod too_large;

pub use feed::Feed;
pub use followers::{InForce, WorkloadPort};
pub use record::{AckRegistry, AppliedPort, Counts, Rejection};

pub(crate) use omission_guard::OmissionGuard;
pub(crate) use omissions::Omissions;
pub(crate) use too_large::{TooLarge, cut};
