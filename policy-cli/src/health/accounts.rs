//! Checks that the service accounts of the control plane have the permissions of the chart's roles.

use super::component_settings::{ControllerSettings, IssuerSettings};
use crate::diagnostics::access_review::{Permission, from_rules};
use crate::diagnostics::check::Check;
use crate::diagnostics::fetch::FetchResult;
use crate::diagnostics::result::{CheckResult, abbreviated};
use policy_kube::rbac;

/// Permissions of a controller with these settings. `home` is the control plane's namespace.
pub(super) fn of_controller(settings: &ControllerSettings, home: &str) -> Vec<Permission> {
    let (cluster, provisioned) = rbac::provisioning_rules();
    let makes = settings.secret.is_some();
    let mut rights = from_rules(&rbac::control_plane_rules(), Some(home));
    if makes {
        rights.extend(from_rules(&provisioned, Some(home)));
    }
    if let Some(namespaces) = &settings.watched {
        let within = namespaces.iter().map(|name| from_rules(&rbac::namespace_rules(), Some(name)));
        rights.extend(within.flatten());
        return rights;
    }
    let mut everywhere = rbac::cluster_rules();
    if makes {
        everywhere.extend(cluster);
    }
    if settings.injector.is_some() {
        everywhere.extend(rbac::injector_rules(makes));
    }
    if settings.discovery {
        everywhere.extend(rbac::discovery_rules());
    }
    if settings.beside && makes {
        everywhere.extend(rbac::beside_linkerd_rules());
    }
    rights.extend(from_rules(&everywhere, None));
    rights
}

/// Permissions of an issuer with these settings.
pub(super) fn of_issuer(settings: &IssuerSettings, home: &str) -> Vec<Permission> {
    let mut rights = from_rules(&rbac::issuer_control_plane_rules(), Some(home));
    if settings.provisions {
        rights.extend(from_rules(&rbac::issuer_provisioning_rules(), Some(home)));
    }
    match &settings.namespaces {
        None => rights.extend(from_rules(&rbac::issuer_cluster_rules(), None)),
        Some(namespaces) => {
            rights.extend(from_rules(&rbac::token_review_rules(), None));
            let within = namespaces.iter().map(String::as_str).chain([home]);
            rights.extend(
                within.flat_map(|name| from_rules(&rbac::issuer_namespace_rules(), Some(name))),
            );
        }
    }
    rights
}

/// Reports the missing permissions of the service accounts.
pub(super) fn accounts(missing: &[(String, FetchResult<Vec<Permission>>)]) -> Vec<CheckResult> {
    let check = Check::AccountRights;
    let of = |(account, missing): &(String, FetchResult<Vec<Permission>>)| match missing {
        Err(why) => CheckResult::unknown(check, why),
        Ok(missing) if missing.is_empty() => {
            CheckResult::pass(check, format!("ServiceAccount {account} has its permissions"))
        }
        Ok(missing) => {
            let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
            CheckResult::fail(
                check,
                format!("ServiceAccount {account} may not {}", abbreviated(&names)),
                "`helm upgrade` renders its roles anew; see who changed or unbound them",
            )
        }
    };
    missing.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::fetch::FetchError;
    use crate::diagnostics::result::CheckOutcome;

    #[test]
    fn what_is_needed_follows_from_the_flags() {
        let words =
            |rights: &[Permission]| rights.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = words(&of_controller(&ControllerSettings::default(), "mesh"));
        let has = |all: &[String], text: &str| all.iter().any(|right| right == text);
        for right in [
            "list servers.policy.linkerd.io",
            "patch namespaces",
            "update leases.coordination.k8s.io in namespace mesh",
            "update secrets policy-admission-tls in namespace mesh",
        ] {
            assert!(has(&all, right), "{right}: {all:#?}");
        }
        let some = ControllerSettings {
            watched: Some(vec!["shop".to_owned()]),
            injector: None,
            secret: None,
            ..ControllerSettings::default()
        };
        let some = words(&of_controller(&some, "mesh"));
        assert!(has(&some, "list servers.policy.linkerd.io in namespace shop"));
        assert!(!has(&some, "list servers.policy.linkerd.io") && !has(&some, "patch namespaces"));
        let issuer = words(&of_issuer(&IssuerSettings::default(), "mesh"));
        assert!(has(&issuer, "update secrets portcullis-identity-issuer in namespace mesh"));
        assert!(has(&issuer, "create tokenreviews.authentication.k8s.io"));
    }

    #[test]
    fn what_is_lacking_is_named_by_account() {
        let right = of_issuer(&IssuerSettings::default(), "mesh").remove(0);
        let of = |missing| accounts(&[("mesh/issuer".to_owned(), missing)]).remove(0);
        assert_eq!(of(Ok(vec![])).outcome, CheckOutcome::Pass);
        let missing = of(Ok(vec![right]));
        assert_eq!(missing.outcome, CheckOutcome::Fail);
        assert_eq!(
            missing.message,
            "ServiceAccount mesh/issuer may not create events.events.k8s.io in namespace mesh"
        );
        assert_eq!(of(Err(FetchError::Failed("no".to_owned()))).outcome, CheckOutcome::Unknown);
    }
}
