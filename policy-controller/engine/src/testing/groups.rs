//! Random worlds of groups of routes, bindings, classes and policies on them, and what must become of each
//! request: the promises of docs/spec/requests.md, written on the text of paths. Nothing here uses what the
//! engine or the evaluator make of paths.

mod oracle;
mod properties;
mod render;
mod requests;
mod world;

pub use oracle::{Answer, Bounds, answer, path_matches};
pub use properties::{Found, agrees, found, narrower, slower};
pub use requests::Request;
pub use world::World;
