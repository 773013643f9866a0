//! PeerAuthentication: where plaintext is refused.

use super::policy::IstioPolicy;
use crate::file::SourceNode;
use crate::mesh::{DeniedClients, IdentityCondition, MeshDenial, MeshPolicies, PortChoice};
use crate::report::Fidelity;
use policy_crds::quote;

/// Reads a PeerAuthentication. `STRICT` takes clients without a verified identity out of every grant; the
/// other modes add nothing.
///
/// # Errors
/// It has another form than its definition says.
pub(super) fn read(
    policy: &IstioPolicy<'_>,
    spec: Option<&SourceNode<'_>>,
    policies: &mut MeshPolicies,
) -> Result<(), String> {
    let row = policies.row(policy.object.place(), &policy.subject);
    let Some(spec) = spec else {
        policies.worsen(row, Fidelity::Exact, "it changes nothing");
        return Ok(());
    };
    let mut strict = |ports: Option<Vec<PortChoice>>| {
        policies.denials.push(MeshDenial {
            row,
            selection: policy.selection.clone(),
            ports,
            clients: DeniedClients::AllBut(IdentityCondition::Verified),
            requests: None,
        });
    };
    let whole = is_strict(spec.get("mtls").as_ref())?;
    if whole {
        strict(None);
    }
    let mut weaker = !whole;
    if let Some(ports) = spec.get("portLevelMtls") {
        for (port, node) in ports.entries()? {
            let number: u16 =
                port.parse().map_err(|_| node.error("a port from 1 to 65535 is expected"))?;
            if is_strict(Some(&node))? {
                strict(Some(vec![PortChoice::Range(number, number)]));
            } else {
                weaker = true;
            }
        }
    }
    if weaker {
        let note = "a mode that admits plaintext takes back no `STRICT` of a wider policy";
        policies.worsen(row, Fidelity::Narrower, note);
    }
    Ok(())
}

/// True if a mode is `STRICT`. One that is not known is.
fn is_strict(node: Option<&SourceNode<'_>>) -> Result<bool, String> {
    let Some(node) = node else { return Ok(false) };
    node.entries()?;
    if let Some((_, message)) = node.unknown(&["mode"]) {
        return Err(node.error(message));
    }
    let Some(mode) = node.get("mode") else { return Ok(false) };
    match mode.text()? {
        "STRICT" => Ok(true),
        "PERMISSIVE" | "DISABLE" | "UNSET" => Ok(false),
        other => {
            let allowed = "`STRICT`, `PERMISSIVE`, `DISABLE` and `UNSET` are allowed";
            Err(mode.error(format!("{}: {allowed}", quote(other))))
        }
    }
}
