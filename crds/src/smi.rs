//! The objects of the Service Mesh Interface (smi-spec.io, archived), and what a TrafficTarget grants: a pure
//! function of it and of the objects that it names, which the controller and `portcullis import smi` share.

use crate::key::NamespacedName;
use crate::quote::quote;
use crate::selector::LabelSelector;
use policy_core::{IdentityMatch, RequestMatch};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

/// The most requests that the rules of a TrafficTarget allow together.
const MAX_REQUESTS: usize = 1024;
/// The most ports that the rules of a TrafficTarget allow together.
const MAX_PORTS: usize = 256;
/// The most clients that a TrafficTarget names, those of its IdentityBindings counted.
const MAX_CLIENTS: usize = 4096;

/// The kind of rules about datagrams, which a sidecar does not see.
const UDP: &str = "UDPRoute";

/// TrafficTarget: which clients may send what to the pods of its destination, which is closed to all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficTarget {
    /// The pods.
    pub destination: TargetDestination,
    /// The one port of them that is meant (v1alpha1 to v1alpha3).
    pub port: Option<NonZeroU16>,
    /// The clients; never empty.
    pub sources: Vec<TargetSource>,
    /// The rules about what they may send; never empty.
    pub rules: Vec<TargetRule>,
}

/// The pods of a TrafficTarget, in its own namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetDestination {
    /// Those of this ServiceAccount.
    Account(Arc<str>),
    /// Those of this IdentityBinding.
    Binding(Arc<str>),
}

/// A client of a TrafficTarget.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetSource {
    /// This ServiceAccount, which need not exist.
    Account(NamespacedName),
    /// Those of this IdentityBinding.
    Binding(NamespacedName),
    /// A kind that is no client here.
    Unknown(Arc<str>),
}

/// A rule of a TrafficTarget. It names an object of the target's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetRule {
    /// Requests of this HTTPRouteGroup.
    Http {
        /// Its name.
        group: Arc<str>,
        /// The matches that are meant; empty: all.
        matches: Vec<Arc<str>>,
    },
    /// Connections to the ports of this TCPRoute.
    Tcp(Arc<str>),
    /// A kind that is not translated.
    Unknown(Arc<str>),
}

/// HTTPRouteGroup: requests by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmiRouteGroup {
    /// Its matches.
    pub matches: Vec<SmiMatch>,
}

/// A match of an HTTPRouteGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmiMatch {
    /// Its name; empty: it has none.
    pub name: Arc<str>,
    /// The requests, one element for each method. Every target that allows them shares them.
    pub requests: Vec<Arc<RequestMatch>>,
}

/// TCPRoute: connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmiTcpRoute {
    /// The ports; absent: every one, as before v1alpha3.
    pub ports: Option<BTreeSet<NonZeroU16>>,
}

/// IdentityBinding: pods and clients by name. It selects by an account or by labels, never by both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityBinding {
    /// The ServiceAccount of its namespace.
    pub account: Option<Arc<str>>,
    /// Labels of pods of its namespace, one of which is enough.
    pub selectors: Vec<LabelSelector>,
    /// Identities of SPIFFE. They select no pods.
    pub spiffe: Vec<IdentityMatch>,
}

/// The valid objects that a TrafficTarget names in its own namespace.
#[derive(Clone, Debug, Default)]
pub struct SmiSpecs<'a> {
    /// HTTPRouteGroups.
    pub groups: BTreeMap<Arc<str>, &'a SmiRouteGroup>,
    /// TCPRoutes.
    pub tcp: BTreeMap<Arc<str>, &'a SmiTcpRoute>,
}

/// The traffic that the rules of a TrafficTarget allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedTraffic {
    /// The ports; absent: every one.
    pub ports: Option<BTreeSet<NonZeroU16>>,
    /// The requests; absent: any bytes.
    pub requests: Option<Vec<Arc<RequestMatch>>>,
}

/// A client that a TrafficTarget names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetClient {
    /// A ServiceAccount of this namespace.
    Account(Arc<str>, Arc<str>),
    /// A client by its certificate.
    Identity(IdentityMatch),
}

impl TrafficTarget {
    /// Returns the traffic that its rules allow. Those of TCP say on which ports, those of HTTP which
    /// requests, and both must hold where there are both. What cannot be used is added to `lost`, and
    /// allows nothing.
    ///
    /// # Errors
    /// Nothing is allowed, for this reason.
    pub fn allowed(
        &self,
        specs: &SmiSpecs<'_>,
        lost: &mut Vec<String>,
    ) -> Result<AllowedTraffic, String> {
        // Of TCPRoutes: whether there is one, and its ports; those that are not there open none.
        let (mut tcp, mut every_port, mut ports) = (false, false, BTreeSet::new());
        let mut requests: Option<Vec<Arc<RequestMatch>>> = None;
        // A rule that is there twice allows nothing more.
        let rules: BTreeSet<&TargetRule> = self.rules.iter().collect();
        for rule in rules {
            match rule {
                TargetRule::Http { group, matches } => {
                    let found = of_group(specs, group, matches, lost);
                    let requests = requests.get_or_insert_default();
                    requests.extend(found);
                    if requests.len() > MAX_REQUESTS {
                        return Err(format!(
                            "its HTTP rules allow more than {MAX_REQUESTS} requests, each method of a \
                             match counted"
                        ));
                    }
                }
                TargetRule::Tcp(name) => {
                    tcp = true;
                    match specs.tcp.get(name) {
                        Some(SmiTcpRoute { ports: Some(some) }) => ports.extend(some),
                        Some(SmiTcpRoute { ports: None }) => every_port = true,
                        None => lost.push(format!("there is no valid TCPRoute {}", quote(name))),
                    }
                }
                TargetRule::Unknown(kind) if **kind == *UDP => {
                    lost.push(format!("rules of the kind {} are not translated", quote(kind)));
                }
                // It may be one that says on which ports the others hold.
                TargetRule::Unknown(kind) => {
                    let kind = quote(kind);
                    return Err(format!(
                        "it has a rule of the kind {kind}, which may narrow the others"
                    ));
                }
            }
        }
        if requests.as_ref().is_some_and(Vec::is_empty) {
            return Err("none of its HTTP rules allows anything".to_owned());
        }
        if !tcp && requests.is_none() {
            return Err("no rule of it allows anything".to_owned());
        }
        let ports = (tcp && !every_port).then_some(ports);
        if ports.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err("no TCPRoute of it has a port".to_owned());
        }
        if ports.as_ref().is_some_and(|ports| ports.len() > MAX_PORTS) {
            return Err(format!("its TCPRoutes have more than {MAX_PORTS} ports"));
        }
        let ports = match (self.port, ports) {
            (Some(only), Some(ports)) if !ports.contains(&only) => {
                let message = "no TCPRoute of it has the port of the destination";
                return Err(message.to_owned());
            }
            (Some(only), _) => Some([only].into()),
            (None, ports) => ports,
        };
        Ok(AllowedTraffic { ports, requests })
    }

    /// The clients that it names. `namespace` is its own, and `bindings` has the valid IdentityBindings by
    /// namespace and name. Sources that are nobody here are added to `lost`.
    pub fn clients(
        &self,
        namespace: &Arc<str>,
        bindings: &BTreeMap<(Arc<str>, Arc<str>), &IdentityBinding>,
        lost: &mut Vec<String>,
    ) -> Vec<TargetClient> {
        let mut clients = Vec::new();
        // A source that is there twice names nobody more.
        let sources: BTreeSet<&TargetSource> = self.sources.iter().collect();
        for source in sources {
            if clients.len() > MAX_CLIENTS {
                break;
            }
            match source {
                TargetSource::Account(NamespacedName { namespace: stated, name }) => {
                    let of = stated.as_ref().unwrap_or(namespace);
                    clients.push(TargetClient::Account(of.clone(), name.clone()));
                }
                TargetSource::Binding(NamespacedName { namespace: stated, name }) => {
                    let of = stated.as_ref().unwrap_or(namespace);
                    let binding = bindings.get(&(of.clone(), name.clone()));
                    let found = binding.map(|binding| binding.clients(of, of == namespace));
                    let found = found.unwrap_or_default();
                    if found.is_empty() {
                        let name = quote(name);
                        lost.push(format!("the source {name} has no identity here"));
                    }
                    clients.extend(found);
                }
                TargetSource::Unknown(kind) => {
                    lost.push(format!("sources of the kind {} are not known", quote(kind)));
                }
            }
        }
        if clients.len() > MAX_CLIENTS {
            lost.push(format!("its sources have more than {MAX_CLIENTS} identities"));
            clients.clear();
        }
        clients
    }
}

/// The requests of a rule about an HTTPRouteGroup.
fn of_group(
    specs: &SmiSpecs<'_>,
    name: &Arc<str>,
    names: &[Arc<str>],
    lost: &mut Vec<String>,
) -> Vec<Arc<RequestMatch>> {
    let Some(group) = specs.groups.get(name) else {
        lost.push(format!("there is no valid HTTPRouteGroup {}", quote(name)));
        return Vec::new();
    };
    let is_there = |name: &&Arc<str>| group.matches.iter().any(|own| own.name == **name);
    for absent in names.iter().filter(|name| !is_there(name)) {
        lost.push(format!("there is no match {}", quote(absent)));
    }
    // An empty list is a list that was left out.
    let names: BTreeSet<&Arc<str>> = names.iter().collect();
    let meant = group.matches.iter().filter(|own| names.is_empty() || names.contains(&own.name));
    meant.flat_map(|own| own.requests.iter().cloned()).collect()
}

impl IdentityBinding {
    /// The clients that it stands for: labels of pods are no identity. Of a binding of another namespace its
    /// account alone counts, because its author could name anybody.
    fn clients(&self, namespace: &Arc<str>, is_own: bool) -> Vec<TargetClient> {
        let account = self.account.iter();
        let account = account.map(|name| TargetClient::Account(namespace.clone(), name.clone()));
        let spiffe = self.spiffe.iter().filter(|_| is_own).cloned().map(TargetClient::Identity);
        account.chain(spiffe).collect()
    }

    /// True if it selects pods.
    pub fn selects_pods(&self) -> bool {
        self.account.is_some() || !self.selectors.is_empty()
    }
}
