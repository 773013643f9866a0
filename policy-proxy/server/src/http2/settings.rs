//! The settings of HTTP/2 on a port.

use std::time::Duration;

/// The bounds of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Settings {
    /// Flow-control window of a stream, and of the connection: the bytes of bodies that it holds unread.
    pub window_bytes: u32,
    /// Streams that may be open at once.
    pub streams: u32,
    /// Size of the headers of a request.
    pub head_bytes: u32,
    /// Bytes that a stream writes ahead of its connection, beside the message that crosses this bound.
    pub send_buffer: usize,
    /// Silence after which the client is pinged.
    pub ping_after: Duration,
    /// Time in which the client has to show life then, and in which it has to begin at first.
    pub ping_timeout: Duration,
}

/// Budget of h2 for the frames that it keeps, of 256 bytes each: more than there can be in the bytes that
/// are read before all are taken out, a portion and a frame that it completes. Frames of data have 9 bytes
/// of header and at least one of data.
const FRAME_BUDGET: usize = 64 * 1024;

impl Http2Settings {
    pub(super) fn builder(&self) -> h2::server::Builder {
        let mut builder = h2::server::Builder::new();
        builder
            .initial_window_size(self.window_bytes)
            .initial_connection_window_size(self.window_bytes)
            .max_concurrent_streams(self.streams)
            .max_header_list_size(self.head_bytes)
            .max_send_buffer_size(self.send_buffer)
            .data_frame_budget(FRAME_BUDGET)
            // A client may give up all its streams at once; of one portion there are no more.
            .max_pending_accept_reset_streams(usize::try_from(self.streams).unwrap_or(usize::MAX));
        builder
    }
}
