//! Requests of containers above their limits, and sizes of a pod as a whole that its containers exceed: an API
//! server refuses such a pod.

use super::element::{containers, list, text};
use super::quantity::{self, exceeds};
use super::setting::Setting;
use super::sidecar::{INIT, PROXY};
use policy_crds::FieldError;
use serde_json::Value;
use std::cmp::Ordering;

/// The settings of the sidecar that bound each other: request and limit.
pub(super) const PAIRS: [(Setting, Setting); 3] = [
    (Setting::ProxyCpuRequest, Setting::ProxyCpuLimit),
    (Setting::ProxyMemoryRequest, Setting::ProxyMemoryLimit),
    (Setting::ProxyEphemeralStorageRequest, Setting::ProxyEphemeralStorageLimit),
];

/// Returns the message about a request above its limit, if it is.
pub(super) fn message(request: &str, limit: &str) -> Option<String> {
    exceeds(request, limit).then(|| {
        format!("the request `{request}` is above the limit `{limit}`, so that no pod is created")
    })
}

/// Returns the requests of a pod's own containers that are above their limits.
pub(super) fn above_limits(pod: &Value) -> Vec<FieldError> {
    let mut found = Vec::new();
    for (place, container) in containers(pod) {
        let part = |name: &str| container.pointer(&format!("/resources/{name}"));
        let (Some(requests), Some(limits)) = (part("requests"), part("limits")) else { continue };
        for resource in requests.as_object().into_iter().flatten().map(|(name, _)| name) {
            let quantities = (quantity(requests.get(resource)), quantity(limits.get(resource)));
            let (Some(request), Some(limit)) = quantities else { continue };
            if let Some(message) = message(&request, &limit) {
                let field = format!("{place}.resources.requests.{resource}");
                found.push(FieldError { field, message });
            }
        }
    }
    found
}

/// The settings that size the added containers, by resource.
const SIZES: [(&str, [Setting; 3]); 2] = [
    ("cpu", [Setting::ProxyCpuRequest, Setting::ProxyCpuLimit, Setting::InitCpu]),
    ("memory", [Setting::ProxyMemoryRequest, Setting::ProxyMemoryLimit, Setting::InitMemory]),
];

/// True if a setting sizes a resource that the pod states as a whole (`spec.resources`).
pub(super) fn is_of_whole_pod(setting: Setting, pod: &Value) -> bool {
    SIZES.iter().any(|(resource, settings)| {
        let states =
            |part: &str| pod.pointer(&format!("/spec/resources/{part}/{resource}")).is_some();
        settings.contains(&setting) && ["requests", "limits"].iter().any(|part| states(part))
    })
}

/// Returns the sizes of an injected pod as a whole that an added container exceeds, or the containers
/// together because of them (<https://kubernetes.io/docs/concepts/workloads/pods/pod-level-resources/>).
pub(super) fn above_whole_pod(pod: &Value) -> Vec<FieldError> {
    let mut found = Vec::new();
    for (resource, [request, sidecar_limit, init]) in SIZES {
        let whole =
            |part: &str| quantity(pod.pointer(&format!("/spec/resources/{part}/{resource}")));
        let field = |part: &str| format!("spec.resources.{part}.{resource}");
        if let Some(whole) = whole("requests") {
            let sum = total(pod, ContainerSize::Request, resource, |_| true);
            let own =
                total(pod, ContainerSize::Request, resource, |container| !is_added(container));
            if is_above(sum, &whole) && !is_above(own, &whole) {
                let sum = quantity::shown(resource, sum);
                // A request that is missing beside a limit is that limit.
                let states = |part: &str, name: &str| {
                    let mut added =
                        containers(pod).map(|(_, it)| it).filter(|it| is_named(it, name));
                    added.any(|it| it.pointer(&format!("/resources/{part}/{resource}")).is_some())
                };
                let of_proxy = if states("requests", PROXY) { request } else { sidecar_limit };
                let of_init = states("requests", INIT).then_some(init);
                let sized: Vec<String> =
                    [of_proxy].into_iter().chain(of_init).map(|it| written(pod, it)).collect();
                let message = format!(
                    "`{whole}` is below the {sum} that the containers request together with the \
                     sidecar, so that no pod is created; its part is that of {}",
                    sized.join(" and ")
                );
                found.push(FieldError { field: field("requests"), message });
            }
        }
        let Some(whole) = whole("limits") else { continue };
        for (_, container) in containers(pod).filter(|(_, container)| is_added(container)) {
            let limit = quantity(container.pointer(&format!("/resources/limits/{resource}")));
            if let Some(limit) = limit.filter(|limit| exceeds(limit, &whole)) {
                let name = text(container, "name").unwrap_or_default();
                let setting = if name == INIT { init } else { sidecar_limit };
                let message = format!(
                    "`{whole}` is below the limit {limit} of container {name}, so that no pod is created; \
                     it is that of {}",
                    written(pod, setting)
                );
                found.push(FieldError { field: field("limits"), message });
            }
        }
    }
    found
}

fn is_added(container: &Value) -> bool {
    is_named(container, INIT) || is_named(container, PROXY)
}

fn is_named(container: &Value, name: &str) -> bool {
    text(container, "name") == Some(name)
}

/// The annotation by which a pod states a setting, or would.
fn written(pod: &Value, setting: Setting) -> String {
    let stated = pod.pointer("/metadata/annotations");
    let is_stated = |name: &&String| stated.and_then(|all| all.get(name.as_str())).is_some();
    let names = setting.annotations();
    let name = names.iter().find(is_stated).or(names.first());
    format!("`{}`", name.map_or("", String::as_str))
}

fn is_above(sum: f64, bound: &str) -> bool {
    quantity::value(bound).is_some_and(|bound| quantity::is_more(sum, bound))
}

/// A size of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerSize {
    Request,
    Limit,
}

impl ContainerSize {
    /// The field with sizes of this kind.
    fn field(self) -> &'static str {
        match self {
            Self::Request => "requests",
            Self::Limit => "limits",
        }
    }
}

/// Returns the sum that a pod needs of a resource by those of its containers that `counts` selects: of all that
/// run at the same time, or of an init container beside the sidecars that started before it.
fn total(pod: &Value, size: ContainerSize, resource: &str, counts: impl Fn(&Value) -> bool) -> f64 {
    let of = |container: &Value| {
        let part =
            |name: &str| quantity(container.pointer(&format!("/resources/{name}/{resource}")));
        let size = match size {
            ContainerSize::Limit => part("limits"),
            // A request that is missing beside a limit is that limit.
            ContainerSize::Request => part("requests").or_else(|| part("limits")),
        };
        size.and_then(|size| quantity::value(&size)).unwrap_or_default()
    };
    let (mut sidecars, mut most) = (0.0, 0.0);
    for container in list(pod, "initContainers").iter().filter(|it| counts(it)) {
        let needs = of(container) + sidecars;
        if text(container, "restartPolicy") == Some("Always") {
            sidecars = needs;
        }
        most = larger(most, needs);
    }
    let running: f64 = list(pod, "containers").iter().filter(|it| counts(it)).map(of).sum();
    larger(most, running + sidecars)
}

/// Returns what a quota counts of a pod: its size as a whole, or else the sum of its containers.
pub(super) fn of_pod(pod: &Value, size: ContainerSize, resource: &str) -> f64 {
    let whole = quantity(pod.pointer(&format!("/spec/resources/{}/{resource}", size.field())));
    let whole = whole.and_then(|whole| quantity::value(&whole));
    whole.unwrap_or_else(|| total(pod, size, resource, |_| true))
}

fn larger(one: f64, other: f64) -> f64 {
    if one.total_cmp(&other) == Ordering::Less { other } else { one }
}

/// A quantity, which YAML may write as a number.
pub(super) fn quantity(value: Option<&Value>) -> Option<String> {
    let number = || value.filter(|value| value.is_number()).map(Value::to_string);
    value.and_then(Value::as_str).map(str::to_owned).or_else(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pod with sizes of its own as a whole, injected with these annotations.
    fn injected(whole: Value, annotations: Value) -> Value {
        use crate::injector::{NamespaceContext, Outcome, inject};
        let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
        let pod = json!({"metadata": {"annotations": annotations}, "spec": {"resources": whole,
            "containers": [{"name": "a", "image": "a", "resources": resources}]}});
        let mut context = NamespaceContext::unknown("shop");
        context.annotations.insert("portcullis.dev/inject".to_owned(), "enabled".to_owned());
        match inject(&pod, &context, &crate::injector::dry_run::settings()) {
            Outcome::Injected { pod, .. } => *pod,
            other @ (Outcome::Skipped { .. } | Outcome::Refused(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_that_states_its_sizes_as_a_whole_is_admitted_with_its_sidecar() {
        let whole = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
        let pod = injected(whole, json!({}));
        let sizes: Vec<Value> = containers(&pod).map(|(_, it)| it["resources"].clone()).collect();
        let memory = |part: &str| json!({part: {"memory": "16Mi"}});
        let init = json!({"requests": {"memory": "32Mi"}, "limits": {"memory": "32Mi"}});
        let own = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
        assert_eq!(sizes, [init, memory("requests"), own]);
        assert_eq!(above_whole_pod(&pod), []);
    }

    #[test]
    fn stated_sizes_of_a_sidecar_that_exceed_the_pods_are_named_with_the_pods_field() {
        let annotations = json!({"portcullis.dev/proxy-cpu-request": "10m",
            "config.linkerd.io/proxy-memory-limit": "200Mi"});
        let whole = json!({"requests": {"cpu": "100m"}, "limits": {"memory": "128Mi"}});
        let found = above_whole_pod(&injected(whole, annotations));
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = [
            "spec.resources.requests.cpu: `100m` is below the 110m that the containers request together \
             with the sidecar, so that no pod is created; its part is that of \
             `portcullis.dev/proxy-cpu-request`",
            "spec.resources.limits.memory: `128Mi` is below the limit 200Mi of container \
             portcullis-proxy, so that no pod is created; it is that of \
             `config.linkerd.io/proxy-memory-limit`",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_request_above_its_limit_is_named_with_its_field() {
        let pod = |request: Value, limit: Value| {
            let resources = json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
            json!({"spec": {"containers": [{"name": "a", "resources": resources}]}})
        };
        let found = above_limits(&pod(json!("1500m"), json!(1)));
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        let expected = "spec.containers[0].resources.requests.cpu: the request `1500m` is above the \
                        limit `1`, so that no pod is created";
        assert_eq!(told, [expected]);
        for (request, limit) in [("100m", "0.1"), ("1", "1000m"), ("64Mi", "1Gi"), ("1G", "1Gi")] {
            assert_eq!(above_limits(&pod(json!(request), json!(limit))), [], "{request} {limit}");
        }
    }
}
