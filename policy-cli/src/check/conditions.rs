//! What the controller would tell an object about itself: references that lead nowhere, routes that
//! no protocol carries, limits that another one displaces.

use super::finding::{Finding, Unknown};
use super::places::Places;
use super::world::World;
use crate::cluster::unknown;
use policy_crds::{Body, ObjectKey};
use policy_engine::conditions::{ConditionKind, ObjectCondition, Reason};
use policy_engine::source::Severity;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn findings(
    world: &World<'_>,
    places: &mut Places,
    unknown: &mut Vec<Unknown>,
) -> Vec<Finding> {
    let compiled = world.compiled;
    let objects: BTreeMap<_, _> = compiled.objects.iter().map(|o| (&o.meta.key, o)).collect();
    let mut findings = Vec::new();
    for (key, conditions) in &compiled.conditions {
        let Some(object) = objects.get(key) else { continue };
        // What breaks a rule has been reported where it breaks it.
        if matches!(object.body, Body::Invalid(_)) {
            continue;
        }
        let missing = unknown::of_object(object, world.gaps);
        for condition in conditions.iter().filter(|condition| worth_saying(condition)) {
            if condition.reason == Reason::Invalid {
                continue;
            }
            if condition.status || missing.is_empty() {
                findings.push(finding(world, key, condition, places));
            } else {
                let missing = missing.iter().cloned().collect::<Vec<_>>().join(" and ");
                let stated = condition.kind.as_str();
                let message = format!("{stated} is not known, because {missing} may not be listed");
                unknown.push(Unknown { object: key.clone(), message });
            }
        }
    }
    unknown.dedup();
    findings
}

/// Whether something is wrong, or not as it would be with Linkerd. Annotations have been reported
/// where they are.
fn worth_saying(condition: &ObjectCondition) -> bool {
    match condition.kind {
        ConditionKind::Accepted | ConditionKind::ResolvedRefs => !condition.status,
        ConditionKind::PrecedenceDiffers => true,
        ConditionKind::AnnotationsValid => false,
    }
}

/// What leads nowhere is an error where nothing else can be applied beside it.
fn severity(world: &World<'_>, reason: Reason) -> Severity {
    let leads_nowhere = matches!(
        reason,
        Reason::NoMatchingParent
            | Reason::NoMatchingTarget
            | Reason::RefNotFound
            | Reason::RefNotPermitted
            | Reason::RefInvalid
    );
    if leads_nowhere { world.missing() } else { Severity::Warning }
}

fn finding(
    world: &World<'_>,
    object: &ObjectKey,
    condition: &ObjectCondition,
    places: &mut Places,
) -> Finding {
    let value = places.value(object).and_then(|value| value.get("spec"));
    let named =
        condition.parent.as_ref().and_then(|parent| reference(value?, &parent.name, "spec"));
    // Messages name objects as `Kind namespace/name`.
    let told = || {
        let mut words = condition.message.split([' ', '`', ',', ';', ':']);
        words.find_map(|word| reference(value?, word.split_once('/')?.1, "spec"))
    };
    let field = told().or(named).unwrap_or_else(|| "spec".to_owned());
    let message = match (&*condition.message, &condition.parent) {
        ("", Some(parent)) => format!("{} for {parent}", condition.reason.as_str()),
        ("", None) => condition.reason.as_str().to_owned(),
        (message, _) => message.to_owned(),
    };
    let severity = severity(world, condition.reason);
    Finding { object: object.clone(), field, message, severity }
}

/// The path of the reference to an object of this name.
fn reference(value: &Value, name: &str, path: &str) -> Option<String> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("name").and_then(Value::as_str);
            if own.is_some_and(|own| own.eq_ignore_ascii_case(name)) {
                return Some(format!("{path}.name"));
            }
            fields.iter().find_map(|(key, value)| reference(value, name, &format!("{path}.{key}")))
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| reference(item, name, &format!("{path}[{index}]"))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}
