//! Checks which controllers are trusted, and with which credentials.

use super::*;
use crate::cluster::roots::certificates;
use crate::local_mesh::authority::Authority;
use policy_tls::identity::provider;
use rustls::ServerConfig;
use serde_json::Value;
use tokio_rustls::{TlsAcceptor, TlsConnector};

#[test]
fn the_controller_has_to_be_the_service_account_of_its_pod() {
    let found = ControllerPod {
        namespace: "linkerd".into(),
        name: "policy-controller-0".to_owned(),
        service_account: "policy-controller".to_owned(),
        pod: Value::Null,
    };
    let mut flags = flags(&[]);
    let name = "policy-controller.linkerd.serviceaccount.identity.linkerd.cluster.local";
    assert_eq!(identity(&flags, &found, None), Identity::Dns(name.into()));
    let config = policy_engine::ControllerConfig {
        identity_domain: "example.org".into(),
        ..Default::default()
    };
    let name = "policy-controller.linkerd.serviceaccount.identity.linkerd.example.org";
    assert_eq!(identity(&flags, &found, Some(&config)), Identity::Dns(name.into()));
    flags.controller_identity = Some("spiffe://a/b".to_owned());
    assert_eq!(identity(&flags, &found, None), Identity::Spiffe("spiffe://a/b".into()));
}

#[test]
fn roots_are_pem_or_told() {
    let error = |text: &str| format!("{:#}", certificates(text).unwrap_err());
    assert_eq!(error("nothing"), "has no certificate in it");
    let broken = "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n";
    assert!(error(broken).starts_with("is not PEM"));
}

fn flags(arguments: &[&str]) -> ControllerFlags {
    use clap::Parser;
    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        cluster: crate::cluster::ClusterFlags,
        #[command(flatten)]
        flags: ControllerFlags,
    }
    let line = Arguments::parse_from(std::iter::once("x").chain(arguments.iter().copied()));
    assert!(line.cluster.api.cluster.context.is_none());
    line.flags
}

/// True if a handshake with a server of this certificate succeeds.
async fn reaches(authority: &Authority, proved: &Identity, roots: &Authority) -> bool {
    let expected = Identity::Dns("policy-controller.linkerd.example".into());
    let leaf = authority.issue(proved).unwrap();
    let key = leaf.private_key();
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (ours, theirs) = tokio::io::duplex(16 * 1024);
    let served = TlsAcceptor::from(Arc::new(config)).accept(theirs);
    let config = tls_config(vec![roots.root().clone()], &expected).unwrap();
    let name = ServerName::try_from("policy-controller.linkerd.example").unwrap();
    let connected = TlsConnector::from(config).connect(name, ours);
    let (connected, _) = tokio::join!(connected, served);
    connected.is_ok()
}

#[tokio::test]
async fn nothing_is_sent_to_who_does_not_prove_to_be_the_controller() {
    let (mesh, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let own = Identity::Dns("policy-controller.linkerd.example".into());
    let wrong = Identity::Dns("default.linkerd.example".into());
    assert!(reaches(&mesh, &own, &mesh).await);
    assert!(!reaches(&mesh, &wrong, &mesh).await, "another identity of the mesh");
    assert!(!reaches(&other, &own, &mesh).await, "the same name of another authority");
}
