//! IdentityBindings (v1alpha4): pods and identities under a name.

use crate::file::SourceNode;
use crate::label_selector::{ReadSelector, label_selector};
use crate::mesh::NamedClients;
use policy_crds::LabelSelector;

/// The pods or clients that an IdentityBinding stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BoundIdentity {
    /// The ServiceAccount of its namespace.
    pub(super) account: Option<String>,
    /// The labels of pods, one of which is enough.
    pub(super) selectors: Vec<LabelSelector>,
    /// Identities of SPIFFE.
    pub(super) spiffe: Vec<String>,
}

/// Reads a binding; or why it stands for nobody.
///
/// # Errors
/// It has another form than its version says.
pub(super) fn read_binding(
    object: &SourceNode<'_>,
) -> Result<Result<BoundIdentity, String>, String> {
    let schemes = object.require("spec")?.require("schemes")?;
    let known = ["serviceAccount", "podLabelSelector", "podLabelSelectors", "spiffeIdentities"];
    if let Some((_, message)) = schemes.unknown(&known) {
        return Ok(Err(message));
    }
    let mut found = BoundIdentity {
        account: schemes.get("serviceAccount").map(|it| it.text()).transpose()?.map(str::to_owned),
        spiffe: schemes.texts_of("spiffeIdentities")?.into_iter().map(str::to_owned).collect(),
        selectors: Vec::new(),
    };
    let one = schemes.get("podLabelSelector").into_iter();
    for node in one.chain(schemes.list_of("podLabelSelectors")?) {
        match label_selector(&node)? {
            ReadSelector::Selector(selector) => found.selectors.push(selector),
            ReadSelector::Unsayable(reason) => return Ok(Err(reason)),
        }
    }
    if found.account.is_some() && !found.selectors.is_empty() {
        let reason = "the ServiceAccount and labels of pods: one of both is allowed";
        return Ok(Err(reason.to_owned()));
    }
    Ok(Ok(found))
}

impl BoundIdentity {
    /// The clients that it stands for, of its namespace; `None`: labels of pods are no identity.
    pub(super) fn clients(&self, namespace: &str) -> Option<NamedClients> {
        let mut named = NamedClients::default();
        if !self.selectors.is_empty() {
            return None;
        }
        named.accounts.extend(self.account.clone().map(|name| (namespace.to_owned(), name)));
        named.identities.extend(self.spiffe.iter().cloned());
        (!named.is_empty()).then_some(named)
    }
}
