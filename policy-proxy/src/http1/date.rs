//! The `Date` of responses, written out once a second.

use policy_tls::civil;
use http::HeaderValue;
use std::cell::RefCell;
use std::time::SystemTime;

thread_local! {
    static WRITTEN: RefCell<(u32, HeaderValue)> =
        const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// Appends the date and time (RFC 9110 section 5.6.7). `second`: the worker's clock, which says when
/// to look at the real one again; it is never 0.
pub(crate) fn append(out: &mut Vec<u8>, second: u32) {
    with(second, |text| out.extend_from_slice(text.as_bytes()));
}

/// The same as the value of a header.
pub(crate) fn value(second: u32) -> HeaderValue {
    with(second, HeaderValue::clone)
}

fn with<T>(second: u32, then: impl FnOnce(&HeaderValue) -> T) -> T {
    WRITTEN.with_borrow_mut(|(at, text)| {
        if *at != second || text.is_empty() {
            *text = HeaderValue::try_from(civil::imf(SystemTime::now()))
                .unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
            *at = second;
        }
        then(text)
    })
}
