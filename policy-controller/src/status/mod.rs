//! What every object is told in its `status`: written by the leader alone, only where it differs.

mod programmed;
mod stated;

pub use programmed::{Programmed, ProgrammedTable};
pub use stated::{Stated, StatedTable};
