//! Whether the service accounts of the control plane may do what it takes, as the chart's roles let
//! them.

use super::told;
use crate::checkup::check::Check;
use crate::checkup::finding::{Finding, some};
use crate::checkup::read::Read;
use crate::checkup::rights::{Right, of_rules};
use policy_kube::rbac;

/// What a controller needs that is told this, in the control plane's namespace `home`.
pub(super) fn of_controller(told: &told::Controller, home: &str) -> Vec<Right> {
    let (cluster, provisioned) = rbac::provisioning_rules();
    let makes = told.secret.is_some();
    let mut rights = of_rules(&rbac::control_plane_rules(), Some(home));
    if makes {
        rights.extend(of_rules(&provisioned, Some(home)));
    }
    if let Some(namespaces) = &told.watched {
        let within = namespaces.iter().map(|name| of_rules(&rbac::namespace_rules(), Some(name)));
        rights.extend(within.flatten());
        return rights;
    }
    let mut everywhere = rbac::cluster_rules();
    if makes {
        everywhere.extend(cluster);
    }
    if told.injector.is_some() {
        everywhere.extend(rbac::injector_rules(makes));
    }
    if told.beside && makes {
        everywhere.extend(rbac::beside_linkerd_rules());
    }
    rights.extend(of_rules(&everywhere, None));
    rights
}

/// What an issuer needs that is told this.
pub(super) fn of_issuer(told: &told::Issuer, home: &str) -> Vec<Right> {
    let mut rights = of_rules(&rbac::issuer_control_plane_rules(), Some(home));
    if told.provisions {
        rights.extend(of_rules(&rbac::issuer_provisioning_rules(), Some(home)));
    }
    match &told.namespaces {
        None => rights.extend(of_rules(&rbac::issuer_cluster_rules(), None)),
        Some(namespaces) => {
            rights.extend(of_rules(&rbac::token_review_rules(), None));
            let within = namespaces.iter().map(String::as_str).chain([home]);
            rights.extend(
                within.flat_map(|name| of_rules(&rbac::issuer_namespace_rules(), Some(name))),
            );
        }
    }
    rights
}

/// What the accounts lack.
pub(super) fn accounts(lacking: &[(String, Read<Vec<Right>>)]) -> Vec<Finding> {
    let check = Check::AccountRights;
    let of = |(account, lacking): &(String, Read<Vec<Right>>)| match lacking {
        Err(why) => Finding::unknown(check, why),
        Ok(lacking) if lacking.is_empty() => {
            Finding::pass(check, format!("ServiceAccount {account} may do what it takes"))
        }
        Ok(lacking) => {
            let names: Vec<String> = lacking.iter().map(ToString::to_string).collect();
            Finding::fail(
                check,
                format!("ServiceAccount {account} may not {}", some(&names)),
                "`helm upgrade` renders its roles anew; see who changed or unbound them",
            )
        }
    };
    lacking.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::finding::Outcome;
    use crate::checkup::read::Unread;

    #[test]
    fn what_is_needed_follows_from_the_flags() {
        let words = |rights: &[Right]| rights.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = words(&of_controller(&told::Controller::default(), "mesh"));
        let has = |all: &[String], text: &str| all.iter().any(|right| right == text);
        for right in [
            "list servers.policy.linkerd.io",
            "patch namespaces",
            "update leases.coordination.k8s.io in namespace mesh",
            "update secrets policy-admission-tls in namespace mesh",
        ] {
            assert!(has(&all, right), "{right}: {all:#?}");
        }
        let some = told::Controller {
            watched: Some(vec!["shop".to_owned()]),
            injector: None,
            secret: None,
            ..told::Controller::default()
        };
        let some = words(&of_controller(&some, "mesh"));
        assert!(has(&some, "list servers.policy.linkerd.io in namespace shop"));
        assert!(!has(&some, "list servers.policy.linkerd.io") && !has(&some, "patch namespaces"));
        let issuer = words(&of_issuer(&told::Issuer::default(), "mesh"));
        assert!(has(&issuer, "update secrets portcullis-identity-issuer in namespace mesh"));
        assert!(has(&issuer, "create tokenreviews.authentication.k8s.io"));
    }

    #[test]
    fn what_is_lacking_is_named_by_account() {
        let right = of_issuer(&told::Issuer::default(), "mesh").remove(0);
        let of = |lacking| accounts(&[("mesh/issuer".to_owned(), lacking)]).remove(0);
        assert_eq!(of(Ok(vec![])).outcome, Outcome::Pass);
        let lacks = of(Ok(vec![right]));
        assert_eq!(lacks.outcome, Outcome::Fail);
        assert_eq!(
            lacks.message,
            "ServiceAccount mesh/issuer may not create events.events.k8s.io in namespace mesh"
        );
        assert_eq!(of(Err(Unread::Failed("no".to_owned()))).outcome, Outcome::Unknown);
    }
}
