//! Reads the body of a review: it uses capacity for the received bytes, and has a minimum rate.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use policy_server::Share;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum size of a review: the API server accepts objects of up to 3 MiB, and sends the old one
/// too.
pub(super) const MAX_BODY: u64 = 8 * 1024 * 1024;

/// Maximum weight of a review (see [`Weight`]). The longest list of networks that fits into an
/// object weighs half of it, old and new together.
pub(super) const MAX_WEIGHT: u64 = 192 * 1024 * 1024;

/// Time that a body has in addition to what its bytes take at [`MIN_RATE`]. A body may wait for others
/// on its connection before its first byte. From an API server with a round trip of 200 ms the
/// connection carries 5 MiB/s (see `listener::WINDOW`), so 20 MiB in four seconds before that byte.
/// API servers hardly wait longer.
const GRACE: Duration = Duration::from_secs(4);

/// Maximum time for a whole body, however large.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Minimum rate of a body in bytes per second. API servers wait five seconds for the response to up
/// to 3 MiB, so nothing slower could be answered in time.
const MIN_RATE: u64 = 1024 * 1024;

/// Size up to which a body is read without yielding to other tasks.
const YIELD_AFTER: u64 = 64 * 1024;

/// A received body.
#[derive(Debug)]
pub(super) struct ReceivedBody {
    pub(super) bytes: Bytes,
    /// Estimated memory of the parsed body, see [`Weight`].
    pub(super) weight: u64,
}

/// Error of a body that is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It is larger than the limit, or would become so.
    TooLarge,
    /// It ended early.
    Incomplete,
    /// It was slower than [`MIN_RATE`].
    Slow,
    /// Its capacity was given to another client.
    CapacityExceeded,
}

/// Reads a body into the capacity that `share` holds.
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
        let frame = match tokio::time::timeout_at(deadline(start, received), body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return Err(BodyError::Incomplete),
            Ok(None) => break,
            Err(_) => return Err(BodyError::Slow),
        };
        // Trailers are ignored.
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
            // Read and drop the rest, so that the client receives the error instead of a TCP reset.
            bytes = BytesMut::new();
        }
        if received > YIELD_AFTER {
            // Let other ready tasks run between two frames of a large body.
            tokio::task::yield_now().await;
        }
    }
    if weight.total > MAX_WEIGHT {
        return Err(BodyError::TooLarge);
    }
    Ok(ReceivedBody { bytes: bytes.freeze(), weight: weight.total })
}

/// Returns the deadline for receiving more than `received` bytes.
fn deadline(start: Instant, received: u64) -> Instant {
    let millis = received.saturating_mul(1000).checked_div(MIN_RATE).unwrap_or_default();
    let allowed = GRACE.saturating_add(Duration::from_millis(millis)).min(MAX_TIME);
    start.checked_add(allowed).unwrap_or(start)
}

/// Upper estimate of the memory of parsed JSON: a field or element of a few bytes can take a
/// hundred times as many.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    total: u64,
    quoted: bool,
    escaped: bool,
}

impl Weight {
    /// Adds the next bytes; false if the limit is exceeded.
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
        let allowed = |received| deadline(start, received).duration_since(start);
        assert_eq!(allowed(0), Duration::from_secs(4));
        assert_eq!(allowed(MIN_RATE), Duration::from_secs(5));
        assert_eq!(allowed(MAX_BODY), Duration::from_secs(10));
    }
}
