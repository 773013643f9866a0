//! Header maps that are used again: one that has grown to what requests need costs no allocation.

use http::HeaderMap;
use std::cell::RefCell;

thread_local! {
    static SPARE: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
}

/// An empty map.
pub(super) fn take() -> HeaderMap {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Gives a map back. What it holds is let go of.
pub(super) fn recycle(mut map: HeaderMap) {
    if map.capacity() == 0 || map.capacity() > MOST_FIELDS {
        return;
    }
    map.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST_SPARE {
            spare.push(map);
        }
    });
}

/// Larger maps are rare, and not kept.
const MOST_FIELDS: usize = 64;
/// Maps that a thread keeps: as many as heads are in the works at a time.
const MOST_SPARE: usize = 32;

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
