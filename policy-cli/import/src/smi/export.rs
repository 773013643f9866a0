//! Policies of ports as TrafficTargets. What SMI cannot say is left out, because SMI denies it.

mod clients;
mod paths;
mod requests;

pub use clients::AccountOfIdentity;

use crate::manifest::Exported;
use crate::report::{Fidelity, ReportRow};
use clients::{Account, SmiClients};
use policy_core::{Protocol, ServerPolicy};
use requests::{SmiMatch, may_send_all, requests_of};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Version of the routes.
const SPECS: &str = "specs.smi-spec.io/v1alpha4";

/// Version of the targets.
const ACCESS: &str = "access.smi-spec.io/v1alpha3";

/// The pods of a ServiceAccount, which SMI cannot tell apart.
#[derive(Clone, Debug, Default)]
pub struct ExportedAccount {
    /// The policies of each declared port: one of every pod.
    pub ports: BTreeMap<u16, Vec<Arc<ServerPolicy>>>,
    /// True if some other port of a pod grants something.
    pub grants_elsewhere: bool,
}

/// Bytes or requests that a client may send to a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ExportedRules {
    /// Any bytes.
    Tcp,
    /// The requests of these matches, in JSON.
    Http(Vec<String>),
}

/// The longest name of an object.
const MAX_NAME: usize = 253;

/// The policies of ServiceAccounts, by namespace and name, as objects of SMI.
pub fn export_smi(
    accounts: &BTreeMap<(String, String), ExportedAccount>,
    account_of: AccountOfIdentity<'_>,
) -> Exported {
    let mut exported = Exported::default();
    for ((namespace, name), account) in accounts {
        let whose = format!("ServiceAccount {namespace}/{name}");
        if name.is_empty() {
            let note = "an ExternalWorkload has no ServiceAccount, which is what SMI selects by";
            let subject = format!("ExternalWorkloads of {namespace}");
            exported.rows.push(ReportRow::without_line(subject, Fidelity::Omitted, note));
            continue;
        }
        for (port, policies) in &account.ports {
            let target = SmiPort { namespace, account: name, port: *port };
            let (rules, lost) = rules_of(policies, account_of);
            let objects = target.objects(&rules);
            let (objects, lost) = match objects {
                Some(objects) => (objects, lost),
                None => (Vec::new(), BTreeSet::from(["its name is too long".to_owned()])),
            };
            let subject = format!("port {port} of {whose}");
            exported.rows.push(target.row(&subject, &objects, &lost));
            exported.objects.extend(objects);
        }
        if account.grants_elsewhere {
            let note = "what is granted on ports that nobody declares is left out";
            let subject = format!("other ports of {whose}");
            exported.rows.push(ReportRow::without_line(subject, Fidelity::Omitted, note));
        }
    }
    exported
}

/// The rules of each client, and what cannot be said.
type ClientRules = (BTreeMap<Account, ExportedRules>, BTreeSet<String>);

fn rules_of(policies: &[Arc<ServerPolicy>], account_of: AccountOfIdentity<'_>) -> ClientRules {
    let nothing = |reason: &str| (BTreeMap::new(), BTreeSet::from([reason.to_owned()]));
    let Some(policy) = policies.first() else { return ClientRules::default() };
    if policies.iter().any(|other| other != policy) {
        return nothing("pods of the ServiceAccount have different policies");
    }
    if policy.deny.is_some() {
        return ClientRules::default();
    }
    if policy.rate_limit.is_some() {
        return nothing("limits of requests cannot be said");
    }
    if !policy.effects.is_empty() {
        return nothing("filters of requests cannot be said");
    }
    match policy.protocol {
        Protocol::Tls => nothing("TLS of the application cannot be said"),
        Protocol::Opaque => tcp_rules(policy, account_of),
        Protocol::Http1 | Protocol::Http2 | Protocol::Grpc | Protocol::Detect { .. } => {
            match requests::matches_of(policy, account_of) {
                Ok(matches) => http_rules(policy, &matches, account_of),
                Err(reason) => nothing(reason),
            }
        }
    }
}

fn tcp_rules(policy: &ServerPolicy, account_of: AccountOfIdentity<'_>) -> ClientRules {
    let mut clients = SmiClients::default();
    clients.add(&policy.authorizations, account_of);
    let rules = clients.accounts.into_iter().map(|account| (account, ExportedRules::Tcp));
    (rules.collect(), clients.lost)
}

fn http_rules(
    policy: &ServerPolicy,
    matches: &[SmiMatch],
    account_of: AccountOfIdentity<'_>,
) -> ClientRules {
    let mut bytes = SmiClients::default();
    if policy.admits_bytes() {
        bytes.add(&policy.authorizations, account_of);
    }
    let clients = matches.iter().flat_map(|it| &it.clients().accounts).chain(&bytes.accounts);
    let clients: BTreeSet<&Account> = clients.collect();
    let mut lost: BTreeSet<String> = bytes.lost.clone();
    lost.extend(matches.iter().flat_map(|it| it.clients().lost.iter().cloned()));
    let mut rules = BTreeMap::new();
    for client in clients {
        let is_tcp = bytes.accounts.contains(client);
        if is_tcp && may_send_all(client, matches) {
            rules.insert(client.clone(), ExportedRules::Tcp);
            continue;
        }
        if is_tcp {
            lost.insert("connections that are not HTTP, where some requests are denied".to_owned());
        }
        let found = requests_of(client, matches);
        lost.extend(found.lost);
        if !found.matches.is_empty() {
            let texts = found.matches.iter().map(Value::to_string).collect();
            rules.insert(client.clone(), ExportedRules::Http(texts));
        }
    }
    (rules, lost)
}

/// A port that objects are written for.
struct SmiPort<'a> {
    namespace: &'a str,
    account: &'a str,
    port: u16,
}

impl SmiPort<'_> {
    /// The objects for the rules of clients; `None`: they have no name.
    fn objects(&self, clients: &BTreeMap<Account, ExportedRules>) -> Option<Vec<Value>> {
        let mut sources: BTreeMap<&ExportedRules, Vec<&Account>> = BTreeMap::new();
        for (client, rules) in clients {
            sources.entry(rules).or_default().push(client);
        }
        if sources.is_empty() {
            return Some(Vec::new());
        }
        let name = format!("{}.{}", self.account, self.port);
        let ports = json!({"matches": {"ports": [self.port]}});
        let mut objects = vec![self.object(SPECS, "TCPRoute", &name, ports)];
        let texts: BTreeSet<&String> = sources
            .keys()
            .flat_map(|rules| match rules {
                ExportedRules::Tcp => &[],
                ExportedRules::Http(texts) => texts.as_slice(),
            })
            .collect();
        let names: BTreeMap<&String, String> =
            texts.into_iter().zip(1_usize..).map(|(it, place)| (it, format!("m{place}"))).collect();
        if !names.is_empty() {
            let matches: Vec<Value> =
                names.iter().filter_map(|it| named_match(it.0, it.1)).collect();
            let spec = json!({"matches": matches});
            objects.push(self.object(SPECS, "HTTPRouteGroup", &name, spec));
        }
        for ((rules, sources), place) in sources.iter().zip(1_usize..) {
            let own = format!("{name}.{place}");
            if own.len() > MAX_NAME {
                return None;
            }
            let mut said = vec![json!({"kind": "TCPRoute", "name": name})];
            if let ExportedRules::Http(texts) = rules {
                let matches: Vec<&String> = texts.iter().filter_map(|it| names.get(it)).collect();
                said.push(json!({"kind": "HTTPRouteGroup", "name": name, "matches": matches}));
            }
            objects.push(self.target(&own, &said, sources));
        }
        Some(objects)
    }

    fn target(&self, name: &str, rules: &[Value], sources: &[&Account]) -> Value {
        let sources = sources.iter().map(|(namespace, name)| {
            json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
        });
        let spec = json!({
            "destination": {
                "kind": "ServiceAccount",
                "name": self.account,
                "namespace": self.namespace,
            },
            "rules": rules,
            "sources": sources.collect::<Vec<_>>(),
        });
        self.object(ACCESS, "TrafficTarget", name, spec)
    }

    fn object(&self, api_version: &str, kind: &str, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        })
    }

    /// The row of the port.
    fn row(&self, subject: &str, objects: &[Value], lost: &BTreeSet<String>) -> ReportRow {
        let targets =
            objects.iter().filter(|it| it.get("kind").is_some_and(|it| it == "TrafficTarget"));
        let count = targets.count();
        let fidelity = match (lost.is_empty(), count) {
            (true, _) => Fidelity::Exact,
            (false, 0) => Fidelity::Omitted,
            (false, _) => Fidelity::Narrower,
        };
        let written = match count {
            0 if lost.is_empty() => {
                Some("nothing is granted, which SMI says by no object".to_owned())
            }
            0 => None,
            1 => Some(format!("TrafficTarget `{}.{}.1`", self.account, self.port)),
            last => Some(format!(
                "TrafficTargets `{0}.{1}.1` to `{0}.{1}.{last}`",
                self.account, self.port
            )),
        };
        let notes: Vec<String> = written.into_iter().chain(lost.iter().cloned()).collect();
        ReportRow::without_line(subject, fidelity, notes.join("; "))
    }
}

/// A match with its name.
fn named_match(text: &str, name: &str) -> Option<Value> {
    let mut found: Value = serde_json::from_str(text).ok()?;
    found.as_object_mut()?.insert("name".to_owned(), name.into());
    Some(found)
}
