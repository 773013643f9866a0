//! The pods that a workload stands for.

use crate::kind::Kind;
use crate::object::{Body, Object, ObjectKey, ObjectMeta};
use crate::resource::{Pod, Resource, WorkloadResource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pods an object stands for: a Pod itself, and for a valid Deployment, StatefulSet, DaemonSet,
/// ReplicaSet, Job or CronJob named `web` the pods `web-0`, `web-1`, … of its template, without
/// times, uids or addresses; at least one, unless another object controls it. Nothing for any other
/// object.
pub fn pods_of(object: &Object) -> Vec<Object> {
    match &object.body {
        Body::Valid(Resource::Pod(_)) => vec![object.clone()],
        Body::Valid(Resource::Workload(workload)) => {
            // A workload that is scaled to zero has policies for the pods of later. What another controls,
            // as a Deployment its former ReplicaSets, has none.
            let count = workload.replicas.max(u32::from(!workload.is_controlled));
            let numbers = workload.first..workload.first.saturating_add(count);
            numbers.map(|number| pod(object, workload, number)).collect()
        }
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    }
}

/// The name of a pod with the kind of its owner in it: `web-rollout-0` of `rollout/web` and `web-0`. For
/// pods whose name another workload's pod has. `None` if the pod is not named after its owner.
pub fn name_with_kind(owner: &str, pod: &str) -> Option<String> {
    let (kind, name) = owner.split_once('/')?;
    let index = pod.strip_prefix(name)?.strip_prefix('-')?;
    Some(format!("{name}-{kind}-{index}"))
}

fn pod(object: &Object, workload: &WorkloadResource, index: u32) -> Object {
    let owner = &object.meta.key;
    let key = ObjectKey {
        kind: Kind::Pod,
        namespace: owner.namespace.clone(),
        name: format!("{}-{index}", owner.name).into(),
    };
    let meta = ObjectMeta {
        key,
        labels: labels(object, workload, index),
        annotations: workload.annotations.clone(),
        created: None,
        uid: None,
        generation: None,
        is_ending: false,
        recorded: None,
    };
    let owner = format!("{}/{}", owner.kind.as_str().to_ascii_lowercase(), owner.name);
    let pod = Pod { owner: Some(owner.into()), ..workload.pod.clone() };
    Object { meta, body: Body::Valid(Resource::Pod(pod)) }
}

/// The labels of a pod: those of the template, and those that Kubernetes' controllers add, as far as they
/// can be known before there is a pod. A hash of the template cannot.
fn labels(owner: &Object, workload: &WorkloadResource, index: u32) -> BTreeMap<Arc<str>, Arc<str>> {
    let ObjectKey { kind, name, .. } = &owner.meta.key;
    let mut labels = workload.labels.clone();
    let mut add = |key: &str, value: String| labels.insert(key.into(), value.into());
    if *kind == Kind::StatefulSet {
        add("statefulset.kubernetes.io/pod-name", format!("{name}-{index}"));
        add("apps.kubernetes.io/pod-index", index.to_string());
    } else if *kind == Kind::Job {
        // Both names are written by every supported version of Kubernetes.
        add("batch.kubernetes.io/job-name", name.to_string());
        add("job-name", name.to_string());
        if workload.indexed {
            add("batch.kubernetes.io/job-completion-index", index.to_string());
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn labels_of(kind: (&str, &str), spec: Value) -> Vec<(String, Vec<String>)> {
        let mut spec = spec;
        spec["template"] = json!({
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        });
        let (api_version, kind) = kind;
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": "db"}, "spec": spec,
        });
        let pods = pods_of(&crate::parse(&object).unwrap());
        let text = |(key, value): (&Arc<str>, &Arc<str>)| format!("{key}={value}");
        pods.iter()
            .map(|pod| (pod.meta.key.name.to_string(), pod.meta.labels.iter().map(text).collect()))
            .collect()
    }

    #[test]
    fn pods_have_the_labels_that_their_controller_adds() {
        let owned = |name: &str, labels: &[&str]| {
            (name.to_owned(), labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>())
        };
        let stateful =
            labels_of(("apps/v1", "StatefulSet"), json!({"replicas": 2, "ordinals": {"start": 3}}));
        assert_eq!(
            stateful,
            [3, 4].map(|index| {
                let pod_index = format!("apps.kubernetes.io/pod-index={index}");
                let pod_name = format!("statefulset.kubernetes.io/pod-name=db-{index}");
                owned(&format!("db-{index}"), &["app=db", &pod_index, &pod_name])
            })
        );
        let job = ["app=db", "batch.kubernetes.io/job-name=db", "job-name=db"];
        assert_eq!(labels_of(("batch/v1", "Job"), json!({})), [owned("db-0", &job)]);
        let indexed = [
            "app=db",
            "batch.kubernetes.io/job-completion-index=0",
            "batch.kubernetes.io/job-name=db",
            "job-name=db",
        ];
        assert_eq!(
            labels_of(("batch/v1", "Job"), json!({"completionMode": "Indexed"})),
            [owned("db-0", &indexed)]
        );
        assert_eq!(labels_of(("apps/v1", "Deployment"), json!({})), [owned("db-0", &["app=db"])]);
    }

    #[test]
    fn a_former_replica_set_of_a_deployment_has_no_pods() {
        let pods = |replicas: u32, owners: Value| {
            let object = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"name": "web-1", "ownerReferences": owners},
                "spec": {
                    "replicas": replicas,
                    "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}},
                },
            });
            pods_of(&crate::parse(&object).unwrap()).len()
        };
        let controlled = json!([{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "a",
            "controller": true,
        }]);
        assert_eq!(pods(0, controlled.clone()), 0);
        assert_eq!(pods(2, controlled), 2);
        assert_eq!(pods(0, json!([])), 1);
    }
}
