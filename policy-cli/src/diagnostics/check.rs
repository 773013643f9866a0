//! Everything that is looked at, by name, and where the documents explain it.

/// What belongs together, in the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    /// The API server.
    Cluster,
    /// Who may do what.
    Rights,
    /// What else is in the cluster.
    Beside,
    /// Controller and issuer.
    ControlPlane,
    /// What the API server asks the controller.
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

    /// The place in the documents.
    pub(crate) fn page(self) -> String {
        format!("docs/health.md#{}", self.title().to_ascii_lowercase().replace(' ', "-"))
    }
}

/// Declares the checks, the list of all of them, and what each is called.
macro_rules! checks {
    ($($(#[$doc:meta])* $check:ident = $name:literal in $section:ident,)*) => {
        /// One thing that is looked at.
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

            /// Where it belongs.
            pub(crate) const fn section(self) -> Section {
                match self { $(Self::$check => Section::$section,)* }
            }
        }
    };
}

checks! {
    /// Whether the API server answers, and in a version that is supported.
    ApiServer = "api-server" in Cluster,
    /// Whether the API server's clock is that of this machine.
    Clock = "clock" in Cluster,
    /// Whether the kinds are served.
    Definitions = "definitions" in Cluster,
    /// Whether Gateway API is there.
    GatewayApi = "gateway-api" in Cluster,
    /// Whether whoever asks may install.
    InstallRights = "install-rights" in Rights,
    /// Whether the control plane's accounts may do what it takes.
    AccountRights = "account-rights" in Rights,
    /// Whether Linkerd is in the cluster.
    Linkerd = "linkerd" in Beside,
    /// What an earlier installation left.
    Leftovers = "leftovers" in Beside,
    /// Whether the replicas of the controller are ready.
    Controller = "controller" in ControlPlane,
    /// Whether the replicas of the issuer are ready.
    Issuer = "issuer" in ControlPlane,
    /// What each replica says of itself.
    Replicas = "replicas" in ControlPlane,
    /// Whether one replica leads.
    Leader = "leader" in ControlPlane,
    /// Whether the control plane has one version, and this program the same.
    Versions = "versions" in ControlPlane,
    /// Whether the webhooks are configured.
    Webhooks = "webhooks" in Webhooks,
    /// Whether the API server is told whom to trust.
    WebhookAuthority = "webhook-authority" in Webhooks,
    /// Whether the API server gets answers.
    WebhookAnswers = "webhook-answers" in Webhooks,
    /// How long the webhooks' certificate lasts.
    WebhookCertificate = "webhook-certificate" in Certificates,
    /// How long the roots of the mesh last.
    Roots = "roots" in Certificates,
    /// Whether namespaces have the roots.
    RootsInNamespaces = "roots-in-namespaces" in Certificates,
    /// Whether namespaces let pods have a sidecar.
    PodSecurity = "pod-security" in Pods,
    /// Pods that could not be created.
    Refused = "refused-pods" in Pods,
    /// Pods that lack a sidecar.
    Missing = "missing-sidecars" in Pods,
    /// Sidecars that are not ready.
    NotReady = "sidecars-ready" in Pods,
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
