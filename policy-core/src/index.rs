//! Indexes of a policy for decisions. They are built once and then only read.
//!
//! The keys of every table come from the policy, never from a request, so a client cannot make a
//! bucket grow, and the hash functions need no secret.

pub(crate) mod automaton;
pub(crate) mod bounds;
pub(crate) mod candidates;
pub(crate) mod changes;
pub(crate) mod exempt;
pub(crate) mod form_urlencoded;
pub(crate) mod grants;
pub(crate) mod name_table;
pub(crate) mod networks;
pub(crate) mod request_predicates;
pub(crate) mod routes;
pub(crate) mod single;
pub(crate) mod trie;
pub(crate) mod unreadable;

use bounds::BuildError;

/// The index that the next element of a list of this length gets.
pub(crate) fn next_id(len: usize, what: &'static str) -> Result<u32, BuildError> {
    match u32::try_from(len) {
        // The last number stands for "none" where ids are stored compactly.
        Ok(u32::MAX) | Err(_) => Err(BuildError::TooMany(what)),
        Ok(id) => Ok(id),
    }
}

/// The element that an id names.
pub(crate) fn at<T>(list: &[T], id: u32) -> Option<&T> {
    list.get(usize::try_from(id).ok()?)
}
