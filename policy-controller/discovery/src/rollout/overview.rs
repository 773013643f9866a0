//! Every object with its conditions and counts, for viewers.

use super::tracker::RolloutTracker;
use futures_util::future::BoxFuture;
use policy_crds::{Kind, ObjectKey};
use policy_engine::conditions::{ObjectCondition, PROXY_UNSUPPORTED};
use policy_engine::desired_conditions::DesiredConditions;
use policy_engine::handles::ConditionsHandle;
use policy_engine::programmed::{Programmed, ProgrammedAt};
use policy_engine::report::{
    ConditionReport, Count, ObjectReport, Overview, Overviews, ProgrammedReport, Tally,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait of a viewer for the first count.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns descriptions of everything this replica is missing.
type Missing = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Reports objects with their conditions and counts.
#[derive(Clone)]
pub struct ClusterOverview {
    conditions: ConditionsHandle,
    counting: Option<RolloutTracker>,
    missing: Missing,
}

impl ClusterOverview {
    /// Creates an overview of these conditions and counts. `missing` describes what the replica is
    /// missing.
    pub fn new(
        conditions: ConditionsHandle,
        counting: Option<RolloutTracker>,
        missing: impl Fn() -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self { conditions, counting, missing: Arc::new(missing) }
    }

    async fn tell(&self, namespace: &str) -> Option<Overview> {
        let tally = match &self.counting {
            Some(counting) => Some(counting.current(PATIENCE).await),
            None => None,
        };
        let stated = self.conditions.desired().await?;
        let of = |key: &ObjectKey| {
            let within = if key.kind == Kind::Namespace { &key.name } else { &key.namespace };
            namespace.is_empty() || **within == *namespace
        };
        let told = stated.iter().filter(|(key, _)| of(key));
        let table = self.counting.as_ref().map(|counting| counting.table().borrow().clone());
        let at = |key| table.as_ref()?.get(key);
        let objects = told.map(|(key, stated)| report(key, stated, at(key))).collect();
        let mut missing = (self.missing)();
        if let Some(Tally::Unknown { message, .. }) = tally.as_deref() {
            missing.push(format!("the rollout of objects is unknown: {message}"));
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

fn report(key: &ObjectKey, stated: &DesiredConditions, at: Option<&ProgrammedAt>) -> ObjectReport {
    // A route of a Gateway gets no status from us.
    let said = at.filter(|_| !stated.conditions.is_empty());
    let programmed = said.and_then(|at| programmed(&at.programmed.of(&stated.conditions)));
    let unsent = at.map(|at| &at.unsent);
    let unsupported = unsent.filter(|unsent| !unsent.is_empty()).map(|unsent| ConditionReport {
        kind: PROXY_UNSUPPORTED,
        status: true,
        reason: unsent.reason(),
        message: unsent.to_string().into(),
        parent: None,
        section: None,
    });
    ObjectReport {
        object: key.to_ref(),
        generation: stated.generation,
        conditions: stated.conditions.iter().map(condition).chain(unsupported).collect(),
        programmed,
    }
}

/// `None` where the count is unknown.
fn programmed(programmed: &Programmed) -> Option<ProgrammedReport> {
    let Programmed::Counted { in_force, concerned, refused, .. } = programmed else { return None };
    Some(ProgrammedReport {
        count: Count { in_force: *in_force, concerned: *concerned, refused: *refused },
        status: programmed.status(),
        reason: programmed.reason(),
        message: programmed.to_string().into(),
    })
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
