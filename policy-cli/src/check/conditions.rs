//! What the controller would tell an object about itself: references that lead nowhere, routes that
//! no protocol carries, limits that another one displaces.

use super::Finding;
use super::places::Places;
use policy_controller::Compiled;
use policy_controller::conditions::{ConditionKind, ObjectCondition, Reason};
use policy_crds::{Body, ObjectKey};
use serde_json::Value;

pub(super) fn findings(compiled: &Compiled, places: &mut Places) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (object, conditions) in &compiled.conditions {
        // What breaks a rule has been reported where it breaks it.
        let invalid = compiled
            .objects
            .iter()
            .any(|o| o.meta.key == *object && matches!(o.body, Body::Invalid(_)));
        for condition in conditions.iter().filter(|condition| worth_saying(condition)) {
            if !(invalid || condition.reason == Reason::Invalid) {
                findings.push(finding(object, condition, places));
            }
        }
    }
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

fn finding(object: &ObjectKey, condition: &ObjectCondition, places: &mut Places) -> Finding {
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
    Finding { object: object.clone(), field, message }
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
