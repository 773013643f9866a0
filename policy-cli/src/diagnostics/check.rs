//! All checks by name, and their sections in the documentation.

/// Groups of checks, in order of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    /// The API server.
    Cluster,
    /// Permissions.
    Rights,
    /// Other meshes and installations in the cluster.
    Beside,
    /// Controller and issuer.
    ControlPlane,
    /// Admission webhooks.
    Webhooks,
    /// Certificates and roots.
    Certificates,
    /// Pods of namespaces with injection.
    Pods,
}

impl Section {
    /// Its heading, here and in docs/health.md.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Rights => "Rights",
            Self::Beside => "Beside others",
            Self::ControlPlane => "Control plane",
            Self::Webhooks => "Webhooks",
            Self::Certificates => "Certificates",
            Self::Pods => "Pods",
        }
    }

    /// Link into the documentation.
    pub(crate) fn page(self) -> String {
        format!("docs/health.md#{}", self.title().to_ascii_lowercase().replace(' ', "-"))
    }
}

/// Declares the checks, the list of all of them, and their names.
macro_rules! checks {
    ($($(#[$doc:meta])* $check:ident = $name:literal in $section:ident,)*) => {
        /// A check.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Check {
            $($(#[$doc])* $check,)*
        }

        impl Check {
            /// All of them.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$check),*];

            /// Its name, in output and in docs/health.md.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$check => $name,)* }
            }

            /// The group that it belongs to.
            pub(crate) const fn section(self) -> Section {
                match self { $(Self::$check => Section::$section,)* }
            }
        }
    };
}

checks! {
    /// The API server responds and has a supported version.
    ApiServer = "api-server" in Cluster,
    /// The clocks of the API server and of this machine agree.
    Clock = "clock" in Cluster,
    /// The CRDs of policies are served.
    Definitions = "definitions" in Cluster,
    /// The CRDs of Gateway API are served.
    GatewayApi = "gateway-api" in Cluster,
    /// The caller may install the chart.
    InstallRights = "install-rights" in Rights,
    /// The control plane's service accounts have their permissions.
    AccountRights = "account-rights" in Rights,
    /// Presence of Linkerd in the cluster.
    Linkerd = "linkerd" in Beside,
    /// Linkerd's outbound policy, which our controller does not serve.
    OutboundPolicy = "outbound-policy" in Beside,
    /// NetworkPolicies of namespaces that ask for sidecars.
    NetworkPolicies = "network-policies" in Beside,
    /// A load balancer in the node's kernel that chooses endpoints before the sidecar.
    SocketBalancer = "socket-balancer" in Beside,
    /// Releases whose removal would delete definitions in use.
    DefinitionOwners = "definition-owners" in Beside,
    /// Leftovers of an earlier installation.
    Leftovers = "leftovers" in Beside,
    /// The controller's replicas are ready.
    Controller = "controller" in ControlPlane,
    /// The issuer's replicas are ready.
    Issuer = "issuer" in ControlPlane,
    /// State that each replica reports.
    Replicas = "replicas" in ControlPlane,
    /// One replica holds the leader Lease.
    Leader = "leader" in ControlPlane,
    /// The control plane has one version, which is this program's.
    Versions = "versions" in ControlPlane,
    /// The webhook configurations are complete.
    Webhooks = "webhooks" in Webhooks,
    /// The webhook configurations contain the right `caBundle`.
    WebhookAuthority = "webhook-authority" in Webhooks,
    /// The API server gets responses of the webhook.
    WebhookAnswers = "webhook-answers" in Webhooks,
    /// Validity of the webhooks' serving certificate.
    WebhookCertificate = "webhook-certificate" in Certificates,
    /// Validity of the trust roots.
    Roots = "roots" in Certificates,
    /// Namespaces have the trust roots.
    RootsInNamespaces = "roots-in-namespaces" in Certificates,
    /// Namespaces allow pods with a sidecar.
    PodSecurity = "pod-security" in Pods,
    /// Pods that could not be created.
    Refused = "refused-pods" in Pods,
    /// Pods that lack a sidecar.
    Missing = "missing-sidecars" in Pods,
    /// Sidecars that are not ready.
    NotReady = "sidecars-ready" in Pods,
    /// Pods whose addresses sidecars do not look up.
    PodNetworks = "pod-networks" in Pods,
    /// Versions of sidecars.
    SidecarVersions = "sidecar-versions" in Pods,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_check_is_explained_where_its_line_points() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/health.md");
        let page = std::fs::read_to_string(page).unwrap();
        for check in Check::ALL {
            let heading = format!("\n## {}\n", check.section().title());
            let (_, section) = page.split_once(&heading).expect(&heading);
            let section = section.split("\n## ").next().unwrap();
            let row = format!("| `{}` |", check.name());
            assert!(section.contains(&row), "{row} below{heading}");
        }
    }

    #[test]
    fn a_place_is_the_heading_as_it_is_linked_to() {
        assert_eq!(Section::ControlPlane.page(), "docs/health.md#control-plane");
    }
}
