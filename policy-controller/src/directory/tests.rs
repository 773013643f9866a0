//! A directory that changes while it is followed.

use super::*;
use policy_crds::Body;
use policy_engine::ControllerConfig;
use policy_engine::source::Batch;
use std::fs;
use tokio_util::sync::CancellationToken;

fn describe(change: &Change) -> String {
    match change {
        Change::Apply(object) => {
            let mark = if matches!(object.body, Body::Valid(_)) { '+' } else { '!' };
            format!("{mark}{}", object.meta.key)
        }
        Change::Delete(key) => format!("-{key}"),
        Change::Keep(key) => format!("={key}"),
        Change::Synced => "synced".to_owned(),
    }
}

const SERVER: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080}
";

const POLICY: &str = "
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: all, namespace: shop}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, requiredAuthenticationRefs: []}
";

async fn next(batches: &mut mpsc::Receiver<Batch>) -> Vec<String> {
    let waited = tokio::time::timeout(Duration::from_secs(60), batches.recv()).await;
    waited.unwrap().unwrap().changes.iter().map(describe).collect()
}

#[tokio::test]
async fn changes_are_noticed_without_waiting_for_a_rescan() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a.yaml"), SERVER).unwrap();
    let source = DirectorySource::new(root.path(), ControllerConfig::default().limits);
    let diagnostics = source.diagnostics();
    let (sink, mut batches) = mpsc::channel(4);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(source.run(SourceContext::new(sink, shutdown.clone())));
    assert_eq!(next(&mut batches).await, ["+Server shop/web", "synced"]);
    fs::create_dir(root.path().join("sub")).unwrap();
    fs::write(root.path().join("sub/b.yaml"), POLICY).unwrap();
    assert_eq!(next(&mut batches).await, ["+AuthorizationPolicy shop/all"]);
    fs::write(root.path().join("a.yaml"), "kind: [").unwrap();
    assert_eq!(next(&mut batches).await, ["!Server shop/web"]);
    assert!(!diagnostics.borrow().is_empty());
    fs::remove_dir_all(root.path().join("sub")).unwrap();
    assert_eq!(next(&mut batches).await, ["-AuthorizationPolicy shop/all"]);
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_file_that_is_being_written_is_not_believed() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a.yaml"), SERVER).unwrap();
    let source = DirectorySource::new(root.path(), ControllerConfig::default().limits);
    let (sink, mut batches) = mpsc::channel(4);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(source.run(SourceContext::new(sink, shutdown.clone())));
    assert_eq!(next(&mut batches).await, ["+Server shop/web", "synced"]);
    let path = root.path().join("a.yaml");
    tokio::task::spawn_blocking(move || {
        // Each write truncates the file before it fills it.
        for _ in 0..200 {
            fs::write(&path, SERVER.replace("8080", "8081")).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    })
    .await
    .unwrap();
    assert_eq!(next(&mut batches).await, ["+Server shop/web"], "never deleted in between");
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_missing_directory_is_an_error() {
    let source = DirectorySource::new("/nonexistent/manifests", ControllerConfig::default().limits);
    let (sink, _batches) = mpsc::channel(1);
    let error = source.run(SourceContext::new(sink, CancellationToken::new())).await.unwrap_err();
    assert!(error.to_string().contains("/nonexistent/manifests"), "{error}");
}
