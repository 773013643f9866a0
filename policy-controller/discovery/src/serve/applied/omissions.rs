//! Parts of a policy's objects that its encoding leaves out.

use policy_core::{ObjectRef, ServerPolicy};
use policy_engine::unsent::Unsent;
use policy_proto::{Fallback, Unsupported};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Most bytes of one message.
const MAX_MESSAGE: usize = 300;

/// Parts that an encoding leaves out, by object. Never empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Omissions {
    /// Hash of the rest, which may be long: every stream that opens or closes looks it up.
    hash: u64,
    by_object: BTreeMap<ObjectRef, Unsent>,
}

impl Hash for Omissions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl Omissions {
    /// Collects what was `replaced` in an encoding of `policy` for `clients` (a description of
    /// them); `None` if that concerns no object.
    pub(crate) fn of(
        clients: &str,
        policy: &ServerPolicy,
        replaced: &[Unsupported],
    ) -> Option<Arc<Self>> {
        let mut all = BTreeMap::<ObjectRef, Unsent>::new();
        for replacement in replaced {
            let concerned = replacement.concerned(policy);
            if concerned.is_empty() {
                continue;
            }
            let words: Arc<str> = bounded(format!("{clients}: {replacement}")).into();
            let mut one = Unsent::default();
            match replacement.fallback {
                Fallback::Denied => _ = one.denied.insert(words),
                Fallback::Omitted | Fallback::Approximated => _ = one.left_out.insert(words),
            }
            for object in concerned {
                all.entry(object).or_default().add(&one);
            }
        }
        (!all.is_empty()).then(|| {
            let mut hasher = DefaultHasher::new();
            all.hash(&mut hasher);
            Arc::new(Self { hash: hasher.finish(), by_object: all })
        })
    }

    /// Returns the omissions by object.
    pub(super) fn by_object(&self) -> &BTreeMap<ObjectRef, Unsent> {
        &self.by_object
    }
}

fn bounded(mut words: String) -> String {
    if words.len() > MAX_MESSAGE {
        words.truncate(words.floor_char_boundary(MAX_MESSAGE.saturating_sub("…".len())));
        words.push('…');
    }
    words
}
