//! What the encoding of one policy does not say that its objects ask for.

use policy_core::{ObjectRef, ServerPolicy};
use policy_engine::unsent::Unsent;
use policy_proto::{Fallback, Unsupported};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Most bytes of one statement.
const WORDS: usize = 300;

/// What an encoding lacks, by object. Never empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lacks {
    /// Of the rest, which may be long: every stream that is opened and closed is looked up by it.
    hash: u64,
    by_object: BTreeMap<ObjectRef, Unsent>,
}

impl Hash for Lacks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl Lacks {
    /// What was `replaced` in an encoding of `policy` for `clients` (whom, in words). Nothing where no
    /// object asks for what is lacking.
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

    /// By object.
    pub(super) fn by_object(&self) -> &BTreeMap<ObjectRef, Unsent> {
        &self.by_object
    }
}

fn bounded(mut words: String) -> String {
    if words.len() > WORDS {
        words.truncate(words.floor_char_boundary(WORDS.saturating_sub("…".len())));
        words.push('…');
    }
    words
}
