//! Certificates: renewed in files while the API server asks, and made by replicas that agree.

use super::api::{document, try_apply, until};
use super::webhook::{Installed, Webhook};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use policy_testkit::{self_signed, wait_until};
use policy_webhooks::admission::{
    Admission, AdmissionSettings, CertificateSource, Installation, Provisioning, Target,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio_util::sync::{CancellationToken, DropGuard};

fn network(namespace: &str, cidr: &str) -> Value {
    document(&format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
         metadata: {{name: one, namespace: {namespace}}}\nspec: {{networks: [{{cidr: {cidr}}}]}}\n"
    ))
}

#[tokio::test]
async fn no_request_is_lost_while_files_are_renewed() {
    let Some(cluster) = super::cluster().await else { return };
    let client = cluster.client();
    let (mesh, ns) =
        (cluster.namespace("mesh").await.unwrap(), cluster.namespace("renewed").await.unwrap());
    let webhook = Webhook::serve(None).await;
    let next = self_signed("127.0.0.1");
    let bundle = format!("{}{}", webhook.pair.certificate_pem, next.certificate_pem);
    let installation = Installation {
        name: format!("renewed-{ns}"),
        namespace: mesh,
        target: webhook.target(),
        ca_bundle: Some(bundle.into_bytes()),
    };
    let installed = Installed::new(&client, &installation, &[&ns]).await;
    installed.effective(&client, &ns).await;

    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let (client, stop, answered) = (client.clone(), stop.clone(), answered.clone());
            let object = network(&ns, "10.0.0.0/8");
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let answer = try_apply(&client, &object).await;
                    assert!(answer.is_done(), "{answer:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut served = Vec::new();
    for pair in [&next, &webhook.pair, &next] {
        pair.write(webhook.folder.path(), "tls.crt", "tls.key");
        let expected = der(&pair.certificate_pem);
        wait_until("the new certificate is served", async || {
            presented(webhook.address, "127.0.0.1").await == Some(expected.clone())
        })
        .await;
        served.push(answered.load(Ordering::Relaxed));
    }
    stop.store(true, Ordering::Relaxed);
    for task in asking {
        task.await.unwrap();
    }
    assert!(served.windows(2).all(|pair| pair[0] < pair[1]), "nobody asked meanwhile: {served:?}");
    installed.remove().await;
}

/// A replica that makes its certificate with the others.
async fn replica(client: &Client, settings: &Provisioning) -> (SocketAddr, DropGuard) {
    let settings = AdmissionSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate: CertificateSource::Provisioned(settings.clone()),
        linkerd_compatible: false,
    };
    let admission = Admission::new(settings, None, Some(client.clone())).await.unwrap();
    let address = admission.address();
    let stop = CancellationToken::new();
    tokio::spawn(admission.run(stop.clone()));
    (address, stop.drop_guard())
}

#[tokio::test]
async fn replicas_make_one_certificate_and_keep_the_configuration_in_step() {
    let Some(cluster) = super::cluster().await else { return };
    let client = cluster.client();
    let (mesh, ns) =
        (cluster.namespace("mesh").await.unwrap(), cluster.namespace("made").await.unwrap());
    let settings = Provisioning {
        namespace: mesh.clone(),
        secret: "policy-admission-tls".to_owned(),
        configuration: format!("made-{ns}"),
        injector: None,
        names: vec![format!("policy-admission.{mesh}.svc")],
    };
    let replicas =
        futures_util::future::join_all((0..3).map(|_| replica(&client, &settings))).await;
    let service = service(&mesh);
    let services: Api<Service> = Api::namespaced(client.clone(), &mesh);
    services.create(&PostParams::default(), &service).await.unwrap();
    let installation = Installation {
        name: settings.configuration.clone(),
        namespace: mesh.clone(),
        target: Target::Service { name: "policy-admission".to_owned(), port: replicas[0].0.port() },
        ca_bundle: None,
    };
    let installed = Installed::new(&client, &installation, &[&ns]).await;
    let refused = |answer: &super::api::Answer| {
        answer.status == 422 && answer.message().contains("spec.networks[0].cidr: ")
    };
    let broken = network(&ns, "nowhere");
    until(&client, &broken, "judged", refused).await;

    // One certificate, whoever made it.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &mesh);
    let name = &settings.names[0];
    all_serve(&secrets, &settings, &replicas).await;
    let first = certificate_of(&secrets, &settings).await.unwrap();

    // What drifts is brought back.
    let drifted = json!({"webhooks": [{
        "name": "policy.admission.portcullis.dev",
        "clientConfig": {"caBundle": ByteString(self_signed("127.0.0.1").certificate_pem.into_bytes())},
    }]});
    let patch = Patch::Strategic(&drifted);
    installed.api.patch(&installed.name, &PatchParams::default(), &patch).await.unwrap();
    until(&client, &broken, "judged again", refused).await;
    wait_until("every caBundle is the Secret's", async || {
        let secret = secrets.get(&settings.secret).await.unwrap();
        let bundle = secret.data.unwrap()["ca.crt"].clone();
        let configuration = installed.api.get(&installed.name).await.unwrap();
        let mut bundles =
            configuration.webhooks.unwrap().into_iter().map(|w| w.client_config.ca_bundle);
        bundles.all(|held| held == Some(bundle.clone()))
    })
    .await;
    assert_eq!(certificate_of(&secrets, &settings).await, Some(first.clone()));

    another_installation_is_left_alone(&installed).await;

    // A Secret that is spoilt or gone is made anew, once.
    let spoilt = json!({"data": {"tls.key": ByteString(b"spoilt".to_vec())}});
    secrets.patch(&settings.secret, &PatchParams::default(), &Patch::Merge(&spoilt)).await.unwrap();
    wait_until("it is repaired", async || {
        certificate_of(&secrets, &settings).await.is_some_and(|now| now != first)
    })
    .await;
    all_serve(&secrets, &settings, &replicas).await;
    until(&client, &broken, "judged after the repair", refused).await;
    secrets.delete(&settings.secret, &DeleteParams::default()).await.unwrap();
    wait_until("it is made anew", async || certificate_of(&secrets, &settings).await.is_some())
        .await;
    all_serve(&secrets, &settings, &replicas).await;
    until(&client, &broken, "judged by a new certificate", refused).await;
    assert!(presented(replicas[0].0, name).await.is_some());
    installed.remove().await;
}

/// A webhook that leads to another namespace keeps its caBundle, while ours beside it is brought back.
async fn another_installation_is_left_alone(installed: &Installed) {
    let foreign = ByteString(self_signed("127.0.0.1").certificate_pem.into_bytes());
    let mut configuration = installed.api.get(&installed.name).await.unwrap();
    let webhooks = configuration.webhooks.as_mut().unwrap();
    let bundle = webhooks[0].client_config.ca_bundle.clone();
    webhooks[0].client_config.ca_bundle = Some(foreign.clone());
    let last = webhooks.len() - 1;
    webhooks[last].client_config.ca_bundle = Some(foreign.clone());
    webhooks[last].client_config.service.as_mut().unwrap().namespace = "elsewhere".to_owned();
    webhooks[last].match_conditions = None;
    webhooks[last].rules = None;
    installed.api.replace(&installed.name, &PostParams::default(), &configuration).await.unwrap();
    wait_until("ours is brought back", async || {
        let now = installed.api.get(&installed.name).await.unwrap().webhooks.unwrap();
        assert_eq!(now[last].client_config.ca_bundle, Some(foreign.clone()));
        now[0].client_config.ca_bundle == bundle
    })
    .await;
    // Only ours are looked at from here on.
    let mut configuration = installed.api.get(&installed.name).await.unwrap();
    configuration.webhooks.as_mut().unwrap().truncate(last);
    installed.api.replace(&installed.name, &PostParams::default(), &configuration).await.unwrap();
}

/// A Service that leads here: there is no network of Services in the test cluster.
fn service(namespace: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": "policy-admission", "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }))
    .unwrap()
}

/// Waits until every replica serves what the Secret holds.
async fn all_serve(
    secrets: &Api<Secret>,
    settings: &Provisioning,
    replicas: &[(SocketAddr, DropGuard)],
) {
    wait_until("every replica serves the Secret's certificate", async || {
        let Some(held) = certificate_of(secrets, settings).await else { return false };
        for (address, _) in replicas {
            if presented(*address, &settings.names[0]).await.as_ref() != Some(&held) {
                return false;
            }
        }
        true
    })
    .await;
}

async fn certificate_of(secrets: &Api<Secret>, settings: &Provisioning) -> Option<Vec<u8>> {
    let secret = secrets.get_opt(&settings.secret).await.unwrap()?;
    let pem = secret.data?.get("tls.crt")?.0.clone();
    Some(der(std::str::from_utf8(&pem).unwrap()))
}

fn der(pem: &str) -> Vec<u8> {
    use rustls_pki_types::pem::PemObject;
    rustls_pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

/// The certificate that is presented at an address, whoever vouches for it.
async fn presented(address: SocketAddr, name: &str) -> Option<Vec<u8>> {
    let config = rustls::ClientConfig::builder_with_provider(policy_tls::identity::provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(anyone::Anyone))
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let name = rustls_pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await.ok()?;
    Some(stream.get_ref().1.peer_certificates()?.first()?.to_vec())
}

/// Looks at certificates without trusting them.
mod anyone {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    pub(super) struct Anyone;

    impl ServerCertVerifier for Anyone {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            policy_tls::identity::provider().signature_verification_algorithms.supported_schemes()
        }
    }
}
