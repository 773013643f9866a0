//! Lists that ascend by key, and what is wrong with keys.

use crate::error::DecodeError;
use policy_core::authorization::{Authorization, AuthorizationSet};
use std::sync::Arc;

/// What belongs to a key in a list that ascends by key.
pub(super) fn find<T>(list: &[(u64, T)], key: u64) -> Option<&T> {
    let place = list.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    list.get(place).map(|(_, found)| found)
}

/// The grants that `keys` stand for.
pub(super) fn set(
    grants: &[(u64, Arc<Authorization>)],
    keys: &[u64],
) -> Result<AuthorizationSet, DecodeError> {
    let grant =
        |key: &u64| find(grants, *key).cloned().ok_or_else(|| absent("authorization", *key));
    keys.iter().map(grant).collect::<Result<Vec<_>, _>>().map(Into::into)
}

pub(super) fn absent(what: &str, key: u64) -> DecodeError {
    DecodeError::here(format!("there is no {what} {key:016x}"))
}

pub(super) fn twice(key: u64) -> DecodeError {
    DecodeError::here(format!("key {key:016x} appears twice"))
}
