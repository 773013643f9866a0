//! How the control plane is told to be, by the flags of its pods.

use super::mounted::config_map;
use crate::cluster::controller::Found;
use crate::cluster::settings::{told, told_issuer};
use policy_controller::args::{IssuerArgs, OwnCertificate, Settings, SourceSettings};
use policy_kube::lease::LEASE_NAME;
use policy_kube::names::{
    INJECTOR_CONFIGURATION, TRUST_ROOTS, WEBHOOK_CONFIGURATION, WEBHOOK_SECRET,
};
use policy_kube::source::Scope;
use policy_tls::identity::{Roots, TrustAnchors};
use policy_webhooks::admission::CertificateSource;
use serde_json::Value;
use std::path::Path;

/// What the controller is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    /// The namespaces that it watches; none: all.
    pub(super) watched: Option<Vec<String>>,
    /// Its ValidatingWebhookConfiguration; none: the webhook is not served.
    pub(super) webhook: Option<String>,
    /// Its injector's MutatingWebhookConfiguration; none: the injector is not served.
    pub(super) injector: Option<String>,
    /// Whether it points Linkerd's proxies at itself.
    pub(super) beside: bool,
    /// The Secret with the certificate that it makes; none: the certificate is supplied.
    pub(super) secret: Option<String>,
    /// Whether certificates come from another service than this project's issuer.
    pub(super) external: bool,
    /// The ConfigMap that the roots come from by which it knows that service; none: nothing says it.
    pub(super) roots: Option<String>,
    /// The Lease.
    pub(super) lease: String,
    /// Its admin port.
    pub(super) admin: u16,
}

/// What a controller of the chart is told by default.
impl Default for Controller {
    fn default() -> Self {
        Self {
            watched: None,
            webhook: Some(WEBHOOK_CONFIGURATION.to_owned()),
            injector: Some(INJECTOR_CONFIGURATION.to_owned()),
            beside: false,
            secret: Some(WEBHOOK_SECRET.to_owned()),
            external: false,
            roots: None,
            lease: LEASE_NAME.to_owned(),
            admin: 8080,
        }
    }
}

/// What the issuer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Issuer {
    /// The namespaces that it gives the roots to; none: those with injection.
    pub(super) namespaces: Option<Vec<String>>,
    /// Whether it makes its authority itself.
    pub(super) provisions: bool,
    /// The ConfigMap of the roots.
    pub(super) roots: String,
    /// Its admin port.
    pub(super) admin: u16,
}

/// What an issuer of the chart is told by default.
impl Default for Issuer {
    fn default() -> Self {
        Self { namespaces: None, provisions: true, roots: TRUST_ROOTS.to_owned(), admin: 9990 }
    }
}

/// Reads the flags of the first pod of the controller; in words why they are not known.
pub(super) fn controller(namespace: &str, pods: &[Value]) -> Result<Controller, String> {
    let pod = pods.first().ok_or("no pod of it was found")?;
    let found = Found {
        namespace: namespace.into(),
        name: String::new(),
        service_account: String::new(),
        pod: pod.clone(),
    };
    let settings = told(&found).map_err(|error| format!("{error:#}"))?;
    let roots = roots_file(&settings).and_then(|file| config_map(pod, file));
    Ok(Controller { roots, ..of_settings(settings, namespace) })
}

fn of_settings(settings: Settings, home: &str) -> Controller {
    let admin = settings.admin.port();
    let external = is_external(&settings, home);
    let SourceSettings::Cluster(cluster) = settings.source else {
        // Manifests: nothing of a cluster is served or written.
        let nothing =
            Controller { webhook: None, injector: None, secret: None, ..Controller::default() };
        return Controller { admin, ..nothing };
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
    Controller {
        watched: match &cluster.watches.scope {
            Scope::Namespaces(names) => Some(names.iter().map(ToString::to_string).collect()),
            Scope::Cluster => None,
        },
        webhook,
        injector: cluster.injector.as_ref().map(|injector| injector.configuration.clone()),
        beside: cluster.repoint.is_some(),
        secret: provisioning.map(|provisioning| provisioning.secret.clone()),
        external,
        roots: None,
        lease: cluster.lease.name.to_string(),
        admin,
    }
}

/// Whether the controller's own certificate comes from another service than the issuer of its
/// namespace, which is `home`.
fn is_external(settings: &Settings, home: &str) -> bool {
    let Some(OwnCertificate::Certify(config)) = &settings.auth.tls else { return false };
    !config.issuer.to_string().starts_with(&format!("portcullis-issuer.{home}."))
}

/// The file with the roots by which the controller knows who issues its certificate.
fn roots_file(settings: &Settings) -> Option<&Path> {
    let Some(OwnCertificate::Certify(config)) = &settings.auth.tls else { return None };
    match &config.roots {
        TrustAnchors::Trusted(Roots::File(file)) => Some(file),
        TrustAnchors::Trusted(Roots::Text(_)) | TrustAnchors::Followed { .. } => None,
    }
}

/// Reads the flags of the first pod of the issuer; in words why they are not known.
pub(super) fn issuer(pods: &[Value]) -> Result<Issuer, String> {
    let pod = pods.first().ok_or("no pod of it was found")?;
    let arguments: IssuerArgs = told_issuer(pod).map_err(|error| format!("{error:#}"))?;
    Ok(Issuer {
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
        assert_eq!(controller("mesh", &[pod(&flags)]), Ok(Controller::default()));
        let flags = ["issuer", "--control-plane-namespace=mesh"];
        assert_eq!(issuer(&[pod(&flags)]), Ok(Issuer::default()));
        assert!(issuer(&[pod(&["run"])]).is_err() && controller("mesh", &[]).is_err());
    }

    #[test]
    fn another_service_is_known_by_its_address_and_its_roots_by_their_volume() {
        let told = |issuer: &str| {
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
            let told = controller("mesh", &[pod]).unwrap();
            assert_eq!(told.roots.as_deref(), Some("company-roots"), "{issuer}");
            told.external
        };
        assert!(!told("portcullis-issuer.mesh.svc.cluster.local"));
        for issuer in [
            "portcullis-issuer.other.svc.cluster.local",
            "portcullis-issuer.mesh2.svc.cluster.local",
            "linkerd-identity-headless.mesh.svc.cluster.local",
        ] {
            assert!(told(issuer), "{issuer}");
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
        let told = controller("mesh", &[pod(&flags)]).unwrap();
        assert_eq!(told.watched, Some(vec!["shop".to_owned()]));
        assert_eq!((told.secret, told.injector, told.admin), (None, None, 7));
        assert_eq!(told.webhook.as_deref(), Some(WEBHOOK_CONFIGURATION));
        let flags = ["issuer", "--roots-namespaces=a, b", "--roots-configmap=r"];
        let told = issuer(&[pod(&flags)]).unwrap();
        assert_eq!(told.namespaces, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(told.roots, "r");
    }
}
