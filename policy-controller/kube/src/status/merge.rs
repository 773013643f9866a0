//! From the status that an object has and the one that it should have to what is to be written, if
//! anything is.

pub(crate) mod stopped;

use super::desired::{AboutParent, Desired, TYPES, Told};
use jiff::Timestamp;
use policy_crds::spec::StatusStyle;
use policy_crds::{Kind, ObjectKey};
use policy_engine::conditions::PROXY_UNSUPPORTED;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The parts of an object that its status depends on.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Item {
    /// Metadata.
    pub(crate) metadata: ItemMeta,
    /// What it asks for.
    #[serde(default)]
    pub(crate) spec: Value,
    /// What it is told.
    #[serde(default)]
    pub(crate) status: Value,
}

/// The parts of an object's metadata that writing its status depends on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemMeta {
    /// Name.
    pub(crate) name: String,
    /// Namespace.
    #[serde(default)]
    pub(crate) namespace: String,
    /// Uid.
    #[serde(default)]
    pub(crate) uid: Option<String>,
    /// Generation.
    #[serde(default)]
    pub(crate) generation: Option<i64>,
    /// Version, which guards the write.
    #[serde(default)]
    pub(crate) resource_version: String,
}

/// The status that an object should have; none where it is as it should be.
pub(crate) fn status(
    kind: Kind,
    item: &Item,
    desired: &Desired,
    controller: &str,
    now: Timestamp,
) -> Option<Value> {
    let writer = Writer { generation: desired.generation, controller, now };
    match kind.spec().status? {
        StatusStyle::Parents => {
            let parents = writer.parents(kind, item, &desired.parents)?;
            Some(json!({"parents": parents}))
        }
        StatusStyle::Replace => {
            let current = array(&item.status, "conditions");
            let ours = writer.conditions(current, &desired.own, desired.keep)?;
            let foreign = current.iter().filter(|condition| !is_ours(condition)).cloned();
            Some(json!({"conditions": foreign.chain(ours).collect::<Vec<Value>>()}))
        }
        StatusStyle::ApplyWithTarget => {
            let target = target(&item.spec);
            let same = item.status.get("targetRef") == Some(&target);
            let current = array(&item.status, "conditions");
            let conditions = writer.conditions(current, &desired.own, desired.keep);
            if same && conditions.is_none() {
                return None;
            }
            let conditions =
                conditions.unwrap_or_else(|| writer.written(current, &desired.own, desired.keep));
            Some(json!({"conditions": conditions, "targetRef": target}))
        }
        StatusStyle::Apply => {
            let conditions =
                writer.conditions(array(&item.status, "conditions"), &desired.own, desired.keep)?;
            Some(json!({"conditions": conditions}))
        }
    }
}

fn array<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// What a rate limit's status is about (controller-semantics 5.4): the target as it spells it.
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
    controller: &'a str,
    now: Timestamp,
}

impl Writer<'_> {
    /// Our conditions as they should be; none where they are so already.
    fn conditions(&self, current: &[Value], told: &[Told], keep: bool) -> Option<Vec<Value>> {
        let told = &self.told(current, told);
        let kept = kept(current, told, keep);
        let ours = current.iter().filter(|condition| is_ours(condition)).count();
        let same = ours == told.len().saturating_add(kept.len())
            && told.iter().all(|told| {
                of_type(current, told.kind).is_some_and(|current| self.is_same(current, told))
            });
        (!same).then(|| self.written(current, told, keep))
    }

    fn written(&self, current: &[Value], told: &[Told], keep: bool) -> Vec<Value> {
        let told = &self.told(current, told);
        let told_anew = told.iter().map(|told| self.condition(of_type(current, told.kind), told));
        told_anew.chain(kept(current, told, keep).into_iter().cloned()).collect()
    }

    /// What is told, in the light of what was told before (see [`stopped`]).
    fn told(&self, current: &[Value], told: &[Told]) -> Vec<Told> {
        let before = |told: &Told| of_type(current, told.kind);
        let seen = |told: &Told| stopped::matching(before(told), told, self.generation);
        told.iter().map(|told| seen(told).unwrap_or_else(|| told.clone())).collect()
    }

    /// A schema without `observedGeneration` prunes it: then it cannot be right or wrong.
    fn is_same(&self, current: &Value, told: &Told) -> bool {
        let text = |field: &str| current.get(field).and_then(Value::as_str).unwrap_or_default();
        let observed = current.get("observedGeneration").and_then(Value::as_i64);
        text("status") == told.status
            && text("reason") == &*told.reason
            && text("message") == &*told.message
            && (observed.is_none() || observed == self.generation)
    }

    /// Since when something is so moves only when it becomes so.
    fn condition(&self, current: Option<&Value>, told: &Told) -> Value {
        let since = current
            .filter(|current| current.get("status").and_then(Value::as_str) == Some(told.status))
            .and_then(|current| current.get("lastTransitionTime")?.as_str())
            .map_or_else(|| self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), str::to_owned);
        let mut condition = json!({
            "type": told.kind,
            "status": told.status,
            "reason": &*told.reason,
            "message": &*told.message,
            "lastTransitionTime": since,
        });
        if let (Some(map), Some(generation)) = (condition.as_object_mut(), self.generation) {
            map.insert("observedGeneration".to_owned(), json!(generation));
        }
        condition
    }

    /// Every controller's entries: ours about Servers as they should be, all others as they are.
    fn parents(&self, kind: Kind, item: &Item, about: &[AboutParent]) -> Option<Vec<Value>> {
        let namespace: Arc<str> = item.metadata.namespace.as_str().into();
        let current = array(&item.status, "parents");
        let mut wanted = wanted(kind, item, about);
        let mut entries = Vec::new();
        let mut changed = false;
        for entry in current {
            let place = Place::of(kind, &namespace, entry.get("parentRef"));
            let named = entry.get("controllerName").and_then(Value::as_str);
            let ours = place.filter(|_| named == Some(self.controller));
            let Some(place) = ours else {
                entries.push(entry.clone());
                continue;
            };
            let found = wanted.iter().position(|(wanted, _, _)| *wanted == place);
            let Some((_, reference, about)) = found.map(|index| wanted.remove(index)) else {
                changed = true;
                continue;
            };
            let conditions = self.conditions(array(entry, "conditions"), &about.told, about.keep);
            if conditions.is_none() && entry.get("parentRef") == Some(reference) {
                entries.push(entry.clone());
            } else {
                changed = true;
                entries.push(self.entry(reference, array(entry, "conditions"), about));
            }
        }
        changed |= !wanted.is_empty();
        let added =
            wanted.into_iter().map(|(_, reference, about)| self.entry(reference, &[], about));
        entries.extend(added);
        entries.truncate(MAX_PARENTS);
        changed.then_some(entries)
    }

    fn entry(&self, reference: &Value, current: &[Value], about: &AboutParent) -> Value {
        json!({
            "parentRef": reference,
            "controllerName": self.controller,
            "conditions": self.written(current, &about.told, about.keep),
        })
    }
}

/// The conditions about proxies that are left as they are.
fn kept<'a>(current: &'a [Value], told: &[Told], keep: bool) -> Vec<&'a Value> {
    let about = ["Programmed", PROXY_UNSUPPORTED].into_iter().filter(|_| keep);
    let left = about.filter(|kind| told.iter().all(|told| told.kind != *kind));
    left.filter_map(|kind| of_type(current, kind)).collect()
}

/// More entries than this are refused by the schemas.
const MAX_PARENTS: usize = 32;

fn of_type<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind))
}

/// The references to Servers for which there is something to say, as the route spells them.
fn wanted<'a>(
    kind: Kind,
    item: &'a Item,
    about: &'a [AboutParent],
) -> Vec<(Place, &'a Value, &'a AboutParent)> {
    let namespace: Arc<str> = item.metadata.namespace.as_str().into();
    let mut wanted: Vec<(Place, &Value, &AboutParent)> = Vec::new();
    for reference in array(&item.spec, "parentRefs") {
        let place = Place::of(kind, &namespace, Some(reference));
        let Some(place) = place else { continue };
        let about = about.iter().find(|about| place.is(about));
        if let Some(about) = about.filter(|_| wanted.iter().all(|(other, _, _)| *other != place)) {
            wanted.push((place, reference, about));
        }
    }
    wanted
}

/// A reference to a Server with its defaults applied.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    server: ObjectKey,
    section: Option<Arc<str>>,
    port: Option<u16>,
}

impl Place {
    /// None where it is not a Server that is named.
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
        (kind == Kind::Server).then_some(Self { server, section, port })
    }

    fn is(&self, about: &AboutParent) -> bool {
        self.server == about.server && self.section == about.section && self.port == about.port
    }
}

#[cfg(test)]
mod tests;
