//! TrafficTargets: who may send what to the pods of a ServiceAccount.

use super::naming::{named, subject};
use super::specs::{SmiSpecs, port_number};
use crate::file::SourceNode;
use crate::mesh::{
    ClientCondition, IdentityCondition, MeshGrant, MeshPolicies, NamedClients, PortChoice,
    RequestCondition, SelectedWorkloads,
};
use crate::report::Fidelity;
use policy_crds::quote;

/// Versions of the kind.
const VERSIONS: &[&str] = &["v1alpha1", "v1alpha2", "v1alpha3", "v1alpha4"];

/// A TrafficTarget that is being read.
struct SmiTarget<'a> {
    namespace: String,
    row: usize,
    specs: &'a SmiSpecs<'a>,
    policies: &'a mut MeshPolicies,
}

/// Reads a TrafficTarget. An invalid one grants nothing and closes its destination.
///
/// # Errors
/// It has another form than its version says.
pub(super) fn read(
    object: &SourceNode<'_>,
    version: &str,
    specs: &SmiSpecs<'_>,
    policies: &mut MeshPolicies,
) -> Result<(), String> {
    if !VERSIONS.contains(&version) {
        let allowed = "v1alpha1 to v1alpha4 are imported";
        return Err(object.error(format!("version {}: {allowed}", quote(version))));
    }
    // Before v1alpha2 the fields were at the top.
    let holder = object.get("spec").unwrap_or_else(|| object.clone());
    let (own, name) = named(object, specs.namespace)?;
    let destination = holder.require("destination")?;
    let stated = destination.get("namespace").map(|it| it.text()).transpose()?;
    let subject = subject("TrafficTarget", &name);
    let row = policies.row(object.place(), &subject);
    let namespace = match (own, stated) {
        (Some(own), Some(stated)) if own != stated => {
            let note = "its destination is in another namespace: policies live with the server";
            policies.worsen(row, Fidelity::Omitted, note);
            return Ok(());
        }
        (Some(own), _) => own,
        (None, Some(stated)) => stated.to_owned(),
        (None, None) => return Err(object.error("names no namespace: give one with --namespace")),
    };
    let mut target = SmiTarget { namespace, row, specs, policies };
    let selections = target.selections(&destination)?;
    for selection in &selections {
        target.policies.closures.push((row, selection.clone()));
    }
    let Some(clients) = target.clients(&holder)? else { return Ok(()) };
    let Some((ports, requests)) = target.rules(&holder, &destination)? else { return Ok(()) };
    for selection in selections {
        target.policies.grants.push(MeshGrant {
            row,
            name: name.clone(),
            selection,
            ports: ports.clone(),
            clients: clients.clone(),
            requests: requests.clone(),
        });
    }
    Ok(())
}

/// The ports and the requests of rules; absent: every one.
type SmiRules = (Option<Vec<PortChoice>>, Option<Vec<RequestCondition>>);

impl SmiTarget<'_> {
    fn nothing(&mut self, reason: &str) {
        let note = format!("{reason}: it grants nothing and closes its destination");
        self.policies.worsen(self.row, Fidelity::Omitted, &note);
    }

    /// The pods of the destination.
    fn selections(
        &mut self,
        destination: &SourceNode<'_>,
    ) -> Result<Vec<SelectedWorkloads>, String> {
        let namespace = Some(self.namespace.clone());
        let name = destination.text_of("name")?;
        match destination.text_of("kind")? {
            "ServiceAccount" => {
                Ok(vec![SelectedWorkloads::Account { namespace, name: name.to_owned() }])
            }
            "IdentityBinding" => {
                let key = (namespace.clone(), name.to_owned());
                let Some(Ok(binding)) = self.specs.bindings.get(&key) else {
                    // Nobody knows which pods were meant: every pod of the namespace is closed.
                    self.policies.closed_namespaces.insert(self.namespace.clone());
                    self.nothing("its destination is no valid IdentityBinding of the files");
                    return Ok(Vec::new());
                };
                if binding.account.is_none() && binding.selectors.is_empty() {
                    self.policies.closed_namespaces.insert(self.namespace.clone());
                    self.nothing("its destination is an IdentityBinding that selects no pods");
                    return Ok(Vec::new());
                }
                let account = binding.account.clone();
                let mut found: Vec<SelectedWorkloads> = account
                    .into_iter()
                    .map(|name| SelectedWorkloads::Account { namespace: namespace.clone(), name })
                    .collect();
                found.extend(binding.selectors.iter().map(|selector| SelectedWorkloads::Labels {
                    namespace: namespace.clone(),
                    selector: selector.clone(),
                }));
                Ok(found)
            }
            other => {
                let allowed = "ServiceAccount and IdentityBinding are allowed";
                Err(destination.error(format!("kind {}: {allowed}", quote(other))))
            }
        }
    }

    /// The clients; `None`: there is none, and nothing is granted.
    fn clients(&mut self, holder: &SourceNode<'_>) -> Result<Option<ClientCondition>, String> {
        let mut named = NamedClients::default();
        for source in holder.list_of("sources")? {
            let name = source.text_of("name")?;
            let stated = source.get("namespace").map(|it| it.text()).transpose()?;
            let namespace = stated.unwrap_or(&self.namespace).to_owned();
            match source.text_of("kind")? {
                "ServiceAccount" => {
                    named.accounts.insert((namespace, name.to_owned()));
                }
                "IdentityBinding" => {
                    let key = (Some(namespace.clone()), name.to_owned());
                    let binding = self.specs.bindings.get(&key).and_then(|it| it.as_ref().ok());
                    match binding.and_then(|binding| binding.clients(&namespace)) {
                        Some(more) => {
                            named.accounts.extend(more.accounts);
                            named.identities.extend(more.identities);
                        }
                        None => {
                            let note = format!("the source {} has no identity here", quote(name));
                            self.policies.worsen(self.row, Fidelity::Narrower, &note);
                        }
                    }
                }
                other => {
                    let note = format!("sources of the kind {} are not known", quote(other));
                    self.policies.worsen(self.row, Fidelity::Narrower, &note);
                }
            }
        }
        if named.is_empty() {
            self.nothing("it has no source");
            return Ok(None);
        }
        Ok(Some(ClientCondition::with(IdentityCondition::Named(named))))
    }

    /// The ports and requests that its rules allow; `None`: none. Those of TCP say on which ports, those of HTTP which requests, and
    /// both must hold where there are both.
    fn rules(
        &mut self,
        holder: &SourceNode<'_>,
        destination: &SourceNode<'_>,
    ) -> Result<Option<SmiRules>, String> {
        let rules = if holder.get("rules").is_some() {
            holder.list_of("rules")?
        } else {
            holder.list_of("specs")?
        };
        let mut ports: Option<Vec<PortChoice>> = None;
        let (mut requests, mut tcp, mut http) = (Vec::new(), false, false);
        for rule in &rules {
            let name = rule.text_of("name")?;
            let key = (Some(self.namespace.clone()), name.to_owned());
            match rule.text_of("kind")? {
                "HTTPRouteGroup" => {
                    http = true;
                    requests.extend(self.requests(rule, &key)?);
                }
                "TCPRoute" => {
                    let found = self.specs.tcp.get(&key).cloned().unwrap_or_else(|| {
                        // It may have had ports: it opens none, and takes none back.
                        self.lost(&format!("there is no TCPRoute {}", quote(name)));
                        Some(Vec::new())
                    });
                    ports = match (tcp, ports, found) {
                        (true, None, _) | (_, _, None) => None,
                        (_, known, Some(more)) => Some([known.unwrap_or_default(), more].concat()),
                    };
                    tcp = true;
                }
                other => {
                    self.lost(&format!("rules of the kind {} are not translated", quote(other)))
                }
            }
        }
        if !tcp && requests.is_empty() {
            self.nothing("no rule of it allows anything");
            return Ok(None);
        }
        if http && requests.is_empty() {
            self.nothing("none of its HTTP rules allows anything");
            return Ok(None);
        }
        if ports.as_ref().is_some_and(Vec::is_empty) {
            self.nothing("no TCPRoute of it is in the files");
            return Ok(None);
        }
        if let Some(port) = destination.get("port") {
            let only = port_number(&port)?;
            ports = match ports {
                Some(ports) if !ports.contains(&only) => {
                    self.nothing("no TCPRoute of it has the port of the destination");
                    return Ok(None);
                }
                Some(_) | None => Some(vec![only]),
            };
        }
        Ok(Some((ports, http.then_some(requests))))
    }

    fn requests(
        &mut self,
        rule: &SourceNode<'_>,
        key: &(Option<String>, String),
    ) -> Result<Vec<RequestCondition>, String> {
        let Some(group) = self.specs.groups.get(key) else {
            self.lost(&format!("there is no HTTPRouteGroup {}", quote(&key.1)));
            return Ok(Vec::new());
        };
        let names = rule.texts_of("matches")?;
        for absent in names.iter().filter(|name| !group.iter().any(|(own, _)| own == *name)) {
            self.lost(&format!("there is no match {}", quote(absent)));
        }
        let mut found = Vec::new();
        for (name, conditions) in group {
            // An empty list is a list that was left out.
            if !names.is_empty() && !names.contains(&name.as_str()) {
                continue;
            }
            match conditions {
                Ok(conditions) => found.extend(conditions.iter().cloned()),
                Err(reason) => self.lost(&format!("match {}: {reason}", quote(name))),
            }
        }
        Ok(found)
    }

    fn lost(&mut self, note: &str) {
        self.policies.worsen(self.row, Fidelity::Narrower, note);
    }
}
