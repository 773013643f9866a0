//! Parts of an object that are not sent to clients because these could not enforce them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Most statements of one kind about one object.
const MAX_ENTRIES: usize = 8;

/// Parts of one object that are not sent to the clients that watch a policy made from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unsent {
    /// Requests denied to such clients instead, in words.
    pub denied: BTreeSet<Arc<str>>,
    /// Parts left out for such clients, in words.
    pub left_out: BTreeSet<Arc<str>>,
}

/// The reason of parts that are left out for such clients.
const LEFT_OUT: &str = "LeftOut";
/// The reason of parts of which requests are denied to such clients.
const DENIED: &str = "Denied";

/// Every reason, the most severe first.
pub const REASONS: [&str; 2] = [DENIED, LEFT_OUT];

impl Unsent {
    /// True if everything is sent.
    pub fn is_empty(&self) -> bool {
        self.denied.is_empty() && self.left_out.is_empty()
    }

    /// Adds what `other` says, as far as there is room.
    pub fn add(&mut self, other: &Unsent) {
        let Self { denied, left_out } = self;
        for (all, more) in [(denied, &other.denied), (left_out, &other.left_out)] {
            all.extend(more.iter().cloned());
            while all.len() > MAX_ENTRIES {
                all.pop_last();
            }
        }
    }

    /// True if it contains everything that `other` contains.
    pub fn covers(&self, other: &Unsent) -> bool {
        self.denied.is_superset(&other.denied) && self.left_out.is_superset(&other.left_out)
    }

    /// The reason of the condition, by the most severe entry.
    pub fn reason(&self) -> &'static str {
        if self.denied.is_empty() { LEFT_OUT } else { DENIED }
    }
}

/// The denied parts, then those left out.
impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, words) in self.denied.iter().chain(&self.left_out).enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            f.write_str(words)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsent(denied: &[&str], left_out: &[&str]) -> Unsent {
        let set = |words: &[&str]| words.iter().map(|words| Arc::from(*words)).collect();
        Unsent { denied: set(denied), left_out: set(left_out) }
    }

    #[test]
    fn the_worst_is_the_reason_and_comes_first() {
        let mut all = unsent(&[], &["a"]);
        assert_eq!((all.reason(), &*all.to_string()), ("LeftOut", "a"));
        all.add(&unsent(&["b"], &["c", "a"]));
        assert_eq!((all.reason(), &*all.to_string()), ("Denied", "b; a; c"));
        assert!(all.covers(&unsent(&["b"], &["c"])) && !all.covers(&unsent(&["a"], &[])));
    }

    #[test]
    fn what_is_said_of_one_object_is_bounded() {
        let mut all = Unsent::default();
        for number in 0..100 {
            all.add(&unsent(&[], &[&format!("{number:03}")]));
        }
        assert_eq!(all.left_out.len(), MAX_ENTRIES);
    }
}
