//! Worlds of imported manifests, and what they decide.
#![allow(dead_code, reason = "each test binary uses a part")]

use policy_core::{Connection, Decision, Identity, RequestView, Tls, WorkloadKey, naive};
use policy_engine::{Compiled, ControllerConfig, compile_objects};
use std::net::IpAddr;
use std::num::NonZeroU16;

/// A pod with two ports.
pub(crate) const WEB: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  serviceAccountName: web
  containers:
  - name: app
    image: app
    ports: [{name: http, containerPort: 8080}, {name: admin, containerPort: 9090}]
";

/// A client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    /// With the identity of a ServiceAccount: namespace and name; from 10.9.9.9.
    Account(&'static str, &'static str),
    /// Without TLS, from an address.
    Plain(&'static str),
}

/// Manifests, as the evaluators decide by them.
pub(crate) struct World(Compiled);

impl World {
    /// Compiles manifests, all of which must be valid.
    pub(crate) fn new(manifests: &[&str]) -> Self {
        let text = manifests.join("\n---\n");
        let documents = policy_crds::document::read(&text);
        let values = documents.iter().map(|document| document.value.clone().unwrap());
        let objects: Vec<_> = values
            .filter(|value| !value.is_null())
            .flat_map(|value| policy_crds::parse_all(&value))
            .map(|object| object.unwrap())
            .collect();
        for object in &objects {
            if let policy_crds::Body::Invalid(invalid) = &object.body {
                panic!("{}: {:?}", object.meta.key, invalid.errors);
            }
        }
        Self(compile_objects(objects, &ControllerConfig::default()))
    }

    /// The verdict on a request to a port of a pod: `allow` or the reason why not.
    pub(crate) fn ask(&self, to: (&str, &str, u16), client: Client, request: &str) -> String {
        self.decide(to, client, Some(request), &[])
    }

    /// The same with headers.
    pub(crate) fn ask_with(
        &self,
        to: (&str, &str, u16),
        client: Client,
        request: &str,
        headers: &[(&'static str, &'static str)],
    ) -> String {
        self.decide(to, client, Some(request), headers)
    }

    /// The verdict on a connection that carries no HTTP.
    pub(crate) fn connect(&self, to: (&str, &str, u16), client: Client) -> String {
        self.decide(to, client, None, &[])
    }

    fn decide(
        &self,
        (namespace, pod, port): (&str, &str, u16),
        client: Client,
        request: Option<&str>,
        headers: &[(&'static str, &'static str)],
    ) -> String {
        let key = WorkloadKey::pod(namespace, pod);
        let policy = self.0.port(&key, NonZeroU16::new(port).unwrap()).unwrap();
        let facts = &self.0.workloads[&key].state.facts;
        let config = ControllerConfig::default();
        let identity = match client {
            Client::Account(namespace, name) => {
                Some(Identity::Dns(config.service_account_identity(namespace, name)))
            }
            Client::Plain(_) => None,
        };
        let (address, tls) = match client {
            Client::Account(..) => ("10.9.9.9", Tls::Terminated(identity.as_ref())),
            Client::Plain(address) => (address, Tls::Absent),
        };
        let client: IpAddr = address.parse().unwrap();
        let connection = Connection { client, tls, facts };
        let Some(text) = request else {
            return verdict(&naive::decide_connection(&policy, &connection));
        };
        let (method, path) = text.split_once(' ').unwrap();
        let method = method.parse().unwrap();
        let pairs = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        let headers: http::HeaderMap = pairs.collect();
        let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or("web");
        let view =
            RequestView { method: &method, host: Some(host), path, query: None, headers: &headers };
        let naive = verdict(&naive::decide_request(&policy, &connection, &view));
        let evaluator = policy_core::Evaluator::build(policy).unwrap();
        let fast = evaluator.decide_request(&connection, &mut policy_core::Memo::new(), &view);
        assert_eq!(verdict(&fast), naive, "{text}");
        naive
    }
}

fn verdict(decision: &Decision) -> String {
    match decision {
        Decision::Permit(_) => "allow".to_owned(),
        Decision::Deny(denial) => denial.reason.as_str().to_owned(),
    }
}
