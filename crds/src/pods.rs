//! The pods that a workload stands for.

use crate::kind::Kind;
use crate::object::{Body, Object, ObjectKey, ObjectMeta};
use crate::resource::{Pod, Resource, WorkloadResource};

/// The pods an object stands for: a Pod itself, and for a valid Deployment, StatefulSet, DaemonSet,
/// ReplicaSet, Job or CronJob named `web` the pods `web-0`, `web-1`, … of its template, without
/// times, uids or addresses. Nothing for any other object.
pub fn pods_of(object: &Object) -> Vec<Object> {
    match &object.body {
        Body::Valid(Resource::Pod(_)) => vec![object.clone()],
        Body::Valid(Resource::Workload(workload)) => {
            (0..workload.replicas).map(|index| pod(object, workload, index)).collect()
        }
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    }
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
        labels: workload.labels.clone(),
        annotations: workload.annotations.clone(),
        created: None,
        uid: None,
        generation: None,
        recorded: None,
    };
    let owner = format!("{}/{}", owner.kind.as_str().to_ascii_lowercase(), owner.name);
    let pod = Pod { owner: Some(owner.into()), ..workload.pod.clone() };
    Object { meta, body: Body::Valid(Resource::Pod(pod)) }
}
