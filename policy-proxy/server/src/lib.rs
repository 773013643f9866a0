//! Parts that every listening process of the project shares: room for connections, and the metrics of
//! the process itself.

pub mod names;
mod process;
mod room;

pub use process::ProcessMetrics;
pub use room::Room;
