//! One client's HTTP/2 connection: a single task, in which its streams, their connection to the
//! application and both sides' frames have their turns.
//!
//! The owner of the connection says through [`ClientConnection`] what it knows of it, and answers each
//! request by a future; [`Streams`] carries requests to the application.

mod connection;
mod inflow;
mod kept;
mod pulse;
mod pump;
mod received;
mod seats;
mod serve;
mod stream;
mod turns;
mod upstream;

pub use connection::{ClientConnection, Limits};
pub use pump::{Reset, Watched, while_waiting};
pub use received::Received;
pub use serve::serve;
pub use upstream::{Sender, Settings, Streams};
