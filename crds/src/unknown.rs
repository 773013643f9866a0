//! Fields that no schema of their kind has: the nearest field that one has, and what the object loses
//! with them.
//!
//! An API server prunes them, or refuses the object if it validates strictly. In a manifest they are
//! still there, and mostly misspelt. A field that is near none may be of a later
//! version of its API, and no decision depends on it; a route of a file with one that is near is invalid.

mod field;
mod gateway;
mod loss;
mod schema;

pub use crate::field::{join_index, join_key};
pub use field::{StatedFields, UnknownField};
pub(crate) use gateway::{UNUSED_IN_RULES, UNUSED_IN_SPEC};
pub use schema::{unknown_fields, unused_fields};
