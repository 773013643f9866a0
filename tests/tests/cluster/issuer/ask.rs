//! Clients of an issuer: tokens of a real API server, Linkerd's client, and what is made of the answer.

use hyper_util::rt::TokioIo;
use linkerd2_proxy_api::identity::identity_client::IdentityClient;
use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse};
use policy_core::Identity;
use policy_tests::cluster::Cluster;
use policy_tls::identity::{Credentials, TlsIdentity, anonymous_client, certificates, identity_of};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SanType};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::transport::Endpoint;

/// The audience of tokens for our issuer.
pub(crate) const AUDIENCE: &str = "portcullis.dev/identity";

/// The identity of a service account in the mesh of this control plane.
pub(crate) fn identity(account: &str, namespace: &str, home: &str) -> String {
    format!("{account}.{namespace}.serviceaccount.identity.{home}.cluster.local")
}

/// A token by TokenRequest, bound to a pod if one is named.
pub(crate) async fn token(
    cluster: &Cluster,
    (namespace, account): (&str, &str),
    audience: &str,
    pod: Option<&Value>,
) -> Vec<u8> {
    let mut request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [audience], "expirationSeconds": 600},
    });
    if let Some(pod) = pod {
        request["spec"]["boundObjectRef"] = json!({
            "apiVersion": "v1", "kind": "Pod",
            "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
        });
    }
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(request.to_string().into_bytes())
        .unwrap();
    let answer: Value = cluster.client().request(request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().as_bytes().to_vec()
}

/// A request for these names, URIs or names of the DNS, and its key.
pub(crate) fn request(names: &[&str]) -> (Vec<u8>, KeyPair) {
    let name = |name: &&str| match name.contains("://") {
        true => SanType::URI((*name).try_into().unwrap()),
        false => SanType::DnsName((*name).try_into().unwrap()),
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.subject_alt_names = names.iter().map(name).collect();
    (params.serialize_request(&key).unwrap().der().to_vec(), key)
}

/// An issuer as its clients know it.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) address: SocketAddr,
    pub(crate) identity: String,
    /// The roots that are published, PEM.
    pub(crate) roots: String,
}

impl Issuer {
    /// Asks as Linkerd's proxies do: over TLS without a certificate of one's own.
    pub(crate) async fn certify(
        &self,
        name: &str,
        token: Vec<u8>,
        request: Vec<u8>,
    ) -> Result<CertifyResponse, Status> {
        let roots = certificates(self.roots.as_bytes()).unwrap();
        let expected = Identity::Dns(self.identity.as_str().into());
        let mut config = anonymous_client(roots, expected).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (connector, address) = (TlsConnector::from(Arc::new(config)), self.address);
        let sni = ServerName::try_from(self.identity.clone()).unwrap();
        let connecting = move |_: http::Uri| {
            let (connector, sni) = (connector.clone(), sni.clone());
            async move {
                let stream = TcpStream::connect(address).await?;
                connector.connect(sni, stream).await.map(TokioIo::new)
            }
        };
        let endpoint = Endpoint::from_static("http://issuer.example");
        let connected = endpoint.connect_with_connector(tower::service_fn(connecting)).await;
        let channel = connected.map_err(|error| Status::unavailable(format!("{error:?}")))?;
        let request = CertifyRequest {
            identity: name.to_owned(),
            token,
            certificate_signing_request: request,
        };
        Ok(IdentityClient::new(channel).certify(request).await?.into_inner())
    }

    /// A certificate for this identity by a request that is as it should be.
    pub(crate) async fn certificate(&self, name: &str, token: Vec<u8>) -> Certified {
        let (request, key) = request(&[name]);
        let answer = self.certify(name, token, request).await.unwrap();
        Certified { answer, key }
    }
}

/// A certificate and its key.
pub(crate) struct Certified {
    pub(crate) answer: CertifyResponse,
    key: KeyPair,
}

impl Certified {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        let CertifyResponse { leaf_certificate, intermediate_certificates, .. } = &self.answer;
        let chain = std::iter::once(leaf_certificate).chain(intermediate_certificates);
        chain.map(|one| CertificateDer::from(one.clone())).collect()
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        identity_of(&CertificateDer::from(self.answer.leaf_certificate.clone()))
    }

    /// Verifies the certificate under these roots, in both roles.
    pub(crate) fn verify(&self, roots: &str) -> Result<(), String> {
        let credentials = Credentials {
            server_name: self.identity().unwrap().as_str().into(),
            roots: certificates(roots.as_bytes()).unwrap(),
            chain: self.chain(),
            key: PrivateKeyDer::Pkcs8(self.key.serialize_der().into()),
        };
        TlsIdentity::new(credentials).unwrap().verify(SystemTime::now())
    }
}
