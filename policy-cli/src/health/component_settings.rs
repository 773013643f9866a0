//! Settings of the control plane, from the flags of its pods.

use super::volumes::config_map;
use crate::cluster::controller::ControllerPod;
use crate::cluster::settings::{controller_settings, issuer_args};
use ipnet::IpNet;
use policy_controller::args::{IssuerArgs, OwnCertificate, Settings, SourceSettings};
use policy_engine::ControllerConfig;
use policy_kube::lease::LEASE_NAME;
use policy_kube::names::{
    INJECTOR_CONFIGURATION, TRUST_ROOTS, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET,
};
use policy_kube::source::Scope;
use policy_tls::identity::{Roots, TrustAnchors};
use policy_webhooks::admission::CertificateSource;
use serde_json::Value;
use std::path::Path;

/// Settings of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ControllerSettings {
    /// The watched namespaces; `None`: all.
    pub(super) watched: Option<Vec<String>>,
    /// Its ValidatingWebhookConfiguration; `None`: the webhook is not served.
    pub(super) webhook: Option<String>,
    /// True if that configuration has a webhook for outbound policy, too.
    pub(super) outbound: bool,
    /// The injector's MutatingWebhookConfiguration; `None`: the injector is not served.
    pub(super) injector: Option<String>,
    /// True if `linkerd.io/inject` asks the injector, too.
    pub(super) reads_linkerd: bool,
    /// True if it tells sidecars what addresses lead to.
    pub(super) discovery: bool,
    /// The networks whose addresses sidecars look up; `None`: it answers nobody.
    pub(super) looked_up: Option<Vec<IpNet>>,
    /// True if it redirects Linkerd's proxies to itself.
    pub(super) beside: bool,
    /// The Secret with the provisioned certificate; `None`: the operator supplies the certificate.
    pub(super) secret: Option<String>,
    /// True if certificates come from another service than this project's issuer.
    pub(super) external: bool,
    /// The ConfigMap with the roots by which it verifies that service; `None` if unknown.
    pub(super) roots: Option<String>,
    /// The Lease.
    pub(super) lease: String,
    /// Its admin port.
    pub(super) admin: u16,
}

/// Settings of a controller that the chart installs by default.
impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            watched: None,
            webhook: Some(WEBHOOK_CONFIGURATION.to_owned()),
            outbound: false,
            injector: Some(INJECTOR_CONFIGURATION.to_owned()),
            reads_linkerd: false,
            discovery: true,
            looked_up: ControllerConfig::default().looked_up_networks().map(<[_]>::to_vec),
            beside: false,
            secret: Some(WEBHOOK_SECRET.to_owned()),
            external: false,
            roots: None,
            lease: LEASE_NAME.to_owned(),
            admin: 8080,
        }
    }
}

/// Settings of the issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IssuerSettings {
    /// The namespaces that get the roots; `None`: those with injection.
    pub(super) namespaces: Option<Vec<String>>,
    /// True if it provisions its CA itself.
    pub(super) provisions: bool,
    /// The ConfigMap of the roots.
    pub(super) roots: String,
    /// Its admin port.
    pub(super) admin: u16,
}

/// Settings of an issuer that the chart installs by default.
impl Default for IssuerSettings {
    fn default() -> Self {
        Self { namespaces: None, provisions: true, roots: TRUST_ROOTS.to_owned(), admin: 9990 }
    }
}

/// Parses the flags of the controller's first pod, or returns in words why they are unknown.
pub(super) fn controller(namespace: &str, pods: &[Value]) -> Result<ControllerSettings, String> {
    let pod = pods.first().ok_or("no pod of it was found")?;
    let found = ControllerPod {
        namespace: namespace.into(),
        name: String::new(),
        service_account: String::new(),
        pod: pod.clone(),
    };
    let settings = controller_settings(&found).map_err(|error| format!("{error:#}"))?;
    let roots = roots_file(&settings).and_then(|file| config_map(pod, file));
    Ok(ControllerSettings { roots, ..of_settings(settings, namespace) })
}

fn of_settings(settings: Settings, home: &str) -> ControllerSettings {
    let admin = settings.admin.port();
    let external = is_external(&settings, home);
    let looked_up = settings.controller.looked_up_networks().map(<[_]>::to_vec);
    let SourceSettings::Cluster(cluster) = settings.source else {
        // With manifests, nothing is served to or written into a cluster.
        let nothing = ControllerSettings {
            webhook: None,
            injector: None,
            secret: None,
            discovery: false,
            looked_up: None,
            ..ControllerSettings::default()
        };
        return ControllerSettings { admin, ..nothing };
    };
    let provisioning =
        cluster.admission.as_ref().and_then(|admission| match &admission.certificate {
            CertificateSource::Provisioned(provisioning) => Some(provisioning),
            CertificateSource::Files(_) => None,
        });
    let webhook = cluster.admission.as_ref().map(|_| {
        let named = provisioning.map(|provisioning| provisioning.configuration.clone());
        named.unwrap_or_else(|| WEBHOOK_CONFIGURATION.to_owned())
    });
    ControllerSettings {
        watched: match &cluster.watches.scope {
            Scope::Namespaces(names) => Some(names.iter().map(ToString::to_string).collect()),
            Scope::Cluster => None,
        },
        webhook,
        outbound: cluster.admission.as_ref().is_some_and(|it| it.linkerd_compatible),
        injector: cluster.injector.as_ref().map(|injector| injector.configuration.clone()),
        reads_linkerd: cluster.injector.as_ref().is_some_and(|injector| injector.reads_linkerd),
        discovery: cluster.watches.discovery,
        looked_up,
        beside: cluster.redirector.is_some(),
        secret: provisioning.map(|provisioning| provisioning.secret.clone()),
        external,
        roots: None,
        lease: cluster.lease.name.to_string(),
        admin,
    }
}

/// True if the controller's own certificate comes from another service than the issuer of its
/// namespace, which is `home`.
fn is_external(settings: &Settings, home: &str) -> bool {
    let Some(OwnCertificate::Certify(config)) = &settings.auth.tls else { return false };
    !config.issuer.to_string().starts_with(&format!("portcullis-issuer.{home}."))
}

/// File with the roots that verify the issuer of the controller's certificate.
fn roots_file(settings: &Settings) -> Option<&Path> {
    let Some(OwnCertificate::Certify(config)) = &settings.auth.tls else { return None };
    match &config.roots {
        TrustAnchors::Trusted(Roots::File(file)) => Some(file),
        TrustAnchors::Trusted(Roots::Text(_)) | TrustAnchors::Followed { .. } => None,
    }
}

/// Parses the flags of the issuer's first pod, or returns in words why they are unknown.
pub(super) fn issuer(pods: &[Value]) -> Result<IssuerSettings, String> {
    let pod = pods.first().ok_or("no pod of it was found")?;
    let arguments: IssuerArgs = issuer_args(pod).map_err(|error| format!("{error:#}"))?;
    Ok(IssuerSettings {
        namespaces: arguments.roots_namespaces.map(|names| names.into_iter().collect()),
        provisions: arguments.issuer_cert.is_none(),
        roots: arguments.roots_configmap,
        admin: arguments.admin_addr.port(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(arguments: &[&str]) -> Value {
        json!({"metadata": {"namespace": "mesh", "name": "p"},
               "spec": {"containers": [{"name": "c", "args": arguments}]}})
    }

    #[test]
    fn what_the_chart_tells_by_default_is_the_default() {
        let flags =
            ["run", "--control-plane-namespace=mesh", "--admin-addr=0.0.0.0:8080", "--injector"];
        assert_eq!(controller("mesh", &[pod(&flags)]), Ok(ControllerSettings::default()));
        let flags = ["issuer", "--control-plane-namespace=mesh"];
        assert_eq!(issuer(&[pod(&flags)]), Ok(IssuerSettings::default()));
        assert!(issuer(&[pod(&["run"])]).is_err() && controller("mesh", &[]).is_err());
    }

    #[test]
    fn a_linkerd_compatible_controller_has_a_webhook_for_outbound_policy() {
        let outbound = |flags: &[&str]| controller("mesh", &[pod(flags)]).unwrap().outbound;
        let home = "--control-plane-namespace=mesh";
        assert!(!outbound(&["run", home]));
        assert!(outbound(&["run", home, "--linkerd-compatible"]));
        let disabled = "--admission-controller-disabled";
        assert!(!outbound(&["run", home, "--linkerd-compatible", disabled]));
    }

    #[test]
    fn another_service_is_known_by_its_address_and_its_roots_by_their_volume() {
        let is_external = |issuer: &str| {
            let address = format!("--identity-addr={issuer}:8080");
            let flags = [
                "run",
                "--control-plane-namespace=mesh",
                "--identity=certify",
                &address,
                "--identity-roots=/roots/ca-bundle.crt",
            ];
            let mut pod = pod(&flags);
            pod["spec"]["containers"][0]["volumeMounts"] =
                json!([{"name": "r", "mountPath": "/roots"}]);
            pod["spec"]["volumes"] = json!([{"name": "r", "configMap": {"name": "company-roots"}}]);
            let settings = controller("mesh", &[pod]).unwrap();
            assert_eq!(settings.roots.as_deref(), Some("company-roots"), "{issuer}");
            settings.external
        };
        assert!(!is_external("portcullis-issuer.mesh.svc.cluster.local"));
        for issuer in [
            "portcullis-issuer.other.svc.cluster.local",
            "portcullis-issuer.mesh2.svc.cluster.local",
            "linkerd-identity-headless.mesh.svc.cluster.local",
        ] {
            assert!(is_external(issuer), "{issuer}");
        }
    }

    #[test]
    fn what_is_turned_off_or_supplied_is_known() {
        let flags = [
            "run",
            "--watch-namespace=shop",
            "--server-tls-certs=/a",
            "--server-tls-key=/b",
            "--admin-addr=0.0.0.0:7",
        ];
        let settings = controller("mesh", &[pod(&flags)]).unwrap();
        assert_eq!(settings.watched, Some(vec!["shop".to_owned()]));
        assert_eq!((settings.secret, settings.injector, settings.admin), (None, None, 7));
        assert_eq!(settings.webhook.as_deref(), Some(WEBHOOK_CONFIGURATION));
        let flags = ["issuer", "--roots-namespaces=a, b", "--roots-configmap=r"];
        let settings = issuer(&[pod(&flags)]).unwrap();
        assert_eq!(settings.namespaces, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(settings.roots, "r");
    }
}
