//! A grid of clients and requests that shows who may do something on which port, and knows nothing of
//! the questions of `portcullis why`.

use policy_core::{
    Connection, Decision, Evaluator, Identity, Memo, RequestView, RuleId, Tls, canonical_path,
};
use policy_engine::{ControllerConfig, compile_directory};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

/// A request or connection that is permitted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Access {
    pub(crate) client: String,
    pub(crate) workload: String,
    pub(crate) port: u16,
    pub(crate) request: String,
    /// The route that took it, as `portcullis why` names it.
    pub(crate) route: String,
}

/// Returns what is permitted of the grid.
pub(crate) fn accesses(manifests: &Path) -> BTreeSet<Access> {
    // As the command takes it of manifests.
    let control_plane_namespace = "portcullis".into();
    let config = ControllerConfig { control_plane_namespace, ..ControllerConfig::default() };
    let compiled = compile_directory(manifests, &config).unwrap();
    let mut found = BTreeSet::new();
    for (key, workload) in &compiled.workloads {
        for (port, policy) in &workload.policy.ports {
            let evaluator = Evaluator::build(policy.clone()).unwrap();
            for (words, address, identity) in clients(&config) {
                let tls = match &identity {
                    Some(identity) => Tls::Terminated(Some(identity)),
                    None => Tls::Absent,
                };
                let facts = &workload.state.facts;
                let connection = Connection { client: address, tls, facts };
                found.extend(permitted(&evaluator, &connection).into_iter().map(
                    |(request, route)| Access {
                        client: words.clone(),
                        workload: key.to_string(),
                        port: port.get(),
                        request,
                        route,
                    },
                ));
            }
        }
    }
    found
}

fn clients(config: &ControllerConfig) -> Vec<(String, IpAddr, Option<Identity>)> {
    let accounts = [
        ("shop", "cart"),
        ("shop", "default"),
        ("shop", "web"),
        ("shop", "db"),
        ("bank", "cart"),
        ("x", "y"),
    ];
    let mut all = Vec::new();
    for address in ["10.0.0.9", "10.2.3.4", "10.9.8.7", "203.0.113.9"] {
        let ip: IpAddr = address.parse().unwrap();
        all.push((address.to_owned(), ip, None));
        for (namespace, name) in accounts {
            let identity = config.service_account_identity(namespace, name);
            all.push((identity.to_string(), ip, Some(Identity::Dns(identity))));
        }
    }
    all
}

/// The requests that are permitted, and the connection, each with its route.
fn permitted(evaluator: &Evaluator, connection: &Connection<'_>) -> Vec<(String, String)> {
    let is_permit = |decision| matches!(decision, Decision::Permit(_));
    let mut found = Vec::new();
    if is_permit(evaluator.decide_connection(connection)) {
        found.push(("connection".to_owned(), "connections".to_owned()));
    }
    let headers = http::HeaderMap::new();
    for path in ["/", "/api", "/api/orders", "/books/42", "/books/43", "/metrics", "/status/1"] {
        let path = canonical_path(path).unwrap();
        for method in ["GET", "PUT", "DELETE"] {
            for host in [None, Some("www.example.com")] {
                let method = method.parse().unwrap();
                let query = None;
                let request =
                    RequestView { method: &method, host, path: &path, query, headers: &headers };
                let decision = evaluator.decide_request(connection, &mut Memo::new(), &request);
                if let Decision::Permit(permit) = &decision {
                    let route = route(evaluator, permit.route());
                    found.push((format!("{method} {host:?} {path}"), route));
                }
            }
        }
    }
    found
}

fn route(evaluator: &Evaluator, id: Option<RuleId>) -> String {
    let Some((route, rule)) = id.and_then(|id| evaluator.rule(id)) else {
        return "requests without a route".to_owned();
    };
    let matches: Vec<String> = rule.matches.iter().map(ToString::to_string).collect();
    match matches.is_empty() {
        true => route.origin.to_string(),
        false => format!("{} ({})", route.origin, matches.join(" or ")),
    }
}
