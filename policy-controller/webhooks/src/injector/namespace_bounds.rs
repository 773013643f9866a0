//! LimitRanges and ResourceQuotas of a namespace, which refuse pods because of the containers that
//! injection adds.

use super::dry_run::{CONTROL_PLANE, DryRun, settings};
use super::effective_config::is_annotated;
use super::element::{containers, items, text};
use super::inject::{Outcome, inject};
use super::left_alone::left_alone;
use super::opt_in::NamespaceContext;
use super::quantity::{exceeds, is_more, shown, value};
use super::resources::{ContainerSize, of_pod, quantity};
use super::setting::{OWN, Setting};
use super::sidecar::{INIT, PROXY};
use super::sized_container::{ContainerSizes, RangeRule, SizedContainer};
use policy_crds::FieldError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The field of the errors: annotations mend them.
const FIELD: &str = "metadata.annotations";

/// The LimitRanges and ResourceQuotas of a namespace, as far as they bound containers. Each rule keeps the
/// strictest of its bounds, so that the cost of a pod does not grow with their number.
#[derive(Clone, Debug, Default)]
pub struct NamespaceBounds {
    /// Requests that LimitRanges give containers without them.
    default_requests: Map<String, Value>,
    /// Limits that LimitRanges give containers without them.
    default_limits: Map<String, Value>,
    /// The LimitRange that gives each of these limits.
    defaulting: BTreeMap<String, String>,
    /// The strictest bound by resource and rule.
    bounds: BTreeMap<(String, RangeRule), RangeBound>,
    /// The ResourceQuota that allows least of a resource, by its name there: `limits.cpu`.
    counted: BTreeMap<String, RangeBound>,
    /// The least maximum of a pod as a whole, by resource.
    per_pod: BTreeMap<String, RangeBound>,
}

/// A bound, and the LimitRange or ResourceQuota that states it.
#[derive(Clone, Debug)]
struct RangeBound {
    quantity: String,
    range: String,
}

impl NamespaceBounds {
    /// Adds a LimitRange or a ResourceQuota; of any other object, nothing. Minima and ratios of pods as a
    /// whole, and quotas with scopes, are left out.
    pub fn add(&mut self, object: &Value) {
        match text(object, "kind") {
            Some("LimitRange") => self.add_range(object),
            Some("ResourceQuota") => self.add_quota(object),
            Some(_) | None => {}
        }
    }

    fn add_range(&mut self, range: &Value) {
        let name = named(range);
        for item in items_of(range, "Pod") {
            for (resource, maximum) in &part(item, RangeRule::Max.pointer()) {
                lower(&mut self.per_pod, resource, maximum, &name);
            }
        }
        for item in items_of(range, "Container") {
            // The defaults of the defaults (SetDefaults_LimitRangeItem).
            let defaults = or(part(item, "/default"), &part(item, "/max"));
            let requests = or(or(part(item, "/defaultRequest"), &defaults), &part(item, "/min"));
            for resource in defaults.keys() {
                self.defaulting.entry(resource.clone()).or_insert_with(|| name.clone());
            }
            self.default_requests = or(std::mem::take(&mut self.default_requests), &requests);
            self.default_limits = or(std::mem::take(&mut self.default_limits), &defaults);
            for rule in [RangeRule::Min, RangeRule::Max, RangeRule::Ratio] {
                for (resource, bound) in &part(item, rule.pointer()) {
                    let Some(quantity) = quantity(Some(bound)) else { continue };
                    let key = (resource.clone(), rule);
                    let known = self.bounds.get(&key);
                    if known.is_none_or(|known| rule.is_stricter(&quantity, &known.quantity)) {
                        self.bounds.insert(key, RangeBound { quantity, range: name.clone() });
                    }
                }
            }
        }
    }

    fn add_quota(&mut self, quota: &Value) {
        let is_given = |pointer: &str| {
            quota.pointer(pointer).and_then(Value::as_array).is_some_and(|all| !all.is_empty())
        };
        if is_given("/spec/scopes") || is_given("/spec/scopeSelector/matchExpressions") {
            return;
        }
        let name = named(quota);
        for (counted, hard) in &part(quota, "/spec/hard") {
            lower(&mut self.counted, counted, hard, &name);
        }
    }

    /// Returns the errors of a pod that is injected, each with the annotation that mends it. They judge as
    /// the API server's admission does (<https://kubernetes.io/docs/concepts/policy/limit-range/>), of the
    /// added containers alone: of each container and resource, one error about LimitRanges, and one about
    /// each quantity that a quota counts. The sizes that neither the pod nor its namespace states are those
    /// of an installation without defaults of its own: where it may have others, the error is a warning.
    pub fn errors(&self, pod: &Value, context: &NamespaceContext) -> DryRun {
        let mut found = DryRun::default();
        let bounds_nothing = self.bounds.is_empty()
            && self.counted.is_empty()
            && self.per_pod.is_empty()
            && self.default_limits.is_empty();
        if bounds_nothing || left_alone(context, CONTROL_PLANE).is_some() {
            return found;
        }
        let Outcome::Injected { pod: injected, .. } = inject(pod, context, &settings()) else {
            return found;
        };
        let sized = |wanted: &str| {
            let mut all = containers(&injected);
            let container = all.find(|(_, it)| text(it, "name") == Some(wanted));
            container.map(|(_, container)| self.sizes(container)).unwrap_or_default()
        };
        let proxy = sized(PROXY);
        for (name, sizes) in [(INIT, &sized(INIT)), (PROXY, &proxy)] {
            for fault in self.faults(&SizedContainer { name, sizes, proxy: &proxy }) {
                let is_stated =
                    fault.setting.is_none_or(|setting| is_annotated(setting, pod, context));
                let message = fault.message(is_stated);
                let list = if is_stated { &mut found.refused } else { &mut found.warned };
                list.push(FieldError { field: FIELD.to_owned(), message });
            }
        }
        let overdrawn = self.overdrawn(pod, &injected).into_iter();
        found.warned.extend(overdrawn.map(|message| FieldError { field: String::new(), message }));
        found
    }

    /// Bounds of a pod that is above them because of its sidecar: quotas that are smaller than one pod, and
    /// maxima of pods.
    fn overdrawn(&self, pod: &Value, injected: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |bound: &RangeBound, size: ContainerSize, resource: &str, what: &str| {
            let (Some(most), true) = (value(&bound.quantity), is_sized(resource)) else { return };
            let with_sidecar = of_pod(injected, size, resource);
            if is_more(with_sidecar, most) && !is_more(of_pod(pod, size, resource), most) {
                let RangeBound { quantity, range } = bound;
                let needs = shown(resource, with_sidecar);
                found.push(format!(
                    "{range} allows {quantity} of {what}, and this one needs {needs} with its sidecar, so \
                     that it is not created"
                ));
            }
        };
        for (counted, bound) in &self.counted {
            let (size, resource) = counted_size(counted);
            compare(bound, size, resource, &format!("{counted} for all pods together"));
        }
        for (resource, bound) in &self.per_pod {
            for (size, name) in
                [(ContainerSize::Request, "requests"), (ContainerSize::Limit, "limits")]
            {
                compare(bound, size, resource, &format!("{resource} for the {name} of a pod"));
            }
        }
        found
    }

    /// The sizes of a container: its own, else those that LimitRanges give it. A request that is missing
    /// beside a limit is that limit.
    fn sizes(&self, container: &Value) -> ContainerSizes {
        let own = part(container, "/resources/limits");
        let requests = or(part(container, "/resources/requests"), &own);
        let given = self.default_limits.keys().filter(|resource| !own.contains_key(*resource));
        ContainerSizes {
            given: given.cloned().collect(),
            requests: or(requests, &self.default_requests),
            limits: or(own, &self.default_limits),
        }
    }

    /// Everything about a container that refuses its pod.
    fn faults(&self, container: &SizedContainer<'_>) -> Vec<ContainerFault> {
        let name = container.name;
        let mut found = BTreeMap::new();
        for ((resource, rule), bound) in &self.bounds {
            if found.contains_key(resource) {
                continue;
            }
            if let Some((fault, setting)) = container.against(*rule, resource, &bound.quantity) {
                let (by, fault) = (bound.range.clone(), format!("container {name} {fault}"));
                found.insert(resource.clone(), ContainerFault { by, fault, setting });
            }
        }
        for (resource, range) in &self.defaulting {
            if let Some(fault) = container.above_default(resource) {
                let (by, fault) = (range.clone(), format!("container {name} {fault}"));
                let setting = container.setting(ContainerSize::Limit, resource);
                let fault = ContainerFault { by, fault, setting };
                found.entry(resource.clone()).or_insert(fault);
            }
        }
        let mut found: Vec<ContainerFault> = found.into_values().collect();
        for (counted, quota) in &self.counted {
            let (size, resource) = counted_size(counted);
            if is_sized(resource) && container.quantity(size, resource).is_none() {
                let fault = format!("it counts {counted}, which container {name} does not state");
                let setting = container.setting(size, resource);
                found.push(ContainerFault { by: quota.range.clone(), fault, setting });
            }
        }
        found
    }
}

/// The size and the resource that a quota counts under a name: `limits.cpu`, `requests.cpu` or `cpu`.
fn counted_size(counted: &str) -> (ContainerSize, &str) {
    match counted.split_once('.') {
        Some(("limits", resource)) => (ContainerSize::Limit, resource),
        Some(("requests", resource)) => (ContainerSize::Request, resource),
        Some(_) | None => (ContainerSize::Request, counted),
    }
}

/// True if a quota asks each container for this resource.
fn is_sized(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource)
}

/// A reason why a pod is refused.
struct ContainerFault {
    /// The LimitRange or ResourceQuota.
    by: String,
    fault: String,
    /// The setting that mends it, if there is one.
    setting: Option<Setting>,
}

impl ContainerFault {
    /// The message. `is_certain`: no default of an installation changes the size.
    fn message(&self, is_certain: bool) -> String {
        let Self { by, fault, setting } = self;
        let unless = match is_certain {
            true => "",
            false => ", unless the installation's `injector.defaults` set it",
        };
        let mend = match setting {
            Some(setting) => format!("`{OWN}{}` sets it", setting.name()),
            None => "no annotation sets it".to_owned(),
        };
        format!("{by} refuses the pod with its sidecar: {fault}{unless}; {mend}")
    }
}

/// A map within an object; an empty one where there is none.
fn part(value: &Value, pointer: &str) -> Map<String, Value> {
    value.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The entries of a map, and those of `others` that it does not have.
fn or(mut map: Map<String, Value>, others: &Map<String, Value>) -> Map<String, Value> {
    for (name, value) in others {
        map.entry(name.clone()).or_insert_with(|| value.clone());
    }
    map
}

/// The items of a LimitRange of a type.
fn items_of<'a>(range: &'a Value, wanted: &'a str) -> impl Iterator<Item = &'a Value> {
    let limits = range.get("spec").map_or(&[][..], |spec| items(spec, "limits"));
    limits.iter().filter(move |item| text(item, "type") == Some(wanted))
}

/// Keeps the lower one of the bound that is known and another.
fn lower(known: &mut BTreeMap<String, RangeBound>, name: &str, bound: &Value, by: &str) {
    let quantity = quantity(Some(bound)).unwrap_or_default();
    if known.get(name).is_none_or(|known| exceeds(&known.quantity, &quantity)) {
        known.insert(name.to_owned(), RangeBound { quantity, range: by.to_owned() });
    }
}

/// `Kind namespace/name` of an object.
fn named(object: &Value) -> String {
    let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let namespace = part("/metadata/namespace").filter(|it| !it.is_empty()).unwrap_or("default");
    let name = part("/metadata/name").unwrap_or_default();
    format!("{} {namespace}/{name}", text(object, "kind").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The errors and the warnings of a pod with these annotations.
    fn faults(namespace: &str, annotations: &Value, objects: &[Value]) -> [Vec<String>; 2] {
        let pod = json!({"metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "a", "image": "a"}]}});
        let mut context = NamespaceContext::unknown(namespace);
        context.annotations.insert("portcullis.dev/inject".to_owned(), "enabled".to_owned());
        let mut bounds = NamespaceBounds::default();
        objects.iter().for_each(|object| bounds.add(object));
        let found = bounds.errors(&pod, &context);
        let shown = |error: &FieldError| match error.field.is_empty() {
            true => error.message.clone(),
            false => error.to_string(),
        };
        [found.refused, found.warned].map(|all| all.iter().map(shown).collect())
    }

    /// The one that is found, without what all have in common, and whether it is certain.
    fn fault(annotations: &Value, objects: &[Value]) -> (bool, String) {
        let [errors, warnings] = faults("shop", annotations, objects);
        let all = [&errors[..], &warnings].concat();
        let [fault] = &all[..] else { panic!("{all:?}") };
        let (_, fault) = fault.split_once("its sidecar: ").unwrap();
        let fault = fault.replace(", unless the installation's `injector.defaults` set it", "");
        (!errors.is_empty(), fault.replace("portcullis.dev/", ""))
    }

    fn range(item: Value) -> Value {
        let mut item = item;
        item["type"] = json!("Container");
        json!({"kind": "LimitRange", "metadata": {"name": "sizes", "namespace": "shop"},
            "spec": {"limits": [item]}})
    }

    const NONE: [Vec<String>; 2] = [Vec::new(), Vec::new()];

    #[test]
    fn a_minimum_holds_for_both_containers_and_one_annotation_raises_both() {
        let ranges = [range(json!({"min": {"cpu": "200m", "memory": "8Mi"}}))];
        let of = |name: &str, request: &str| {
            format!(
                "metadata.annotations: LimitRange shop/sizes refuses the pod with its sidecar: container \
                 {name} requests {request} of cpu; the minimum is 200m, unless the installation's \
                 `injector.defaults` set it; `portcullis.dev/proxy-cpu-request` sets it"
            )
        };
        assert_eq!(
            faults("shop", &json!({}), &ranges),
            [vec![], vec![of("portcullis-init", "100m"), of("portcullis-proxy", "10m")]]
        );
        let raised = json!({"portcullis.dev/proxy-cpu-request": "200m"});
        assert_eq!(faults("shop", &raised, &ranges), NONE);
    }

    #[test]
    fn what_the_author_states_is_an_error_because_no_default_changes_it() {
        let ranges = [range(json!({"min": {"cpu": "200m"}}))];
        let stated = json!({"portcullis.dev/proxy-cpu-request": "150m"});
        let of = |name: &str| {
            format!(
                "metadata.annotations: LimitRange shop/sizes refuses the pod with its sidecar: container \
                 {name} requests 150m of cpu; the minimum is 200m; `portcullis.dev/proxy-cpu-request` sets it"
            )
        };
        let both = vec![of("portcullis-init"), of("portcullis-proxy")];
        assert_eq!(faults("shop", &stated, &ranges), [both, vec![]]);
    }

    #[test]
    fn pods_that_get_no_sidecar_are_not_judged() {
        let ranges = [range(json!({"min": {"cpu": "200m"}}))];
        for namespace in ["kube-system", CONTROL_PLANE] {
            assert_eq!(faults(namespace, &json!({}), &ranges), NONE, "{namespace}");
        }
    }

    #[test]
    fn each_fault_names_the_setting_that_mends_it() {
        let of = |name: &str, fault: &str| format!("container portcullis-{name} {fault}");
        let proxy =
            |setting: &str, value: &str| json!({format!("portcullis.dev/proxy-{setting}"): value});
        for (annotations, item, expected) in [
            (
                json!({}),
                json!({"max": {"cpu": "50m"}}),
                of("init", "has a limit of 100m of cpu; the maximum is 50m; `init-cpu` sets it"),
            ),
            (
                proxy("cpu-limit", "1"),
                json!({"maxLimitRequestRatio": {"cpu": 4}}),
                of(
                    "proxy",
                    "has a limit of 1 and a request of 10m of cpu; the limit may be at most 4 times the \
                     request; `proxy-cpu-request` sets it",
                ),
            ),
            (
                json!({}),
                json!({"maxLimitRequestRatio": {"memory": 2}}),
                of(
                    "proxy",
                    "has no limit of memory; the limit may be at most 2 times the request; \
                     `proxy-memory-limit` sets it",
                ),
            ),
            (
                proxy("cpu-request", "30m"),
                json!({"default": {"cpu": "20m"}}),
                of(
                    "proxy",
                    "requests 30m of cpu, above the limit 20m that it gets by default; `proxy-cpu-limit` \
                     sets it",
                ),
            ),
        ] {
            assert_eq!(fault(&annotations, &[range(item)]), (false, expected));
        }
    }

    #[test]
    fn a_request_of_the_sidecar_above_a_maximum_is_named_for_both_containers() {
        let annotations = json!({"portcullis.dev/proxy-cpu-request": "300m"});
        let [errors, warnings] =
            faults("shop", &annotations, &[range(json!({"max": {"cpu": "200m"}}))]);
        let of = |fault: &str| {
            format!(
                "metadata.annotations: LimitRange shop/sizes refuses the pod with its sidecar: container \
                 {fault}; the maximum is 200m; `portcullis.dev/proxy-cpu-request` sets it"
            )
        };
        assert_eq!(
            errors,
            [
                of("portcullis-init has a limit of 300m of cpu"),
                of("portcullis-proxy requests 300m of cpu")
            ]
        );
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[test]
    fn of_several_limit_ranges_the_strictest_is_named_once() {
        let ranges = ["20m", "40m", "30m"].map(|cpu| range(json!({"min": {"cpu": cpu}})));
        let expected = "container portcullis-proxy requests 10m of cpu; the minimum is 40m; \
                        `proxy-cpu-request` sets it";
        assert_eq!(fault(&json!({}), &ranges), (false, expected.to_owned()));
    }

    #[test]
    fn a_quota_asks_for_what_it_counts_unless_a_limit_range_gives_it() {
        let quota = json!({"kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "shop"},
            "spec": {"hard": {"limits.cpu": "4", "requests.cpu": "2", "pods": "9"}, "scopes": []}});
        let expected = "it counts limits.cpu, which container portcullis-proxy does not state; \
                        `proxy-cpu-limit` sets it";
        assert_eq!(
            fault(&json!({}), std::slice::from_ref(&quota)),
            (false, expected.to_owned()),
            "an empty list of scopes is none"
        );
        let given = range(json!({"default": {"cpu": "1"}}));
        assert_eq!(faults("shop", &json!({}), &[quota.clone(), given]), NONE);
        let all_of = |cpu: &str| {
            let mut quota = quota.clone();
            quota["spec"]["hard"] = json!({"requests.cpu": cpu});
            quota
        };
        let stated = json!({"portcullis.dev/proxy-cpu-request": "300m"});
        let [_, warnings] = faults("shop", &stated, &[all_of("1"), all_of("200m")]);
        let expected = "ResourceQuota shop/all allows 200m of requests.cpu for all pods together, and this \
                        one needs 300m with its sidecar, so that it is not created";
        assert_eq!(warnings, [expected]);
        let whole = json!({"kind": "LimitRange", "metadata": {"name": "pods", "namespace": "shop"},
            "spec": {"limits": [{"type": "Pod", "max": {"memory": "100Mi"}}]}});
        let stated = json!({"portcullis.dev/proxy-memory-limit": "128Mi"});
        let expected = "LimitRange shop/pods allows 100Mi of memory for the limits of a pod, and this one \
                        needs 128Mi with its sidecar, so that it is not created";
        assert_eq!(faults("shop", &stated, &[whole]), [vec![], vec![expected.to_owned()]]);
        let mut scoped = quota;
        scoped["spec"]["scopes"] = json!(["BestEffort"]);
        assert_eq!(faults("shop", &json!({}), &[scoped]), NONE);
    }
}
