//! Lists for policies. A policy has tens of thousands of them, nearly all empty or with one
//! element, so their own memory counts: [`OneOrMany`] stores a single element inline, [`ThinVec`]
//! is one pointer while it is empty.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// A list, possibly empty, that stores a single element inline.
#[derive(Clone)]
pub struct OneOrMany<T>(Storage<T>);

#[derive(Clone)]
enum Storage<T> {
    One(T),
    Other(Box<[T]>),
}

/// A list that is one null pointer while it is empty.
#[derive(Clone)]
#[allow(clippy::box_collection, reason = "a boxed slice is two pointers, also where it is empty")]
pub struct ThinVec<T>(Option<Box<Vec<T>>>);

impl<T> OneOrMany<T> {
    /// No element.
    pub fn new() -> Self {
        Self(Storage::Other(Box::default()))
    }
}

impl<T> ThinVec<T> {
    /// No element.
    pub const fn new() -> Self {
        Self(None)
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::One(one) => std::slice::from_ref(one),
            Storage::Other(all) => all,
        }
    }
}

impl<T> DerefMut for OneOrMany<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Storage::One(one) => std::slice::from_mut(one),
            Storage::Other(all) => all,
        }
    }
}

impl<T> Deref for ThinVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl<T> DerefMut for ThinVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_deref_mut().map_or(&mut [], Vec::as_mut_slice)
    }
}

impl<T> From<Vec<T>> for OneOrMany<T> {
    fn from(mut list: Vec<T>) -> Self {
        match list.pop() {
            Some(one) if list.is_empty() => Self(Storage::One(one)),
            last => {
                list.extend(last);
                Self(Storage::Other(list.into()))
            }
        }
    }
}

impl<T> From<Vec<T>> for ThinVec<T> {
    fn from(mut list: Vec<T>) -> Self {
        list.shrink_to_fit();
        Self(if list.is_empty() { None } else { Some(Box::new(list)) })
    }
}

impl<T> IntoIterator for OneOrMany<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, other) = match self.0 {
            Storage::One(one) => (Some(one), Vec::new()),
            Storage::Other(all) => (None, all.into_vec()),
        };
        one.into_iter().chain(other)
    }
}

impl<T> IntoIterator for ThinVec<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.map(|list| *list).unwrap_or_default().into_iter()
    }
}

/// Implements the traits of slices and vectors.
macro_rules! impl_slice_traits {
    ($list:ident) => {
        impl<T> $list<T> {
            /// The elements.
            pub fn as_slice(&self) -> &[T] {
                self
            }
        }

        impl<T> Default for $list<T> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<T, const N: usize> From<[T; N]> for $list<T> {
            fn from(list: [T; N]) -> Self {
                Vec::from(list).into()
            }
        }

        impl<T> FromIterator<T> for $list<T> {
            fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
                list.into_iter().collect::<Vec<T>>().into()
            }
        }

        impl<'a, T> IntoIterator for &'a $list<T> {
            type Item = &'a T;
            type IntoIter = std::slice::Iter<'a, T>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        impl<'a, T> IntoIterator for &'a mut $list<T> {
            type Item = &'a mut T;
            type IntoIter = std::slice::IterMut<'a, T>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter_mut()
            }
        }

        impl<T: PartialEq> PartialEq for $list<T> {
            fn eq(&self, other: &Self) -> bool {
                **self == **other
            }
        }

        impl<T: Eq> Eq for $list<T> {}

        impl<T: PartialOrd> PartialOrd for $list<T> {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                (**self).partial_cmp(&**other)
            }
        }

        impl<T: Ord> Ord for $list<T> {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                (**self).cmp(&**other)
            }
        }

        impl<T: Hash> Hash for $list<T> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                (**self).hash(state);
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $list<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

impl_slice_traits!(OneOrMany);
impl_slice_traits!(ThinVec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_length_are_what_they_were_made_of() {
        for length in 0..4_u32 {
            let list: Vec<u32> = (0..length).collect();
            let (few, rare) = (OneOrMany::from(list.clone()), ThinVec::from(list.clone()));
            assert_eq!((&*few, &*rare), (list.as_slice(), list.as_slice()));
            assert_eq!(few.clone().into_iter().collect::<Vec<_>>(), list);
            assert_eq!(rare.clone().into_iter().collect::<Vec<_>>(), list);
            assert_eq!((format!("{few:?}"), format!("{rare:?}")), {
                (format!("{list:?}"), format!("{list:?}"))
            });
        }
    }
}
