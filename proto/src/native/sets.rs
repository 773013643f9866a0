//! The sets of grants that routes have, each once, from one state to the next.

use super::state::set;
use crate::error::DecodeError;
use policy_core::authorization::{Authorization, AuthorizationSet};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The grants of a state, ascending by key.
#[derive(Debug, Default)]
pub(super) struct Pool(Box<[(u64, Arc<Authorization>)]>);

impl Pool {
    pub(super) fn get(&self, key: u64) -> Option<&Arc<Authorization>> {
        let place = self.0.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.0.get(place).map(|(_, grant)| grant)
    }

    /// The same without the grants of the keys in `gone`, and with `more`.
    pub(super) fn with(&self, gone: &HashSet<u64>, more: Vec<(u64, Arc<Authorization>)>) -> Self {
        let kept = self.0.iter().filter(|(key, _)| !gone.contains(key)).cloned();
        let mut all: Vec<_> = kept.chain(more).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        Self(all.into())
    }
}

/// The distinct sets of a state; routes name them by their number.
#[derive(Debug, Default)]
pub(super) struct Sets(Box<[Set]>);

/// One set and the keys that it was made of.
#[derive(Clone, Debug)]
struct Set {
    keys: Keys,
    grants: AuthorizationSet,
}

/// Most routes have one grant.
#[derive(Clone, Debug)]
enum Keys {
    One(u64),
    Some(Arc<[u64]>),
}

impl Keys {
    fn of(keys: &[u64]) -> Self {
        match keys {
            [one] => Self::One(*one),
            some => Self::Some(some.into()),
        }
    }

    fn list(&self) -> &[u64] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Some(keys) => keys,
        }
    }
}

/// The sets of the next state while it is made.
pub(super) struct Renewed<'a> {
    before: &'a Sets,
    renewed: &'a HashSet<u64>,
    /// What became of the sets before, by number: their number now, and whether they are others.
    became: Vec<Option<(u32, bool)>>,
    sets: Vec<Set>,
    by_keys: HashMap<Box<[u64]>, u32, foldhash::fast::RandomState>,
    /// How many of `sets` are in `by_keys`.
    known: usize,
}

impl Sets {
    /// Begins the next state, in which the grants of the keys in `renewed` are others or gone.
    pub(super) fn renewed<'a>(&'a self, renewed: &'a HashSet<u64>) -> Renewed<'a> {
        Renewed {
            before: self,
            renewed,
            became: vec![None; self.0.len()],
            sets: Vec::with_capacity(self.0.len()),
            by_keys: HashMap::default(),
            known: 0,
        }
    }
}

impl Renewed<'_> {
    /// The set of a route that is kept, by its number before: its number now and, if its grants are
    /// others now, the set.
    pub(super) fn kept(
        &mut self,
        number: u32,
        pool: &Pool,
    ) -> Result<(u32, Option<AuthorizationSet>), DecodeError> {
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(Some((number, other))) = self.became.get(place) {
            let set = || self.grants(*number);
            return Ok((*number, if *other { set() } else { None }));
        }
        let old = self.before.0.get(place).ok_or_else(|| DecodeError::here("has no grants"))?;
        let other = old.keys.list().iter().any(|key| self.renewed.contains(key));
        let new = if other {
            Set { keys: old.keys.clone(), grants: set(pool, old.keys.list())? }
        } else {
            old.clone()
        };
        let grants = other.then(|| Arc::clone(&new.grants));
        let number = self.push(new);
        if let Some(became) = self.became.get_mut(place) {
            *became = Some((number, other));
        }
        Ok((number, grants))
    }

    /// The set of these keys.
    pub(super) fn of(
        &mut self,
        keys: &[u64],
        pool: &Pool,
    ) -> Result<(u32, AuthorizationSet), DecodeError> {
        for (number, set) in (0_u32..).zip(&self.sets).skip(self.known) {
            self.by_keys.entry(set.keys.list().into()).or_insert(number);
        }
        self.known = self.sets.len();
        if let Some(number) = self.by_keys.get(keys)
            && let Some(grants) = self.grants(*number)
        {
            return Ok((*number, grants));
        }
        let grants = set(pool, keys)?;
        let number = self.push(Set { keys: Keys::of(keys), grants: Arc::clone(&grants) });
        Ok((number, grants))
    }

    pub(super) fn finish(self) -> Sets {
        Sets(self.sets.into())
    }

    fn push(&mut self, set: Set) -> u32 {
        let number = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        self.sets.push(set);
        number
    }

    fn grants(&self, number: u32) -> Option<AuthorizationSet> {
        let place = usize::try_from(number).ok()?;
        self.sets.get(place).map(|set| Arc::clone(&set.grants))
    }
}
