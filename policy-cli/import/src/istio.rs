//! Istio: AuthorizationPolicy and PeerAuthentication (security.istio.io).

mod operation;
mod peer;
mod policy;
mod rule;
mod source;
mod target;

use crate::file::{ImportFile, SourceNode};
use crate::label_selector::{ReadSelector, label_selector};
use crate::manifest::Imported;
use crate::mesh::{MeshPolicies, SelectedWorkloads, WorkloadUnits, note_unread, write_servers};
use policy::IstioPolicy;
use std::collections::BTreeSet;

/// The settings of a mesh of Istio, which its policies do not have.
#[derive(Clone, Copy, Debug)]
pub struct IstioMesh<'a> {
    /// The trust domain of the principals that are ServiceAccounts of this cluster.
    pub trust_domain: &'a str,
    /// The namespace whose policies are about every namespace.
    pub root_namespace: &'a str,
}

impl Default for IstioMesh<'_> {
    /// The settings of Istio's own default.
    fn default() -> Self {
        Self { trust_domain: "cluster.local", root_namespace: "istio-system" }
    }
}

/// The policies of Istio in files that have the workloads, too. `namespace` is that of objects without one.
///
/// # Errors
/// There is none, or an object has another form than its definition says.
pub fn istio(
    files: &[ImportFile],
    namespace: Option<&str>,
    mesh: &IstioMesh<'_>,
) -> Result<Imported, Vec<String>> {
    let mut policies = MeshPolicies::default();
    let workloads = WorkloadUnits::read(files, namespace, &mut policies.rows);
    let (mut errors, mut count) = (Vec::new(), 0_usize);
    let objects: Vec<SourceNode<'_>> = files.iter().flat_map(ImportFile::objects).collect();
    let gateways: BTreeSet<(String, String)> =
        objects.iter().filter_map(|object| target::ingress_gateway(object, namespace)).collect();
    let mut reading = IstioReading { namespace, mesh, gateways, policies: &mut policies };
    for object in objects {
        if !is_istio(&object) {
            continue;
        }
        count = count.saturating_add(1);
        errors.extend(reading.read(object).err());
    }
    note_unread(files, is_istio, &mut policies);
    if count == 0 {
        let message = "no policy of Istio: AuthorizationPolicy, PeerAuthentication and \
                       RequestAuthentication of security.istio.io are read";
        errors.push(ImportFile::nothing_read(files, message));
    }
    if errors.is_empty() { write_servers(policies, &workloads) } else { Err(errors) }
}

fn is_istio(object: &SourceNode<'_>) -> bool {
    let api = object.get("apiVersion").and_then(|it| it.scalar()).unwrap_or_default();
    api.starts_with("security.istio.io/")
}

/// The reading of the policies of a mesh.
struct IstioReading<'a> {
    namespace: Option<&'a str>,
    mesh: &'a IstioMesh<'a>,
    /// The Gateways of the files that are no waypoints, by namespace and name.
    gateways: BTreeSet<(String, String)>,
    policies: &'a mut MeshPolicies,
}

impl IstioReading<'_> {
    fn read(&mut self, object: SourceNode<'_>) -> Result<(), String> {
        let kind = object.text_of("kind")?.to_owned();
        let metadata = object.require("metadata")?;
        let name = metadata.text_of("name")?.to_owned();
        let subject = format!("{kind} {name}");
        if !["AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication"].contains(&&*kind)
        {
            let note = "no policy of this kind is translated";
            self.policies.omit(object.place(), &subject, note);
            return Ok(());
        }
        let own = metadata.get("namespace").map(|it| it.text()).transpose()?;
        let Some(own) = own.or(self.namespace).map(str::to_owned) else {
            return Err(object.error("names no namespace: give one with --namespace"));
        };
        let spec = object.get("spec");
        let action = spec.as_ref().and_then(|spec| spec.get("action")?.scalar());
        // Istio does not say that CUSTOM is ever a dry run.
        let decides = kind != "AuthorizationPolicy" || action.as_deref() == Some("CUSTOM");
        if !decides && is_dry_run(&metadata) {
            self.policies.omit(object.place(), &subject, "dry-run: it decides nothing");
            return Ok(());
        }
        let (policy, unreadable) = self.policy(object, &name, &subject, own)?;
        if let Some(spec) = &spec
            && let Some(note) = target::of_others(spec, &policy.namespace, &self.gateways)
        {
            let is_audit = !decides && action.as_deref() == Some("AUDIT");
            match note {
                Ok(note) => self.policies.omit(policy.object.place(), &policy.subject, note),
                Err(_) if is_audit => {
                    let note = "it decides nothing";
                    self.policies.omit(policy.object.place(), &policy.subject, note);
                }
                Err(note) => policy.withhold(self.policies, note),
            }
            return Ok(());
        }
        let fields = fields_of(&kind);
        let misspelt = spec.as_ref().and_then(|spec| spec.untranslated(fields, &[]));
        if let Some(reason) = unreadable.or(misspelt) {
            policy.withhold(self.policies, &reason);
            return Ok(());
        }
        match &*kind {
            "AuthorizationPolicy" => rule::read(&policy, spec.as_ref(), self.policies),
            "PeerAuthentication" => peer::read(&policy, spec.as_ref(), self.policies),
            _ => {
                policy.withhold(self.policies, "tokens are not verified here");
                Ok(())
            }
        }
    }

    /// A policy with its workloads, and the reason why its selector cannot be said: every workload may have
    /// been meant.
    fn policy<'b>(
        &self,
        object: SourceNode<'b>,
        name: &str,
        subject: &str,
        own: String,
    ) -> Result<(IstioPolicy<'b>, Option<String>), String> {
        let everywhere = own == self.mesh.root_namespace;
        let node = object.get("spec").and_then(|spec| spec.get("selector"));
        let mut selector = policy_crds::LabelSelector::default();
        let mut unreadable = None;
        if let Some(node) = &node {
            match label_selector(node)? {
                ReadSelector::Selector(found) => selector = found,
                ReadSelector::Unsayable(reason) => unreadable = Some(reason),
            }
        }
        let namespace = (!everywhere).then(|| own.clone());
        let policy = IstioPolicy {
            object,
            name: name.to_owned(),
            subject: subject.to_owned(),
            selection: SelectedWorkloads::Labels { namespace, selector },
            whole_namespace: (!everywhere && node.is_none()).then(|| own.clone()),
            namespace: own,
            trust_domain: self.mesh.trust_domain.to_owned(),
        };
        Ok((policy, unreadable))
    }
}

/// The fields of a kind. Another one may have been meant to narrow a policy.
fn fields_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "AuthorizationPolicy" => {
            &["selector", "targetRef", "targetRefs", "rules", "action", "provider"]
        }
        "PeerAuthentication" => &["selector", "mtls", "portLevelMtls"],
        _ => &["selector", "targetRef", "targetRefs", "jwtRules"],
    }
}

/// True if a policy is evaluated and never enforced. Istio reads the annotation as Go reads truth values.
fn is_dry_run(metadata: &SourceNode<'_>) -> bool {
    let annotation = metadata.get("annotations").and_then(|it| it.get("istio.io/dry-run"));
    let text = annotation.and_then(|it| it.scalar());
    text.is_some_and(|it| ["1", "t", "T", "TRUE", "true", "True"].contains(&it.as_str()))
}
