//! `/debug/policy`: the policy of one port as this replica would serve it, for clients on the
//! machine (a port-forward is one).

use http::StatusCode;
use policy_core::WorkloadKey;
use policy_engine::handles::Policies;
use policy_engine::publish::{LookupError, PortPolicy};
use policy_engine::view::PolicyView;
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroU16;

const USAGE: &str = "/debug/policy?workload=NAMESPACE/POD&port=PORT, or \
                     workload=NAMESPACE/externalworkload/NAME";

/// The response body.
#[derive(Debug, Serialize)]
struct Report {
    workload: String,
    port: NonZeroU16,
    revision: RevisionView,
    policy: PolicyView,
}

/// A revision in words.
#[derive(Debug, Serialize)]
struct RevisionView {
    epoch: String,
    /// Hexadecimal: numbers of this size are not safe in JSON.
    content: String,
    versions: BTreeMap<String, u64>,
}

/// Answers a query string.
pub(super) async fn policy(policies: &Policies, query: Option<&str>) -> (StatusCode, String) {
    let (key, port) = match parse(query.unwrap_or_default()) {
        Ok(asked) => asked,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\nusage: {USAGE}\n")),
    };
    let current = match policies.port(&key, port).await {
        Ok(receiver) => receiver.current(),
        Err(error) => {
            let status = match error {
                LookupError::NotFound => StatusCode::NOT_FOUND,
                LookupError::NotSynced | LookupError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
                LookupError::TooManyPorts | LookupError::TooManyDestinations => {
                    StatusCode::TOO_MANY_REQUESTS
                }
                LookupError::OutboundOff => StatusCode::NOT_IMPLEMENTED,
            };
            return (status, format!("{key} port {port}: {error}\n"));
        }
    };
    match serde_json::to_string_pretty(&report(&key, port, &current)) {
        Ok(text) => (StatusCode::OK, text + "\n"),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot be shown: {error}\n")),
    }
}

fn report(key: &WorkloadKey, port: NonZeroU16, current: &PortPolicy) -> Report {
    let revision = &current.revision;
    Report {
        workload: key.to_string(),
        port,
        revision: RevisionView {
            epoch: revision.epoch.to_string(),
            content: format!("{:016x}", revision.content),
            versions: revision.versions.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
        },
        policy: PolicyView::from(&*current.policy),
    }
}

fn parse(query: &str) -> Result<(WorkloadKey, NonZeroU16), String> {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(key, _)| *key == name).map(|(_, value)| value);
        found.ok_or_else(|| format!("`{name}` is missing"))
    };
    let workload = value("workload")?.replace("%2F", "/").replace("%2f", "/");
    let key = match workload.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, pod] => WorkloadKey::pod(namespace, pod),
        [namespace, "externalworkload", name] => WorkloadKey::external(namespace, name),
        _ => return Err(format!("workload: `{workload}` is not NAMESPACE/POD")),
    };
    let port = value("port")?;
    let port = port.parse().map_err(|_| format!("port: `{port}` is not a port, 1 to 65535"))?;
    Ok((key, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::DirectorySource;
    use policy_engine::config::ControllerConfig;
    use policy_engine::controller::start;

    #[test]
    fn queries_name_a_workload_and_a_port() {
        let port = NonZeroU16::new(80).unwrap();
        assert_eq!(parse("workload=a/b&port=80"), Ok((WorkloadKey::pod("a", "b"), port)));
        assert_eq!(
            parse("port=80&workload=a%2Fexternalworkload%2fb"),
            Ok((WorkloadKey::external("a", "b"), port))
        );
        assert_eq!(parse("port=80"), Err("`workload` is missing".to_owned()));
        assert_eq!(
            parse("workload=b&port=80"),
            Err("workload: `b` is not NAMESPACE/POD".to_owned())
        );
        assert_eq!(
            parse("workload=a/b&port=0"),
            Err("port: `0` is not a port, 1 to 65535".to_owned())
        );
    }

    #[tokio::test]
    async fn the_policy_of_a_port_is_shown_and_what_is_not_there_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: ns}\n\
                   spec: {containers: [{name: c, ports: [{containerPort: 80}]}]}\n";
        std::fs::write(folder.path().join("pod.yaml"), pod).unwrap();
        let config = ControllerConfig::default();
        let source = DirectorySource::new(folder.path(), config.limits);
        let controller = start(config, source);
        let mut synced = controller.policies.synced();
        synced.wait_for(|synced| *synced).await.unwrap();
        let ask = |query: &'static str| policy(&controller.policies, Some(query));
        let (status, body) = ask("workload=ns/web&port=80").await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body["workload"], "ns/web");
        assert_eq!(body["policy"]["owner"], "default all-unauthenticated");
        let absent = ask("workload=ns/other&port=80").await;
        assert_eq!(
            absent,
            (StatusCode::NOT_FOUND, "ns/other port 80: no such workload\n".to_owned())
        );
    }
}
