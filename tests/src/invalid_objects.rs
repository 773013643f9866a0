//! Valid objects that are changed at one node, for tests of what an invalid object permits.

mod mutation;
mod random;
mod world;

pub use mutation::{Mutation, mutate};
pub use random::Random;
pub use world::{World, is_invalid, worlds};
