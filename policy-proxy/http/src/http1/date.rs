//! The `Date` field of responses, formatted once a second.

use http::HeaderValue;
use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

thread_local! {
    static WRITTEN: RefCell<(u32, HeaderValue)> =
        const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// Appends the date and time (RFC 9110 section 5.6.7). `second` is the worker's clock: when it
/// changes, the real clock is read again. It is never 0.
pub(super) fn append(out: &mut Vec<u8>, second: u32) {
    with(second, |text| out.extend_from_slice(text.as_bytes()));
}

/// Returns the date and time as a header value.
pub(crate) fn value(second: u32) -> HeaderValue {
    with(second, HeaderValue::clone)
}

fn with<T>(second: u32, then: impl FnOnce(&HeaderValue) -> T) -> T {
    WRITTEN.with_borrow_mut(|(at, text)| {
        if *at != second || text.is_empty() {
            *text = HeaderValue::try_from(written(SystemTime::now()))
                .unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
            *at = second;
        }
        then(text)
    })
}

/// Formats a date. httpdate writes no date before 1970 and none after 9999.
fn written(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default().min(MAX_DATE);
    httpdate::fmt_http_date(UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH))
}

/// 9999-12-31T23:59:59, since 1970.
const MAX_DATE: Duration = Duration::from_secs(253_402_300_799);

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;

    #[test]
    fn dates_of_http_have_their_weekday() {
        let at = |seconds| written(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(at(1_735_689_599), "Tue, 31 Dec 2024 23:59:59 GMT");
        assert_eq!(at(i64::MAX.unsigned_abs()), "Fri, 31 Dec 9999 23:59:59 GMT");
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(written(before), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
