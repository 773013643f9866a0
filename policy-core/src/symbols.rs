//! The network symbols that a policy names; each workload resolves them for itself.

use crate::authorization::{Authorization, Predicate, Requirement};
use crate::network::{NetworkSymbol, NetworkTerm};
use crate::policy::ServerPolicy;

/// Returns true if a grant or exemption of `policy` names `symbol`. If none does, the policy means
/// the same on every workload, whatever the symbol stands for there.
pub fn names(policy: &ServerPolicy, symbol: NetworkSymbol) -> bool {
    let own = policy.authorizations.iter();
    let exempt = policy.exemptions.iter().map(|exemption| &exemption.authorization);
    let routes = policy.routes.routes.iter().flat_map(|route| route.authorizations.iter());
    own.chain(exempt).chain(routes).any(|grant| grants_to(grant, symbol))
}

fn grants_to(grant: &Authorization, symbol: NetworkSymbol) -> bool {
    let conditions = match &grant.requirement {
        Requirement::Nothing => return false,
        Requirement::All(conditions) => conditions,
    };
    conditions.iter().any(|condition| match &condition.test {
        Predicate::Network(terms) => {
            terms.iter().any(|network| network.term == NetworkTerm::Symbol(symbol))
        }
        Predicate::MeshTls
        | Predicate::Identity(_)
        | Predicate::TlsPassthrough
        | Predicate::Segment(_) => false,
    })
}
