//! One client's HTTP/2 connection: a single task that polls its streams, their connection to the
//! application and the frames of both sides.
//!
//! The owner of the connection describes it by [`ClientConnection`] and answers each request by a
//! future; [`Streams`] carries requests to the application.

mod body_buffer;
mod body_room;
mod connection;
mod frame_filter;
mod keepalive;
mod recv_body;
mod scheduler;
mod send_body;
mod send_queue;
mod serve;
mod stream;
mod stream_permits;
mod upstream;

pub use body_room::{BodyAccount, BodyGroup, BodyRoom, HeldBytes};
pub use connection::{ClientConnection, Limits};
pub use keepalive::MAX_WINDOW;
pub use recv_body::RecvBody;
pub use send_body::{Interruptible, Reset, while_waiting};
pub use serve::serve;
pub use upstream::{SendError, Sender, Settings, Streams};
