//! Pod templates of kinds that are not known, such as those of operators: no answer here is about their pods.

use policy_crds::{join_index, join_key};
use policy_webhooks::injector::templates;
use serde_json::Value;

/// The paths of the pod templates in an object of a kind of which none is known, in order.
pub(crate) fn unread_templates(object: &Value) -> Vec<String> {
    let group = object.get("apiVersion").and_then(Value::as_str);
    let is_of_others = group.and_then(|it| it.split_once('/')).is_some_and(|(group, _)| {
        // Kubernetes' own kinds have their templates where they are looked for.
        group.contains('.') && !group.ends_with(".k8s.io") || group.ends_with(".x-k8s.io")
    });
    let mut found = Vec::new();
    if is_of_others && templates(object).is_empty() {
        walk(object, "", &mut found);
    }
    found
}

fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
    let containers = value.pointer("/spec/containers").and_then(Value::as_array);
    if containers.is_some_and(|it| it.iter().any(|it| it.get("image").is_some())) {
        found.push(path.to_owned());
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                walk(value, &join_key(path, key), found);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                walk(value, &join_index(path, at), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The remark about such templates.
pub(crate) fn remark(paths: &[String]) -> String {
    let (what, is) = match paths.len() {
        1 => ("the pod template at", "is"),
        _ => ("the pod templates at", "are"),
    };
    let at: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
    format!(
        "{what} {} {is} of a kind that is not known here: the injector of a cluster gives such pods a sidecar \
         where they or their namespace ask for it",
        at.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_of_operators_are_found_and_those_that_are_read_are_left_out() {
        let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
        let ray = json!({
            "apiVersion": "ray.io/v1", "kind": "RayCluster",
            "spec": {"headGroupSpec": {"template": pod}, "workerGroupSpecs": [{"template": pod}]},
        });
        let paths = ["spec.headGroupSpec.template", "spec.workerGroupSpecs[0].template"];
        assert_eq!(unread_templates(&ray), paths);
        let sets = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "spec": {"replicatedJobs": [{"template": {"spec": {"template": pod}}}]},
        });
        assert_eq!(unread_templates(&sets), ["spec.replicatedJobs[0].template.spec.template"]);
        for (version, kind) in
            [("argoproj.io/v1alpha1", "Rollout"), ("apps/v1", "Deployment"), ("a.example/v1", "A")]
        {
            let read = json!({"apiVersion": version, "kind": kind, "spec": {"template": pod}});
            assert_eq!(unread_templates(&read), Vec::<String>::new(), "{kind}");
        }
    }
}
