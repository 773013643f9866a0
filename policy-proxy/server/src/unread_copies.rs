//! A text that is made anew for each client, such as metrics, in a bounded number of copies while clients
//! leave theirs unread.

use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Texts that are unread at once, beyond which clients share the newest.
const MOST: usize = 8;

/// Age up to which a text is shared. Connections that take none of it end within a minute, so that no more
/// than [`MOST`] and one for each such time of that minute are held.
const AGE: Duration = Duration::from_secs(5);

/// Hands out a text. Usually each client has its own, made when it asks.
#[derive(Debug, Default)]
pub struct UnreadCopies {
    held: Mutex<Vec<(Instant, Weak<String>)>>,
}

/// A text that lasts until the last client has taken it.
struct SharedText(Arc<String>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl UnreadCopies {
    /// Returns what `make` makes. While many texts are unread, returns the newest of them instead, if it is
    /// a few seconds old at most.
    ///
    /// # Errors
    /// That of `make`.
    pub fn text<E>(&self, make: impl FnOnce() -> Result<String, E>) -> Result<Bytes, E> {
        let mut held = self.held.lock();
        held.retain(|(_, text)| text.strong_count() > 0);
        let newest = held.last().filter(|(since, _)| held.len() >= MOST && since.elapsed() < AGE);
        if let Some(text) = newest.and_then(|(_, text)| text.upgrade()) {
            return Ok(Bytes::from_owner(SharedText(text)));
        }
        let text = Arc::new(make()?);
        held.push((Instant::now(), Arc::downgrade(&text)));
        Ok(Bytes::from_owner(SharedText(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn clients_that_read_nothing_share_copies_and_one_that_reads_gets_its_own() {
        let (copies, made) = (UnreadCopies::default(), AtomicUsize::new(0));
        let ask = || {
            let make = || Ok::<_, Infallible>(made.fetch_add(1, Ordering::SeqCst).to_string());
            copies.text(make).unwrap()
        };
        for number in 0..100 {
            assert_eq!(ask(), number.to_string());
        }
        let unread: Vec<Bytes> = (0..1000).map(|_| ask()).collect();
        assert_eq!(made.load(Ordering::SeqCst), 100 + MOST);
        assert_eq!(unread.last(), unread.get(MOST - 1));
        drop(unread);
        assert_eq!(ask(), (100 + MOST).to_string());
    }
}
