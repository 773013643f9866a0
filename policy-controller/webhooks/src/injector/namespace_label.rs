//! The label of one namespace that the API server selects by, and the field managers that hold it.

use super::opt_in::INJECT_LABEL;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use policy_crds::ObjectMeta;
use serde_json::json;
use std::time::Duration;

/// Field manager of the labels that repeat an annotation.
const MANAGER: &str = "portcullis-injector";

/// Field manager of the labels that stay, whatever becomes of the annotation that they were written for.
const KEEPER: &str = "portcullis-injector-kept";

/// Timeout of a read or a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// The error of a request that ended by its timeout.
const NO_RESPONSE: &str = "the API server did not respond in time";

/// The label of a namespace.
pub(super) struct NamespaceLabel<'a> {
    api: Api<Namespace>,
    name: &'a str,
    uid: Option<&'a str>,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelWrite {
    Done,
    /// The namespace is gone.
    Gone,
    /// The namespace is another one, or was changed meanwhile.
    Conflict,
}

impl<'a> NamespaceLabel<'a> {
    /// The label of the namespace with this metadata.
    pub(super) fn of(client: Client, meta: &'a ObjectMeta) -> Self {
        Self { api: Api::all(client), name: &meta.key.name, uid: meta.uid.as_deref() }
    }

    /// Writes the label, or releases it.
    pub(super) async fn set(&self, wanted: Option<&str>) -> Result<(), String> {
        // Of a namespace that is gone or another one, the next reconciliation sees what there is.
        self.write(wanted, MANAGER).await.map(drop)
    }

    /// Passes the label to the field manager of those that stay, if that of annotations holds it.
    pub(super) async fn keep(&self, label: &str) -> Result<(), String> {
        if !self.is_held(label, MANAGER).await? {
            return Ok(());
        }
        self.pass(label, (MANAGER, KEEPER)).await
    }

    /// Passes the label back, if it was kept: from now on it goes with its annotation.
    pub(super) async fn take_over(&self, label: &str) -> Result<(), String> {
        if !self.is_held(label, KEEPER).await? {
            return Ok(());
        }
        self.pass(label, (KEEPER, MANAGER)).await
    }

    /// Passes the label from one field manager to the other. It is released only when it is held anew.
    async fn pass(&self, label: &str, (from, to): (&str, &str)) -> Result<(), String> {
        match self.write(Some(label), to).await? {
            LabelWrite::Done => self.write(None, from).await.map(drop),
            LabelWrite::Gone => Ok(()),
            LabelWrite::Conflict => Err("the namespace was changed meanwhile".to_owned()),
        }
    }

    /// True if the namespace has this label and `manager` has applied one.
    async fn is_held(&self, label: &str, manager: &str) -> Result<bool, String> {
        let read = self.api.get_metadata_opt(self.name);
        let found = match tokio::time::timeout(WRITE_TIMEOUT, read).await {
            Ok(found) => found.map_err(|error| error.to_string())?,
            Err(_) => return Err(NO_RESPONSE.to_owned()),
        };
        let meta = found.map(|found| found.metadata).unwrap_or_default();
        let labels = meta.labels.unwrap_or_default();
        let has_label = labels.get(INJECT_LABEL).is_some_and(|it| it == label);
        let mut entries = meta.managed_fields.unwrap_or_default().into_iter();
        Ok(has_label && entries.any(|entry| entry.manager.as_deref() == Some(manager)))
    }

    /// Applies the label, or its absence, as one field manager.
    async fn write(&self, wanted: Option<&str>, manager: &str) -> Result<LabelWrite, String> {
        let mut labels = serde_json::Map::new();
        labels.extend(wanted.map(|value| (INJECT_LABEL.to_owned(), value.into())));
        let patch = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            // The uid keeps a deleted namespace from being created again.
            "metadata": {"name": self.name, "uid": self.uid, "labels": labels},
        });
        let params = PatchParams::apply(manager).force();
        let patch = Patch::Apply(&patch);
        let write = self.api.patch_metadata(self.name, &params, &patch);
        match tokio::time::timeout(WRITE_TIMEOUT, write).await {
            Ok(Ok(_)) => Ok(LabelWrite::Done),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(LabelWrite::Gone),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Ok(LabelWrite::Conflict),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(NO_RESPONSE.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body_util::Full;
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use parking_lot::Mutex;
    use std::convert::Infallible;
    use std::sync::Arc;
    use tokio::net::TcpListener;

    /// An API server with one namespace; each request is noted, and patches are answered by a code.
    struct Server {
        client: Client,
        patches: Arc<Mutex<Vec<String>>>,
    }

    impl Server {
        async fn start(label: Option<&str>, manager: &str, code: u16) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
            let mut config = kube::Config::new(uri);
            config.root_cert = Some(Vec::new());
            let client = Client::try_from(config).unwrap();
            let patches = Arc::new(Mutex::new(Vec::new()));
            let found = json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": {
                    "name": "shop", "labels": label.map(|label| json!({INJECT_LABEL: label})),
                    "managedFields": [{"manager": manager, "operation": "Apply"}],
                },
            });
            let failed = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "no",
                "reason": "Conflict", "code": code,
            });
            let noted = patches.clone();
            tokio::spawn(async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (found, failed, noted) = (found.clone(), failed.clone(), noted.clone());
                    let service = service_fn(move |request: Request<Incoming>| {
                        let is_patch = request.method() == Method::PATCH;
                        if is_patch {
                            noted.lock().push(request.uri().query().unwrap().to_owned());
                        }
                        let fails = is_patch && code != 200;
                        let body = if fails { &failed } else { &found }.to_string();
                        let answer = Response::builder().status(if fails { code } else { 200 });
                        let answer = answer.body(Full::new(Bytes::from(body))).unwrap();
                        std::future::ready(Ok::<_, Infallible>(answer))
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
                }
            });
            Self { client, patches }
        }

        fn label(&self) -> NamespaceLabel<'static> {
            NamespaceLabel { api: Api::all(self.client.clone()), name: "shop", uid: Some("a") }
        }

        /// The field managers that something was applied as.
        fn managers(&self) -> Vec<&'static str> {
            let of = |query: &String| if query.contains(KEEPER) { KEEPER } else { MANAGER };
            self.patches.lock().iter().map(of).collect()
        }
    }

    #[tokio::test]
    async fn a_label_is_released_only_when_another_manager_holds_it() {
        let server = Server::start(Some("enabled"), MANAGER, 200).await;
        server.label().keep("enabled").await.unwrap();
        assert_eq!(server.managers(), [KEEPER, MANAGER]);
        let server = Server::start(Some("enabled"), MANAGER, 409).await;
        server.label().keep("enabled").await.unwrap_err();
        assert_eq!(server.managers(), [KEEPER]);
    }

    #[tokio::test]
    async fn a_label_that_was_changed_since_is_not_kept() {
        for label in [None, Some("disabled")] {
            let server = Server::start(label, MANAGER, 200).await;
            server.label().keep("enabled").await.unwrap();
            assert!(server.managers().is_empty(), "{label:?}");
        }
    }

    #[tokio::test]
    async fn a_kept_label_that_an_annotation_asks_for_goes_with_it_again() {
        let server = Server::start(Some("enabled"), KEEPER, 200).await;
        server.label().take_over("enabled").await.unwrap();
        assert_eq!(server.managers(), [MANAGER, KEEPER]);
        let server = Server::start(Some("enabled"), MANAGER, 200).await;
        server.label().take_over("enabled").await.unwrap();
        assert!(server.managers().is_empty());
    }
}
