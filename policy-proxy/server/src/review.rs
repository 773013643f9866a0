//! Whom a bearer token stands for and what its subject may see: the question, the parts of a token, and
//! bounds on asking. Who answers is elsewhere.

mod cached;
mod definition;
pub mod jwt;

pub use cached::CachedReviewer;
pub use definition::{Authenticated, ReviewError, Reviewer, Subject};
