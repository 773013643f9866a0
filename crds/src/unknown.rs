//! Fields that no schema of their kind has: the nearest field that one has, and what the object loses
//! with them.
//!
//! An API server prunes them, or refuses the object if it validates strictly. In a manifest they are
//! still there, and mostly misspelt. No decision depends on this module: a field that it does not know
//! may be of a later version of its API.

mod field;
mod gateway;
mod loss;
mod schema;

pub use crate::field::{join_index, join_key};
pub use field::{StatedFields, UnknownField};
pub use schema::{unknown_fields, unused_fields};
