//! Reports the objects that are in force although the definitions of their kinds are gone: at
//! `/ready?verbose`, and by an Event when their number grows.

use crate::admin::Readiness;
use policy_crds::{Kind, ObjectKey};
use policy_engine::Inventory;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;

/// Objects that a line names; the others are counted.
const MAX_NAMES: usize = 10;

/// Follows the inventory until the index ends. `warn` is called with a note each time that more
/// objects outlive their definition.
pub(super) async fn follow(
    mut inventory: watch::Receiver<Option<Arc<Inventory>>>,
    readiness: Readiness,
    warn: impl Fn(&str) + Send,
) {
    let mut before = 0_usize;
    loop {
        let known = inventory.borrow_and_update().clone();
        let kept = known.map(|known| known.kept.clone()).unwrap_or_default();
        let lines = lines(&kept);
        if kept.len() > before {
            warn(&lines.join("; "));
        }
        before = kept.len();
        readiness.remark("definitions", lines);
        if inventory.changed().await.is_err() {
            return;
        }
    }
}

/// A line for each kind.
fn lines(kept: &BTreeSet<ObjectKey>) -> Vec<String> {
    let mut by_kind: BTreeMap<Kind, Vec<String>> = BTreeMap::new();
    for key in kept {
        by_kind.entry(key.kind).or_default().push(format!("{}/{}", key.namespace, key.name));
    }
    by_kind.into_iter().map(|(kind, names)| line(kind, &names)).collect()
}

fn line(kind: Kind, names: &[String]) -> String {
    let number = names.len();
    let named = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    let more = match number.saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "the definition of {}.{} was deleted: {number} of its objects stay in force ({named}{more}); \
         restore the definition and the objects, or end them with the annotation \
         portcullis.dev/end-kept-objects of their Namespace",
        kind.plural(),
        kind.group()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn server(name: &str) -> ObjectKey {
        ObjectKey { kind: Kind::Server, namespace: "shop".into(), name: name.into() }
    }

    #[test]
    fn a_line_names_ten_objects_and_counts_the_others() {
        let kept = (0..12).map(|n| server(&format!("s{n:02}"))).collect();
        assert_eq!(
            lines(&kept),
            ["the definition of servers.policy.linkerd.io was deleted: 12 of its objects stay in \
              force (shop/s00, shop/s01, shop/s02, shop/s03, shop/s04, shop/s05, shop/s06, shop/s07, \
              shop/s08, shop/s09 and 2 more); restore the definition and the objects, or end them \
              with the annotation portcullis.dev/end-kept-objects of their Namespace"]
        );
    }

    #[tokio::test]
    async fn kept_objects_are_remarked_while_they_are_kept_and_warned_of_once() {
        let (sender, receiver) = watch::channel(None);
        let (readiness, warned) = (Readiness::default(), Arc::new(Mutex::new(0)));
        let count = warned.clone();
        let follow = follow(receiver, readiness.clone(), move |_| *count.lock().unwrap() += 1);
        let task = tokio::spawn(follow);
        let mut seen = Vec::new();
        for names in [vec!["a"], vec!["a", "b"], vec!["b"], vec![]] {
            let kept = names.into_iter().map(server).collect();
            let inventory = Inventory { kinds: BTreeSet::new(), kept };
            sender.send_replace(Some(Arc::new(inventory)));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            seen.push((readiness.remarks().len(), *warned.lock().unwrap(), readiness.is_ready()));
        }
        assert_eq!(seen, [(1, 1, true), (1, 2, true), (1, 2, true), (0, 2, true)]);
        drop(sender);
        task.await.unwrap();
    }
}
