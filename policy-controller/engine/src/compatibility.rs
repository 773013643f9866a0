//! The deliberate differences from Linkerd's policy controller, and the settings that undo them.

mod difference;
mod list;
mod preset;

pub use difference::{Difference, LINKERDS, Restoration, SeenIn, Whose};
pub use list::DIFFERENCES;
pub use preset::{PresetReport, with_ours, with_preset};
