//! Identities that no client of this mesh proves: they end in another trust domain.

use super::finder::{Finder, finding};
use super::finding::{Finding, FindingKind};
use crate::config::ControllerConfig;
use policy_core::IdentityMatch;
use policy_crds::resource::ClientRequirement;
use policy_crds::{ObjectKey, Resource};

/// The part before the control plane's namespace in an identity of a ServiceAccount.
const ACCOUNT_INFIX: &str = "serviceaccount.identity.";

impl Finder<'_> {
    /// The identities of an object that end in no trust domain of this mesh.
    pub(super) fn foreign_identities(&self, key: &ObjectKey, resource: &Resource) -> Vec<Finding> {
        let (field, identities) = listed(resource);
        let foreign = identities.iter().enumerate().filter_map(|(i, identity)| {
            let message = foreign(identity, self.config)?;
            let field = format!("{field}[{i}]");
            Some(finding(key, FindingKind::ForeignIdentity, &field, message))
        });
        foreign.collect()
    }
}

/// The message about an identity that this mesh does not issue.
fn foreign(identity: &IdentityMatch, config: &ControllerConfig) -> Option<String> {
    let (text, star) = match identity {
        IdentityMatch::Any => return None,
        // The trust domains of SPIFFE belong to the issuer of such identities.
        IdentityMatch::Exact(text) if text.starts_with("spiffe://") => return None,
        IdentityMatch::Exact(text) => (&**text, ""),
        IdentityMatch::Suffix(text) => (&**text, "*."),
    };
    let mesh = config.identity_suffix();
    let message =
        format!("ends in no trust domain of this mesh, whose identities end in `.identity.{mesh}`");
    if let Some((head, end)) = of_an_account(text, !star.is_empty()) {
        return (end != mesh).then(|| format!("{message}; is `{star}{head}{mesh}` meant?"));
    }
    let ends_in = |text: &str, end: &str| {
        text.strip_suffix(end).is_some_and(|head| head.is_empty() || head.ends_with('.'))
    };
    // A suffix may be shorter than what all identities end in.
    let wide = !star.is_empty() && ends_in(&format!("{ACCOUNT_INFIX}{mesh}"), text);
    (!wide && !ends_in(text, &config.identity_domain)).then_some(message)
}

/// The identities that an object lists, and in which field.
fn listed(resource: &Resource) -> (&'static str, &[IdentityMatch]) {
    if let Resource::MeshTlsAuthentication(authentication) = resource {
        ("spec.identities", &authentication.identities)
    } else if let Resource::ServerAuthorization(authorization) = resource
        && let ClientRequirement::Identities { identities, .. } = &authorization.client
    {
        ("spec.client.meshTLS.identities", identities)
    } else {
        ("", &[])
    }
}

/// Splits an identity of a ServiceAccount, or a suffix of such identities, into the part that names
/// the account, and the end.
fn of_an_account(text: &str, is_end: bool) -> Option<(&str, &str)> {
    // The last one: the name of an account may contain the same words.
    let found = text.rfind(&format!(".{ACCOUNT_INFIX}")).map(|at| at.saturating_add(1));
    let found = found.or_else(|| text.starts_with(ACCOUNT_INFIX).then_some(0));
    let end = found.map(|at| at.saturating_add(ACCOUNT_INFIX.len()));
    let short = "identity.";
    let end = end.or_else(|| (is_end && text.starts_with(short)).then_some(short.len()))?;
    text.split_at_checked(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message about an identity in a mesh whose identities end in `portcullis.cluster.local`.
    fn message_about(identity: &str) -> Option<String> {
        let control_plane_namespace = "portcullis".into();
        let config = ControllerConfig { control_plane_namespace, ..ControllerConfig::default() };
        foreign(&IdentityMatch::parse(identity), &config)
    }

    #[test]
    fn identities_that_this_mesh_gives_are_passed_over() {
        for identity in [
            "*",
            "cart.shop.serviceaccount.identity.portcullis.cluster.local",
            "*.shop.serviceaccount.identity.portcullis.cluster.local",
            "*.identity.portcullis.cluster.local",
            "*.serviceaccount.identity.portcullis.cluster.local",
            "*.cluster.local",
            "*.local",
            "vm.machines.cluster.local",
            "a.serviceaccount.identity.b.shop.serviceaccount.identity.portcullis.cluster.local",
            "spiffe://example.org/vm",
        ] {
            assert_eq!(message_about(identity), None, "{identity}");
        }
    }

    #[test]
    fn identities_of_another_mesh_are_told_with_the_spelling_of_this_one() {
        for (identity, meant) in [
            (
                "cart.shop.serviceaccount.identity.linkerd.cluster.local",
                "cart.shop.serviceaccount.identity.portcullis.cluster.local",
            ),
            (
                "*.shop.serviceaccount.identity.portcullis.example.org",
                "*.shop.serviceaccount.identity.portcullis.cluster.local",
            ),
            ("*.identity.linkerd.cluster.local", "*.identity.portcullis.cluster.local"),
        ] {
            let message = message_about(identity).unwrap();
            assert!(message.ends_with(&format!("; is `{meant}` meant?")), "{message}");
        }
        for identity in ["cart.shop.example.org", "*.shop.cluster.locale", "*.xcluster.local"] {
            let message = message_about(identity).unwrap();
            assert!(message.ends_with("end in `.identity.portcullis.cluster.local`"), "{message}");
        }
    }
}
