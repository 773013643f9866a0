//! Namespaces that refuse the roots: which of them hold a rotation up, and which are left behind.
//!
//! A writer of one namespace can have the API server refuse a ConfigMap there: by a quota, by
//! a finalizer on an immutable one, by changing it all the time. That must not delay the rotation for
//! the mesh. A request without an answer is no refusal, so an API server in trouble leaves nobody
//! behind. Where more than half of all namespaces refuse, the cause is probably a rule of the cluster,
//! which somebody has an hour to mend; it may also be a client that has most of the namespaces.

use super::publish_result::PublishResult;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Number of refusals in a row after which a namespace is left behind.
const REFUSALS: u32 = 5;

/// Minimum time between the first and the last of these.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same where more than half of all namespaces refuse.
const PATIENCE_WITH_MOST: Duration = Duration::from_secs(3600);

/// Refusals of one namespace, without a success in between.
#[derive(Clone, Copy, Debug)]
struct Refused {
    count: u32,
    since: Instant,
    is_left: bool,
}

/// Namespaces that refuse the roots, and those that had them once.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    bundle: String,
    /// Namespaces that have had this bundle. One that loses it again counts as one whose copy others
    /// change.
    had: BTreeSet<String>,
    refused: BTreeMap<String, Refused>,
}

impl Refusals {
    /// Divides the namespaces that refused the roots: into those that are pending, those that had
    /// them and hold nothing up, and those that are left behind. `home`, the control plane's own, is
    /// never left behind. Returns those that are left behind from now on, and the reason.
    pub(super) fn settle(
        &mut self,
        bundle: &str,
        home: &str,
        published: &mut PublishResult,
        now: Instant,
    ) -> Vec<(String, String)> {
        if self.bundle != bundle {
            (self.bundle, self.had) = (bundle.to_owned(), BTreeSet::new());
        }
        let refusing = std::mem::take(&mut published.refused);
        let all = published.namespaces.len().saturating_add(refusing.len());
        let are_few = refusing.len().saturating_mul(2) <= all;
        let patience = if are_few { PATIENCE } else { PATIENCE_WITH_MOST };
        self.had.extend(published.namespaces.iter().cloned());
        let failed = |name: &String| published.pending.iter().any(|(pending, _)| pending == name);
        let refuses = |name: &String| refusing.iter().any(|(one, _)| one == name);
        self.refused.retain(|name, _| refuses(name) || failed(name));
        let mut newly_left = Vec::new();
        for (name, why) in refusing {
            let first = Refused { count: 0, since: now, is_left: false };
            let refused = self.refused.entry(name.clone()).or_insert(first);
            refused.count = refused.count.saturating_add(1);
            let lasted = now.saturating_duration_since(refused.since);
            // One that was left behind stays so, however many others begin to refuse.
            let is_lasting = refused.is_left || lasted >= patience;
            let is_lasting = refused.count >= REFUSALS && is_lasting;
            if name == home || !(is_lasting || are_few && self.had.contains(&name)) {
                refused.is_left = false;
                published.pending.push((name, why));
            } else if is_lasting {
                if !std::mem::replace(&mut refused.is_left, true) {
                    newly_left.push((name.clone(), why));
                }
                published.left_behind.push(name);
            } else {
                published.changing.push((name, why));
            }
        }
        newly_left
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test times are small")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A result: namespaces with the roots, those that refuse, and those without an answer.
    fn result(have: &[&str], refuse: &[&str], fail: &[&str]) -> PublishResult {
        let why = |names: &[&str]| -> Vec<_> {
            names.iter().map(|name| ((*name).to_owned(), "no".to_owned())).collect()
        };
        PublishResult {
            namespaces: have.iter().map(|name| (*name).to_owned()).collect(),
            refused: why(refuse),
            pending: why(fail),
            ..PublishResult::default()
        }
    }

    /// The namespaces of a result that are pending, changing and left behind.
    fn settled(
        refusals: &mut Refusals,
        mut result: PublishResult,
        now: Instant,
    ) -> (Vec<String>, Vec<String>, Vec<String>) {
        refusals.settle("roots", "mesh", &mut result, now);
        assert!(result.refused.is_empty());
        let names = |all: Vec<(String, String)>| all.into_iter().map(|(name, _)| name).collect();
        (names(result.pending), names(result.changing), result.left_behind)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_namespace_that_keeps_refusing_is_left_behind_and_the_mesh_goes_on() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let refused = || result(&["mesh", "shop"], &["evil"], &[]);
        for at in 0..5 {
            let now = start + SECOND * at;
            let (pending, _, left) = settled(&mut refusals, refused(), now);
            assert_eq!((pending, left), (names(&["evil"]), vec![]), "not for a minute yet");
        }
        let mut last = refused();
        let newly = refusals.settle("roots", "mesh", &mut last, start + SECOND * 60);
        assert_eq!(newly, [("evil".to_owned(), "no".to_owned())]);
        assert_eq!((last.pending, last.left_behind), (vec![], names(&["evil"])));
        let again = refusals.settle("roots", "mesh", &mut refused(), start + SECOND * 65);
        assert_eq!(again, [], "it is said once");
        // With the next roots it stays behind, and a success ends that.
        let mut next = refused();
        refusals.settle("next", "mesh", &mut next, start + SECOND * 70);
        assert_eq!(next.left_behind, names(&["evil"]));
        settled(&mut refusals, result(&["mesh", "shop", "evil"], &[], &[]), start + SECOND * 75);
        refusals.settle("later", "mesh", &mut refused(), start + SECOND * 80);
        let mut anew = refused();
        refusals.settle("later", "mesh", &mut anew, start + SECOND * 85);
        assert_eq!(anew.pending, [("evil".to_owned(), "no".to_owned())]);
    }

    #[test]
    fn timeouts_and_the_control_planes_own_namespace_leave_nobody_behind() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for at in 0..100 {
            let now = start + SECOND * 5 * at;
            let answer = result(&["shop"], &["mesh"], &["slow"]);
            let (mut pending, _, left) = settled(&mut refusals, answer, now);
            pending.sort();
            assert_eq!((pending, left), (names(&["mesh", "slow"]), vec![]));
        }
        // A refusal, and then no answer: neither is forgotten, and only the former counts.
        for at in 100..104 {
            settled(&mut refusals, result(&["mesh"], &["slow"], &[]), start + SECOND * 5 * at);
        }
        let later = start + SECOND * 1000;
        let (pending, _, _) = settled(&mut refusals, result(&["mesh"], &[], &["slow"]), later);
        assert_eq!(pending, names(&["slow"]));
        let (_, _, left) = settled(&mut refusals, result(&["mesh"], &["slow"], &[]), later);
        assert_eq!(left, names(&["slow"]));
    }

    #[test]
    fn a_namespace_that_had_the_roots_and_refuses_now_and_then_holds_nothing_up() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        settled(&mut refusals, result(&["mesh", "evil"], &[], &[]), start);
        let (pending, changing, left) =
            settled(&mut refusals, result(&["mesh"], &["evil"], &[]), start + SECOND);
        assert_eq!((pending, changing, left), (vec![], names(&["evil"]), vec![]));
        let mut next = result(&["mesh"], &["evil"], &[]);
        refusals.settle("next", "mesh", &mut next, start + SECOND * 2);
        assert_eq!(next.pending.len(), 1, "these it never had");
    }

    /// A client that has most namespaces of a mesh kept a rotation waiting for good.
    #[test]
    fn where_most_namespaces_refuse_the_rotation_waits_for_an_hour() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let at = |seconds: u32| start + SECOND * seconds;
        let most = || result(&["shop"], &["a", "b", "mesh"], &[]);
        let mut settle = |result, seconds| {
            let (mut pending, _, left) = settled(&mut refusals, result, at(seconds));
            pending.sort();
            (pending, left)
        };
        for seconds in (0..3600).step_by(5) {
            assert_eq!(settle(most(), seconds), (names(&["a", "b", "mesh"]), vec![]), "{seconds}");
        }
        assert_eq!(settle(most(), 3600), (names(&["mesh"]), names(&["a", "b"])));
        // They stay behind while a third one is waited for.
        let more = result(&[], &["a", "b", "mesh", "c"], &[]);
        assert_eq!(settle(more, 3605), (names(&["c", "mesh"]), names(&["a", "b"])));
    }

    #[test]
    fn where_fewer_refuse_again_those_that_lasted_are_left_behind_at_once() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for at in 0..100 {
            let answer = result(&["mesh"], &["a", "b"], &[]);
            let (pending, _, left) = settled(&mut refusals, answer, start + SECOND * 5 * at);
            assert_eq!((pending, left), (names(&["a", "b"]), vec![]));
        }
        let (pending, _, left) =
            settled(&mut refusals, result(&["mesh", "c"], &["a", "b"], &[]), start + SECOND * 600);
        assert_eq!((pending, left), (vec![], names(&["a", "b"])));
    }
}
