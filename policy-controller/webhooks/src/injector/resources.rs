//! Requests of containers above their limits: an API server refuses such a pod.

use super::element::containers;
use super::quantity::exceeds;
use super::setting::Setting;
use policy_crds::FieldError;
use serde_json::Value;

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

/// A quantity, which YAML may write as a number.
pub(super) fn quantity(value: Option<&Value>) -> Option<String> {
    let number = || value.filter(|value| value.is_number()).map(Value::to_string);
    value.and_then(Value::as_str).map(str::to_owned).or_else(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
