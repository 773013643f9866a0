//! Connections to one server, as many as its streams need: a server accepts so many streams of a
//! connection (hyper's default is 200), and whoever asks for more waits until one ends, which for watches
//! is never.

use parking_lot::Mutex;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::OnceCell;
use tonic::transport::Channel;

/// Streams of one connection: RFC 9113 section 6.5.2 recommends servers to accept no fewer.
const STREAMS: usize = 100;

/// The connections.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<Vec<Arc<Lane>>>);

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Connects again by itself once it has connected.
    pub(super) channel: OnceCell<Channel>,
    streams: AtomicUsize,
}

/// Room for one stream; given back when dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<Lane>);

impl Lanes {
    /// Room for a stream on the first connection that has some. Of those without streams one stays
    /// open.
    pub(super) fn take(&self) -> Seat {
        let mut lanes = self.0.lock();
        let mut idle = 0_usize;
        lanes.retain(|lane| {
            let is_idle = lane.streams.load(Ordering::Acquire) == 0;
            idle = idle.saturating_add(usize::from(is_idle));
            !is_idle || idle <= 1
        });
        let free = lanes.iter().find(|lane| lane.streams.load(Ordering::Acquire) < STREAMS);
        let lane = match free {
            Some(lane) => lane.clone(),
            None => {
                let lane = Arc::<Lane>::default();
                lanes.push(lane.clone());
                lane
            }
        };
        // Under the lock, so that no two take the last.
        lane.streams.fetch_add(1, Ordering::AcqRel);
        Seat(lane)
    }

    #[cfg(test)]
    fn streams(&self) -> Vec<usize> {
        self.0.lock().iter().map(|lane| lane.streams.load(Ordering::Acquire)).collect()
    }
}

impl Deref for Seat {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_so_many_streams_and_those_without_any_are_let_go() {
        let lanes = Lanes::default();
        let mut seats: Vec<Seat> = (0..250).map(|_| lanes.take()).collect();
        assert_eq!(lanes.streams(), [100, 100, 50]);
        seats.remove(0);
        seats.push(lanes.take());
        assert_eq!(lanes.streams(), [100, 100, 50], "the first that has room");
        seats.clear();
        let seat = lanes.take();
        assert_eq!(lanes.streams(), [1], "the others are let go");
        drop(seat);
    }
}
