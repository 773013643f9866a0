//! The `Date` of responses, written out once a second.

use crate::civil;
use std::cell::RefCell;
use std::time::SystemTime;

thread_local! {
    static WRITTEN: RefCell<(u32, String)> = const { RefCell::new((0, String::new())) };
}

/// Appends the date and time (RFC 9110 section 5.6.7). `second`: the worker's clock, which says when
/// to look at the real one again; it is never 0.
pub(crate) fn append(out: &mut Vec<u8>, second: u32) {
    WRITTEN.with_borrow_mut(|(at, text)| {
        if *at != second || text.is_empty() {
            *text = civil::imf(SystemTime::now());
            *at = second;
        }
        out.extend_from_slice(text.as_bytes());
    });
}
