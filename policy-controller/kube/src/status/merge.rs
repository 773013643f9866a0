//! Merges the current status of an object with the desired one, into what has to be written, if
//! anything.

mod incomplete_count;
mod stopped_matching;

use super::attached::with_record;
use super::desired::{DesiredCondition, DesiredStatus, ParentStatus, TYPES};
use super::fields::fields;
use super::item::Item;
use jiff::Timestamp;
use policy_crds::spec::StatusStyle;
use policy_crds::{Kind, ObjectKey};
use policy_engine::conditions::PROXY_UNSUPPORTED;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The status to write; `None` if the current one is as desired.
pub(crate) fn status(
    kind: Kind,
    item: &Item,
    desired: &DesiredStatus,
    controller: &str,
    now: Timestamp,
) -> Option<Value> {
    let DesiredStatus { generation, provisional, .. } = *desired;
    let writer = Writer { generation, provisional, controller, now };
    match kind.spec().status? {
        StatusStyle::Parents => {
            let parents = writer.parents(kind, item, &desired.parents)?;
            Some(json!({"parents": parents}))
        }
        StatusStyle::Replace => {
            let current = array(&item.status, "conditions");
            let ours = writer.conditions(current, &desired.conditions, desired.keep)?;
            let foreign = current.iter().filter(|condition| !is_ours(condition)).cloned();
            Some(json!({"conditions": foreign.chain(ours).collect::<Vec<Value>>()}))
        }
        StatusStyle::ApplyWithTarget => {
            let target = target(&item.spec);
            let same = item.status.get("targetRef") == Some(&target);
            let current = array(&item.status, "conditions");
            let conditions = writer.conditions(current, &desired.conditions, desired.keep);
            if same && conditions.is_none() {
                return None;
            }
            let conditions = conditions
                .unwrap_or_else(|| writer.written(current, &desired.conditions, desired.keep));
            Some(json!({"conditions": conditions, "targetRef": target}))
        }
        StatusStyle::Apply => {
            let current = array(&item.status, "conditions");
            let conditions = writer.conditions(current, &desired.conditions, desired.keep);
            let fields = desired.fields.as_ref().map(|desired| fields(item, desired, now));
            let (mut status, differs) = fields.unwrap_or_default();
            if !differs && conditions.is_none() {
                return None;
            }
            // A field that is left out would be removed.
            let conditions = conditions
                .unwrap_or_else(|| writer.written(current, &desired.conditions, desired.keep));
            status.insert("conditions".to_owned(), conditions.into());
            Some(Value::Object(status))
        }
    }
}

fn array<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The `targetRef` of a rate limit's status (docs/spec/controller.md 5.4), as the spec has it, with
/// defaults.
fn target(spec: &Value) -> Value {
    let field = |name: &str, default: &str| {
        let text = spec.get("targetRef").and_then(|target| target.get(name)?.as_str());
        json!(text.filter(|text| !text.is_empty()).unwrap_or(default))
    };
    json!({
        "group": field("group", "policy.linkerd.io"),
        "kind": field("kind", "Server"),
        "name": field("name", ""),
    })
}

fn is_ours(condition: &Value) -> bool {
    let kind = condition.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| TYPES.contains(&kind))
}

struct Writer<'a> {
    generation: Option<i64>,
    /// True if conditions `Programmed` of this generation are preserved.
    provisional: bool,
    controller: &'a str,
    now: Timestamp,
}

impl Writer<'_> {
    /// Our conditions to write; `None` if the current ones are as desired.
    fn conditions(
        &self,
        current: &[Value],
        desired: &[DesiredCondition],
        keep: bool,
    ) -> Option<Vec<Value>> {
        let desired = &self.desired(current, desired);
        let preserved = preserved(current, desired, keep);
        let ours = current.iter().filter(|condition| is_ours(condition)).count();
        let same = ours == desired.len().saturating_add(preserved.len())
            && desired.iter().all(|condition| {
                of_type(current, condition.kind)
                    .is_some_and(|current| self.is_same(current, condition))
            });
        (!same).then(|| self.written(current, desired, keep))
    }

    fn written(&self, current: &[Value], desired: &[DesiredCondition], keep: bool) -> Vec<Value> {
        let desired = &self.desired(current, desired);
        let rewritten = desired
            .iter()
            .map(|condition| self.condition(of_type(current, condition.kind), condition));
        rewritten.chain(preserved(current, desired, keep).into_iter().cloned()).collect()
    }

    /// The desired conditions in the light of the current ones (see [`stopped_matching`] and
    /// [`incomplete_count`]).
    fn desired(&self, current: &[Value], desired: &[DesiredCondition]) -> Vec<DesiredCondition> {
        let before = |condition: &DesiredCondition| of_type(current, condition.kind);
        let seen = |condition: &DesiredCondition| {
            let (before, generation) = (before(condition), self.generation);
            let former = self
                .provisional
                .then(|| incomplete_count::condition(before, condition, generation));
            former.flatten().or_else(|| stopped_matching::condition(before, condition, generation))
        };
        desired
            .iter()
            .map(|condition| seen(condition).unwrap_or_else(|| condition.clone()))
            .collect()
    }

    /// True if the current condition is as desired. A schema without `observedGeneration` prunes it,
    /// so it is compared only if present.
    fn is_same(&self, current: &Value, desired: &DesiredCondition) -> bool {
        let text = |field: &str| current.get(field).and_then(Value::as_str).unwrap_or_default();
        let observed = current.get("observedGeneration").and_then(Value::as_i64);
        text("status") == desired.status
            && text("reason") == &*desired.reason
            && text("message") == &*desired.message
            && (observed.is_none() || observed == self.generation)
    }

    /// The condition to write. `lastTransitionTime` changes only with the status.
    fn condition(&self, current: Option<&Value>, desired: &DesiredCondition) -> Value {
        let since = current
            .filter(|current| current.get("status").and_then(Value::as_str) == Some(desired.status))
            .and_then(|current| current.get("lastTransitionTime")?.as_str())
            .map_or_else(|| self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), str::to_owned);
        let mut condition = json!({
            "type": desired.kind,
            "status": desired.status,
            "reason": &*desired.reason,
            "message": &*desired.message,
            "lastTransitionTime": since,
        });
        if let (Some(map), Some(generation)) = (condition.as_object_mut(), self.generation) {
            map.insert("observedGeneration".to_owned(), json!(generation));
        }
        condition
    }

    /// The entries of all controllers: ours about Servers as desired, all others unchanged.
    fn parents(&self, kind: Kind, item: &Item, about: &[ParentStatus]) -> Option<Vec<Value>> {
        let namespace: Arc<str> = item.metadata.namespace.as_str().into();
        let current = array(&item.status, "parents");
        let mut wanted = wanted_parents(kind, item, about);
        let mut entries = Vec::new();
        let mut changed = false;
        for entry in current {
            let parent = ParentKey::of(kind, &namespace, entry.get("parentRef"));
            let named = entry.get("controllerName").and_then(Value::as_str);
            let ours = parent.filter(|_| named == Some(self.controller));
            let Some(parent) = ours else {
                entries.push(entry.clone());
                continue;
            };
            let found = wanted.iter().position(|(wanted, _, _)| *wanted == parent);
            let Some((_, reference, about)) = found.map(|index| wanted.remove(index)) else {
                changed = true;
                continue;
            };
            let written = Some(array(entry, "conditions"));
            let about = &with_record(item, about, written, self.now);
            let conditions =
                self.conditions(array(entry, "conditions"), &about.conditions, about.keep);
            if conditions.is_none() && entry.get("parentRef") == Some(reference) {
                entries.push(entry.clone());
            } else {
                changed = true;
                entries.push(self.entry(reference, array(entry, "conditions"), about));
            }
        }
        changed |= !wanted.is_empty();
        let added = wanted.into_iter().map(|(_, reference, about)| {
            self.entry(reference, &[], &with_record(item, about, None, self.now))
        });
        entries.extend(added);
        entries.truncate(MAX_PARENTS);
        changed.then_some(entries)
    }

    fn entry(&self, reference: &Value, current: &[Value], about: &ParentStatus) -> Value {
        json!({
            "parentRef": reference,
            "controllerName": self.controller,
            "conditions": self.written(current, &about.conditions, about.keep),
        })
    }
}

/// The proxy conditions that are preserved.
fn preserved<'a>(current: &'a [Value], desired: &[DesiredCondition], keep: bool) -> Vec<&'a Value> {
    let about = ["Programmed", PROXY_UNSUPPORTED].into_iter().filter(|_| keep);
    let left = about.filter(|kind| desired.iter().all(|condition| condition.kind != *kind));
    left.filter_map(|kind| of_type(current, kind)).collect()
}

/// The maximum number of entries in the schemas.
const MAX_PARENTS: usize = 32;

fn of_type<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
}

/// The references to Servers and InboundRoutes with a desired status, as the route has them.
fn wanted_parents<'a>(
    kind: Kind,
    item: &'a Item,
    about: &'a [ParentStatus],
) -> Vec<(ParentKey, &'a Value, &'a ParentStatus)> {
    let namespace: Arc<str> = item.metadata.namespace.as_str().into();
    let mut wanted: Vec<(ParentKey, &Value, &ParentStatus)> = Vec::new();
    for reference in array(&item.spec, "parentRefs") {
        let parent = ParentKey::of(kind, &namespace, Some(reference));
        let Some(parent) = parent else { continue };
        let about = about.iter().find(|about| parent.is(about));
        if let Some(about) = about.filter(|_| wanted.iter().all(|(other, _, _)| *other != parent)) {
            wanted.push((parent, reference, about));
        }
    }
    wanted
}

/// A reference to a Server or an InboundRoute with its defaults applied.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParentKey {
    server: ObjectKey,
    section: Option<Arc<str>>,
    port: Option<u16>,
}

impl ParentKey {
    /// Returns `None` if the reference is to neither a Server nor an InboundRoute.
    fn of(route: Kind, namespace: &Arc<str>, reference: Option<&Value>) -> Option<Self> {
        let reference: &Map<String, Value> = reference?.as_object()?;
        let text = |field: &str| reference.get(field).and_then(Value::as_str);
        let group = text("group").unwrap_or(route.group());
        let kind = Kind::find(group, text("kind").unwrap_or("Gateway"))?;
        let server = ObjectKey {
            kind,
            namespace: text("namespace").map_or_else(|| namespace.clone(), Arc::from),
            name: text("name")?.into(),
        };
        let port = reference.get("port").and_then(Value::as_u64);
        let port = port.and_then(|port| u16::try_from(port).ok());
        let section = text("sectionName").map(Arc::from);
        matches!(kind, Kind::Server | Kind::InboundRoute).then_some(Self { server, section, port })
    }

    fn is(&self, about: &ParentStatus) -> bool {
        self.server == about.server && self.section == about.section && self.port == about.port
    }
}

#[cfg(test)]
mod tests;
