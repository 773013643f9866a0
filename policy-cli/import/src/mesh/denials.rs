//! The remainder of a grant after a denial. What cannot be said is left out of the grant as a whole.

use super::clients::ClientCondition;
use super::policies::{DeniedClients, MeshDenial};
use super::requests::RequestCondition;

/// A grant on one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortGrant {
    /// The row of its source.
    pub(super) row: usize,
    /// The name of the object that it comes from.
    pub(super) name: String,
    /// The clients.
    pub(super) clients: ClientCondition,
    /// The requests; absent: every connection.
    pub(super) requests: Option<Vec<RequestCondition>>,
}

/// The remainder of a grant after a denial.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remainder {
    /// The grants that are left.
    pub(super) grants: Vec<PortGrant>,
    /// The requests that nobody may send, whose routes come before those of the grants.
    pub(super) denied: Vec<RequestCondition>,
    /// True if more is left out than is denied.
    pub(super) is_narrower: bool,
}

/// Takes a denial out of a grant.
pub(super) fn remainder(grant: PortGrant, denial: &MeshDenial) -> Remainder {
    match &denial.requests {
        None => of_clients(grant, &denial.clients),
        Some(denied) => of_requests(grant, &denial.clients, denied),
    }
}

fn of_clients(grant: PortGrant, denied: &DeniedClients) -> Remainder {
    let (clients, is_narrower) = match denied {
        DeniedClients::All => (None, false),
        DeniedClients::AllBut(identity) => {
            let met = grant.clients.identity.met(identity);
            let networks = grant.clients.networks.clone();
            (met.map(|identity| ClientCondition { identity, networks }), false)
        }
        DeniedClients::These(denied) => grant.clients.without(denied),
    };
    let grants = clients.map(|clients| PortGrant { clients, ..grant }).into_iter().collect();
    Remainder { grants, denied: Vec::new(), is_narrower }
}

/// Of a grant, the requests apart from those that are denied stay, and those around them where the routes of
/// the denied ones come first. For the others the denial is of every request.
fn of_requests(
    grant: PortGrant,
    clients: &DeniedClients,
    denied: &[RequestCondition],
) -> Remainder {
    let requests = grant.requests.clone().unwrap_or_else(|| vec![RequestCondition::any()]);
    let (mut kept, mut met) = (Vec::new(), Vec::new());
    let mut before: Vec<RequestCondition> = Vec::new();
    for request in requests {
        let touching: Vec<&RequestCondition> =
            denied.iter().filter(|it| !request.is_apart_from(it)).collect();
        let inside = |it: &&RequestCondition| request.contains(it) && it.precedes(&request);
        if touching.is_empty() {
            kept.push(request);
        } else if *clients == DeniedClients::All && touching.iter().all(inside) {
            before.extend(touching.into_iter().cloned());
            kept.push(request);
        } else {
            met.push(request);
        }
    }
    if kept.len() == 1 && met.is_empty() && before.is_empty() && grant.requests.is_none() {
        return Remainder { grants: vec![grant], ..Remainder::default() };
    }
    let exact = met.iter().all(|request| denied.iter().any(|it| it.contains(request)));
    let mut left = Vec::new();
    if !kept.is_empty() {
        left.push(PortGrant { requests: Some(kept), ..grant.clone() });
    }
    let mut is_narrower = grant.requests.is_none() || !exact;
    if !met.is_empty() {
        let of_met = of_clients(PortGrant { requests: Some(met), ..grant }, clients);
        is_narrower |= of_met.is_narrower;
        left.extend(of_met.grants);
    }
    Remainder { grants: left, denied: before, is_narrower }
}

#[cfg(test)]
mod tests {
    use super::super::clients::IdentityCondition;
    use super::super::policies::SelectedWorkloads;
    use super::super::requests::PathCondition;
    use super::*;

    fn paths(paths: &[PathCondition]) -> Vec<RequestCondition> {
        let of = |path: &PathCondition| RequestCondition {
            path: path.clone(),
            ..RequestCondition::any()
        };
        paths.iter().map(of).collect()
    }

    fn begins(text: &str) -> PathCondition {
        PathCondition::Begins(text.to_owned())
    }

    fn exact(text: &str) -> PathCondition {
        PathCondition::Exact(text.to_owned())
    }

    fn grant(requests: Option<Vec<RequestCondition>>) -> PortGrant {
        PortGrant { row: 0, name: "g".to_owned(), clients: ClientCondition::anyone(), requests }
    }

    fn denial(clients: DeniedClients, requests: Option<Vec<RequestCondition>>) -> MeshDenial {
        let selection = SelectedWorkloads::Account { namespace: None, name: "web".to_owned() };
        MeshDenial { row: 1, selection, ports: None, clients, requests }
    }

    #[test]
    fn a_denied_prefix_is_cut_out_of_everything() {
        let admin = paths(&[begins("/admin")]);
        let left = remainder(grant(None), &denial(DeniedClients::All, Some(admin.clone())));
        let grants = vec![grant(Some(vec![RequestCondition::any()]))];
        assert_eq!(left, Remainder { grants, denied: admin, is_narrower: true });
    }

    #[test]
    fn what_lies_inside_of_a_denial_is_left_out_and_the_rest_stays() {
        let granted = grant(Some(paths(&[exact("/admin/x"), exact("/shop")])));
        let all = denial(DeniedClients::All, Some(paths(&[begins("/admin")])));
        let expected = Remainder {
            grants: vec![grant(Some(paths(&[exact("/shop")])))],
            denied: Vec::new(),
            is_narrower: false,
        };
        assert_eq!(remainder(granted, &all), expected);
        // It reaches into the denial, and no route of the denial comes first.
        let wide = grant(Some(paths(&[begins("/adm")])));
        let left = remainder(wide, &all);
        assert_eq!(left, Remainder { is_narrower: true, ..Remainder::default() });
    }

    #[test]
    fn a_denial_of_all_but_some_leaves_these() {
        let verified = denial(DeniedClients::AllBut(IdentityCondition::Verified), None);
        let clients = ClientCondition::with(IdentityCondition::Verified);
        let expected = PortGrant { clients, ..grant(None) };
        assert_eq!(remainder(grant(None), &verified).grants, [expected]);
    }
}
