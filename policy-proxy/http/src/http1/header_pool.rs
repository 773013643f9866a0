//! A pool of header maps: a reused map has already grown to the usual number of fields.

use http::HeaderMap;
use std::cell::RefCell;

thread_local! {
    static SPARE: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty map.
pub(super) fn take() -> HeaderMap {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Returns a map to the pool and drops its content.
pub(super) fn recycle(mut map: HeaderMap) {
    if map.capacity() == 0 || map.capacity() > MAX_FIELDS {
        return;
    }
    map.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE {
            spare.push(map);
        }
    });
}

/// Maximum capacity of a pooled map; larger ones are rare.
const MAX_FIELDS: usize = 64;
/// Maximum number of maps that a thread keeps: about as many as heads are in progress at a time.
const MAX_SPARE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::HOST;

    #[test]
    fn a_map_that_was_given_back_is_empty_when_it_is_taken_again() {
        let mut map = HeaderMap::with_capacity(8);
        map.append(HOST, HeaderValue::from_static("a"));
        map.append(HOST, HeaderValue::from_static("b"));
        let capacity = map.capacity();
        recycle(map);
        let again = take();
        assert_eq!((again.len(), again.capacity()), (0, capacity));
        assert_eq!(take().capacity(), 0, "there was one");
        recycle(HeaderMap::with_capacity(1000));
        assert_eq!(take().capacity(), 0, "too large to keep");
    }
}
