//! Targets of policies that are no workloads: Gateways, waypoints and Services.

use crate::file::SourceNode;
use std::collections::BTreeSet;

/// The namespace and name of a Gateway through which requests come from outside. A waypoint, which stands
/// before workloads, is none.
pub(super) fn ingress_gateway(
    object: &SourceNode<'_>,
    namespace: Option<&str>,
) -> Option<(String, String)> {
    let api = object.get("apiVersion")?.scalar()?;
    if !api.starts_with("gateway.networking.k8s.io/") || object.get("kind")?.scalar()? != "Gateway"
    {
        return None;
    }
    let class = object.get("spec")?.get("gatewayClassName")?.scalar()?;
    let metadata = object.get("metadata")?;
    let own = metadata.get("namespace").and_then(|it| it.scalar());
    let own = own.or_else(|| namespace.map(str::to_owned))?;
    let name = metadata.get("name")?.scalar()?;
    (!class.contains("waypoint")).then_some((own, name))
}

/// The note of a policy that is about targets and not about a selector; an error if the targets may stand
/// before workloads, so that what it denies is to be denied there. `None`: it has no target.
pub(super) fn of_others(
    spec: &SourceNode<'_>,
    namespace: &str,
    gateways: &BTreeSet<(String, String)>,
) -> Option<Result<&'static str, &'static str>> {
    let mut targets: Vec<SourceNode<'_>> = spec.get("targetRef").into_iter().collect();
    match spec.list_of("targetRefs") {
        Ok(more) => targets.extend(more),
        Err(_) => return Some(Err("its targets cannot be read")),
    }
    if targets.is_empty() {
        return None;
    }
    let is_ingress = |target: &SourceNode<'_>| {
        let text = |key: &str| target.get(key).and_then(|it| it.scalar()).unwrap_or_default();
        let own = (namespace.to_owned(), text("name"));
        text("kind") == "Gateway" && target.get("namespace").is_none() && gateways.contains(&own)
    };
    Some(match targets.iter().all(is_ingress) {
        true => Ok("it is about gateways, which are not translated"),
        false => Err("its target may be a waypoint, which is not translated"),
    })
}
