//! A pool of connections to one server, as many as its streams need. A server accepts a limited
//! number of streams per connection (hyper's default is 200); further ones wait until one ends,
//! which watches never do.

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
pub(super) struct ChannelPool(Mutex<Vec<Arc<PooledChannel>>>);

/// A connection and the number of its streams.
#[derive(Debug, Default)]
pub(super) struct PooledChannel {
    /// Reconnects by itself once it has connected.
    pub(super) channel: OnceCell<Channel>,
    streams: AtomicUsize,
}

/// Permit of one stream; released when dropped.
#[derive(Debug)]
pub(super) struct StreamPermit(Arc<PooledChannel>);

impl ChannelPool {
    /// Returns a permit on the first connection with a free stream. Of the connections without streams
    /// one stays open.
    pub(super) fn take(&self) -> StreamPermit {
        let mut channels = self.0.lock();
        let mut idle = 0_usize;
        channels.retain(|channel| {
            let is_idle = channel.streams.load(Ordering::Acquire) == 0;
            idle = idle.saturating_add(usize::from(is_idle));
            !is_idle || idle <= 1
        });
        let free =
            channels.iter().find(|channel| channel.streams.load(Ordering::Acquire) < STREAMS);
        let channel = match free {
            Some(channel) => channel.clone(),
            None => {
                let channel = Arc::<PooledChannel>::default();
                channels.push(channel.clone());
                channel
            }
        };
        // Under the lock, so that no two take the last.
        channel.streams.fetch_add(1, Ordering::AcqRel);
        StreamPermit(channel)
    }

    #[cfg(test)]
    fn streams(&self) -> Vec<usize> {
        self.0.lock().iter().map(|channel| channel.streams.load(Ordering::Acquire)).collect()
    }
}

impl Deref for StreamPermit {
    type Target = PooledChannel;

    fn deref(&self) -> &PooledChannel {
        &self.0
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_so_many_streams_and_those_without_any_are_let_go() {
        let pool = ChannelPool::default();
        let mut permits: Vec<StreamPermit> = (0..250).map(|_| pool.take()).collect();
        assert_eq!(pool.streams(), [100, 100, 50]);
        permits.remove(0);
        permits.push(pool.take());
        assert_eq!(pool.streams(), [100, 100, 50], "the first that has room");
        permits.clear();
        let permit = pool.take();
        assert_eq!(pool.streams(), [1], "the others are let go");
        drop(permit);
    }
}
