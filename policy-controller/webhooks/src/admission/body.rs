//! The body of a review as it arrives: it takes room for the bytes that came, and has to keep coming.

use super::shares::Share;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::time::Duration;
use tokio::time::Instant;

/// The largest review: the API server takes objects of up to 3 MiB, and sends the old one too.
pub(super) const MAX_BODY: u64 = 8 * 1024 * 1024;

/// The largest weight of a review (see [`Weight`]). The longest list of networks that fits into an
/// object weighs half of it, old and new together.
pub(super) const MAX_WEIGHT: u64 = 192 * 1024 * 1024;

/// The time that a body has in addition to what its bytes take at [`RATE`]. A body may wait for others
/// on its connection before its first byte. From an API server at 200 ms the connection carries 5 MiB/s
/// (see `listener::WINDOW`), in four seconds therefore 20 MiB before that byte. API servers wait for
/// hardly longer.
const GRACE: Duration = Duration::from_secs(4);

/// The time that a body has in all, however many bytes came.
const LONGEST: Duration = Duration::from_secs(10);

/// The slowest that a body may come, in bytes a second. API servers wait five seconds for an answer
/// about up to 3 MiB, so that nothing slower could be answered in time.
const RATE: u64 = 1024 * 1024;

/// The part of a body that is read without letting others go first.
const AT_ONCE: u64 = 64 * 1024;

/// A body that has arrived.
#[derive(Debug)]
pub(super) struct ReceivedBody {
    pub(super) bytes: Bytes,
    /// The memory that it takes once it is read, as [`Weight`] reckons it.
    pub(super) weight: u64,
}

/// The reason for which a body is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is, or would become, larger than is read.
    TooLarge,
    /// It ended early.
    Broken,
    /// It came more slowly than [`RATE`].
    Slow,
    /// Its room was given to somebody else.
    CapacityExceeded,
}

/// Reads a body into the room that `share` holds.
///
/// # Errors
/// [`BodyError`].
pub(super) async fn receive(mut body: Incoming, share: &Share) -> Result<ReceivedBody, BodyError> {
    if body.size_hint().lower() > MAX_BODY {
        return Err(BodyError::TooLarge);
    }
    let start = Instant::now();
    let (mut bytes, mut weight, mut received) = (BytesMut::new(), Weight::default(), 0u64);
    loop {
        let frame = match tokio::time::timeout_at(due(start, received), body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return Err(BodyError::Broken),
            Ok(None) => break,
            Err(_) => return Err(BodyError::Slow),
        };
        // Trailers say nothing.
        let Ok(data) = frame.into_data() else { continue };
        let more = u64::try_from(data.len()).unwrap_or(u64::MAX);
        received = received.saturating_add(more);
        if received > MAX_BODY {
            return Err(BodyError::TooLarge);
        }
        share.grow(more).map_err(|_| BodyError::CapacityExceeded)?;
        if weight.add(&data) {
            bytes.extend_from_slice(&data);
        } else {
            // The rest is read and dropped, so that the client reads the refusal and not a reset.
            bytes = BytesMut::new();
        }
        if received > AT_ONCE {
            // The others that are ready have a turn between two pieces of a large body.
            tokio::task::yield_now().await;
        }
    }
    if weight.total > MAX_WEIGHT {
        return Err(BodyError::TooLarge);
    }
    Ok(ReceivedBody { bytes: bytes.freeze(), weight: weight.total })
}

/// The time until which more than `received` bytes must have come.
fn due(start: Instant, received: u64) -> Instant {
    let millis = received.saturating_mul(1000).checked_div(RATE).unwrap_or_default();
    let allowed = GRACE.saturating_add(Duration::from_millis(millis)).min(LONGEST);
    start.checked_add(allowed).unwrap_or(start)
}

/// The memory that a text of JSON takes once it is read, at most: a field or an element of a few bytes
/// takes a hundred times as many.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    total: u64,
    quoted: bool,
    escaped: bool,
}

impl Weight {
    /// Adds the next piece; false: it weighs more than is read.
    fn add(&mut self, text: &[u8]) -> bool {
        const MAPPING: u64 = 768;
        const LIST: u64 = 256;
        const ITEM: u64 = 160;
        let Self { mut total, mut quoted, mut escaped } = *self;
        for byte in text {
            if escaped {
                escaped = false;
                continue;
            }
            match byte {
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'{' => total = total.saturating_add(MAPPING),
                b'[' => total = total.saturating_add(LIST),
                b',' => total = total.saturating_add(ITEM),
                _ => {}
            }
        }
        *self = Self { total, quoted, escaped };
        total <= MAX_WEIGHT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weighed(pieces: &[&[u8]]) -> u64 {
        let mut weight = Weight::default();
        for piece in pieces {
            assert!(weight.add(piece));
        }
        weight.total
    }

    #[test]
    fn what_is_quoted_weighs_nothing_and_a_quote_may_be_escaped() {
        assert_eq!(weighed(&[br#"{"{[,": [1, 2]}"#]), 768 + 256 + 160);
        assert_eq!(weighed(&[br#""\"{[,""#]), 0);
        assert_eq!(weighed(&[br#""\\"{"#]), 768);
    }

    proptest! {
        #[test]
        fn a_text_weighs_the_same_however_it_arrives(
            text in "[{}\\[\\],\"\\\\a]{0,40}",
            at in 0usize..40,
        ) {
            let (first, rest) = text.as_bytes().split_at(at.min(text.len()));
            prop_assert_eq!(weighed(&[first, rest]), weighed(&[text.as_bytes()]));
        }
    }

    #[test]
    fn bytes_that_came_buy_time_and_a_whole_body_has_ten_seconds() {
        let start = Instant::now();
        let allowed = |received| due(start, received).duration_since(start);
        assert_eq!(allowed(0), Duration::from_secs(4));
        assert_eq!(allowed(RATE), Duration::from_secs(5));
        assert_eq!(allowed(MAX_BODY), Duration::from_secs(10));
    }
}
