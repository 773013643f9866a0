//! Reviews of bearer tokens and of their subjects' rights: the interface, the parts of a token, and
//! a cache with limits. The implementations are in other crates.

mod cached;
mod definition;
pub mod jwt;

pub use cached::CachedReviewer;
pub use definition::{Authenticated, ReviewError, Reviewer, Subject};
