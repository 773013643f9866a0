//! Addresses and identities of the control plane.

/// Default audience of a pod's token.
const AUDIENCE: &str = "portcullis.dev/identity";

/// Addresses and identities of the control plane, as pods need them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane {
    /// Namespace of the control plane, which is part of every identity.
    pub namespace: String,
    /// The trust domain, the suffix of every identity.
    pub trust_domain: String,
    /// Address of the policy controller, `host:port`.
    pub policy: String,
    /// Address of the issuer, `host:port`.
    pub issuer: String,
    /// The identity of the issuer.
    pub issuer_identity: String,
    /// The audience of the tokens that the issuer reviews.
    pub audience: String,
    /// True if pods may lack IPv6.
    pub ipv4_only: bool,
}

impl ControlPlane {
    /// Returns the defaults for a control plane in this namespace.
    pub fn new(control_plane: &str, trust_domain: &str, cluster_domain: &str) -> Self {
        // The trailing dot makes the name absolute, which saves a lookup for every search domain.
        let service =
            |name: &str, port: u16| format!("{name}.{control_plane}.svc.{cluster_domain}.:{port}");
        let issuer = "portcullis-issuer";
        Self {
            issuer_identity: identity((issuer, control_plane), control_plane, trust_domain),
            audience: AUDIENCE.to_owned(),
            namespace: control_plane.to_owned(),
            trust_domain: trust_domain.to_owned(),
            policy: service("portcullis-policy", 8090),
            issuer: service("portcullis-issuer", 8080),
            ipv4_only: false,
        }
    }

    /// Returns the identity of the policy controller.
    pub fn controller(&self) -> String {
        self.identity("policy-controller", &self.namespace)
    }

    pub(super) fn identity(&self, account: &str, namespace: &str) -> String {
        identity((account, namespace), &self.namespace, &self.trust_domain)
    }
}

fn identity((account, namespace): (&str, &str), control_plane: &str, trust_domain: &str) -> String {
    format!("{account}.{namespace}.serviceaccount.identity.{control_plane}.{trust_domain}")
}
