//! Parts of a policy's objects that its encoding leaves out.

use super::too_large::TooLarge;
use policy_core::{ObjectRef, Owner, ServerPolicy};
use policy_engine::contributions::NamespaceContribution;
use policy_engine::unsent::Unsent;
use policy_proto::{Fallback, Unsupported};
use std::collections::{BTreeMap, BTreeSet};
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
        Self::new(all)
    }

    /// The parts that are denied of a policy that is `too_large` for `clients`: the contributions of
    /// these namespaces. It is said of the Server, and of each object that holds a part of them.
    pub(crate) fn lacking(
        clients: &str,
        policy: &ServerPolicy,
        too_large: &TooLarge,
        lacking: &[NamespaceContribution],
    ) -> Option<Arc<Self>> {
        let mut all = BTreeMap::<ObjectRef, Unsent>::new();
        for one in lacking {
            let words = format!("{clients}: {too_large}; denied are the paths of {one}");
            let denied = BTreeSet::from([Arc::from(bounded(words))]);
            let unsent = Unsent { denied, ..Unsent::default() };
            let owner = match &policy.owner {
                Owner::Server(server) => Some(server),
                Owner::Default(_) => None,
            };
            for object in owner.into_iter().chain(&one.objects) {
                all.entry(object.clone()).or_default().add(&unsent);
            }
        }
        Self::new(all)
    }

    /// The parts that either of them leaves out.
    pub(crate) fn both(one: Option<Arc<Self>>, other: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let (Some(first), Some(second)) = (&one, &other) else { return one.or(other) };
        let mut all = first.by_object.clone();
        for (object, unsent) in &second.by_object {
            all.entry(object.clone()).or_default().add(unsent);
        }
        Self::new(all)
    }

    fn new(by_object: BTreeMap<ObjectRef, Unsent>) -> Option<Arc<Self>> {
        (!by_object.is_empty()).then(|| {
            let mut hasher = DefaultHasher::new();
            by_object.hash(&mut hasher);
            Arc::new(Self { hash: hasher.finish(), by_object })
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
