//! Every object with its conditions and counts, for viewers.

use super::counter::Counting;
use futures_util::future::BoxFuture;
use policy_crds::ObjectKey;
use policy_engine::conditions::{ObjectCondition, PROXY_UNSUPPORTED};
use policy_engine::handles::ConditionsHandle;
use policy_engine::report::{ConditionReport, ObjectReport, Overview, Overviews, Tally};
use policy_engine::stated::Stated;
use policy_engine::unsent::Unsent;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a viewer waits for counts that nobody had asked for before.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the replica is short of, in words.
type Missing = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Tells of objects by their conditions and counts.
#[derive(Clone)]
pub struct ClusterOverview {
    conditions: ConditionsHandle,
    counting: Option<Counting>,
    missing: Missing,
}

impl ClusterOverview {
    /// By these conditions and counts. `missing` says what the replica is short of.
    pub fn new(
        conditions: ConditionsHandle,
        counting: Option<Counting>,
        missing: impl Fn() -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self { conditions, counting, missing: Arc::new(missing) }
    }

    async fn tell(&self, namespace: &str) -> Option<Overview> {
        let tally = match &self.counting {
            Some(counting) => Some(counting.look(PATIENCE).await),
            None => None,
        };
        let stated = self.conditions.stated().await?;
        let of = |key: &ObjectKey| namespace.is_empty() || *key.namespace == *namespace;
        let told = stated.iter().filter(|(key, _)| of(key));
        let table = self.counting.as_ref().map(|counting| counting.table().borrow().clone());
        let unsent = |key| table.as_ref()?.get(key).map(|at| &at.unsent);
        let objects =
            told.map(|(key, stated)| report(key, stated, tally.as_deref(), unsent(key))).collect();
        let mut missing = (self.missing)();
        if let Some(Tally::Unknown { message, .. }) = tally.as_deref() {
            missing.push(format!("how far objects are in force cannot be said: {message}"));
        }
        Some(Overview { objects, missing })
    }
}

impl Overviews for ClusterOverview {
    fn overview<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Option<Overview>> {
        Box::pin(self.tell(namespace))
    }
}

impl fmt::Debug for ClusterOverview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterOverview").field("counting", &self.counting).finish_non_exhaustive()
    }
}

fn report(
    key: &ObjectKey,
    stated: &Stated,
    tally: Option<&Tally>,
    unsent: Option<&Unsent>,
) -> ObjectReport {
    let object = key.to_ref();
    let programmed = match tally {
        Some(Tally::Counted(counts)) if key.kind.spec().contributes => {
            Some(counts.get(&object).copied().unwrap_or_default())
        }
        Some(Tally::Counted(_) | Tally::Unknown { .. }) | None => None,
    };
    let unsupported = unsent.filter(|unsent| !unsent.is_empty()).map(|unsent| ConditionReport {
        kind: PROXY_UNSUPPORTED,
        status: true,
        reason: unsent.reason(),
        message: unsent.to_string().into(),
        parent: None,
        section: None,
    });
    ObjectReport {
        object,
        generation: stated.generation,
        conditions: stated.conditions.iter().map(condition).chain(unsupported).collect(),
        programmed,
    }
}

fn condition(condition: &ObjectCondition) -> ConditionReport {
    ConditionReport {
        kind: condition.kind.as_str(),
        status: condition.status,
        reason: condition.reason.as_str(),
        message: condition.message.clone(),
        parent: condition.parent.as_ref().map(ObjectKey::to_ref),
        section: condition.section.clone(),
    }
}
