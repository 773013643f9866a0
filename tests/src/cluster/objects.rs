//! Applying, changing and deleting objects as a user would.

use super::programs;
use anyhow::{Context as _, Result, anyhow, bail};
use futures_util::future::try_join_all;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{ApiCapabilities, Scope, oneshot};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Field manager of applied objects.
const MANAGER: &str = "portcullis-tests";

/// Most that a definition may take to be served.
const PATIENCE: Duration = Duration::from_secs(60);

type Resources = HashMap<GroupVersionKind, (ApiResource, Scope)>;

/// Objects of a cluster over one connection. Clones share it.
#[derive(Clone)]
pub struct Objects {
    client: kube::Client,
    /// Cached discovery of kinds.
    resources: Arc<Mutex<Resources>>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    /// As whoever `client` is.
    pub fn new(client: kube::Client) -> Self {
        Self { client, resources: Arc::default() }
    }

    /// The connection.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Applies every document in order: creates it, or updates what this applied before. Unknown
    /// fields are errors.
    ///
    /// # Errors
    /// What the API server says, with the object.
    pub async fn apply(&self, yaml: &str) -> Result<()> {
        for object in documents(yaml)? {
            self.apply_one(&object).await?;
        }
        Ok(())
    }

    /// Applies one object and returns what the API server made of it.
    ///
    /// # Errors
    /// What the API server says, with the object.
    pub async fn apply_one(&self, object: &Value) -> Result<Value> {
        let api = self.api(object).await?;
        let mut params = PatchParams::apply(MANAGER).force();
        params.field_validation = Some(kube::api::ValidationDirective::Strict);
        let applied = api.patch(name(object)?, &params, &Patch::Apply(object)).await;
        let applied = applied.with_context(|| format!("apply {}", display(object)))?;
        Ok(serde_json::to_value(applied)?)
    }

    /// Applies the status of every document in order; the objects exist.
    ///
    /// # Errors
    /// What the API server says, with the object.
    pub async fn apply_status(&self, yaml: &str) -> Result<()> {
        for object in documents(yaml)? {
            self.apply_status_of(&object).await?;
        }
        Ok(())
    }

    async fn apply_status_of(&self, object: &Value) -> Result<()> {
        let api = self.api(object).await?;
        let params = PatchParams::apply(MANAGER).force();
        let status = json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": {"name": object["metadata"]["name"]},
            "status": object["status"],
        });
        let applied = api.patch_status(name(object)?, &params, &Patch::Apply(status)).await;
        applied.with_context(|| format!("apply the status of {}", display(object)))?;
        Ok(())
    }

    /// Applies every document in order, and the status of those that have one.
    ///
    /// # Errors
    /// What the API server says, with the object.
    pub async fn apply_with_status(&self, yaml: &str) -> Result<()> {
        for mut object in documents(yaml)? {
            let status = object.as_object_mut().and_then(|object| object.remove("status"));
            self.apply_one(&object).await?;
            if let Some(status) = status {
                object["status"] = status;
                self.apply_status_of(&object).await?;
            }
        }
        Ok(())
    }

    /// Deletes every document's object at once; absent ones are fine. A namespace is finished with
    /// as well: what was in it stays, so delete that first.
    ///
    /// # Errors
    /// What the API server says, with the object.
    pub async fn delete(&self, yaml: &str) -> Result<()> {
        for object in documents(yaml)? {
            let deleted = self.delete_one(&object).await;
            deleted.with_context(|| format!("delete {}", display(&object)))?;
        }
        Ok(())
    }

    async fn delete_one(&self, object: &Value) -> Result<()> {
        let api = self.api(object).await?;
        let name = name(object)?;
        match api.delete(name, &DeleteParams::default().grace_period(0)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if object["kind"] == "Namespace" {
            let body = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name}, "spec": {"finalizers": []},
            });
            let path = format!("/api/v1/namespaces/{name}/finalize");
            let request = http::Request::put(path)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(serde_json::to_vec(&body)?)?;
            self.client.request_text(request).await?;
        }
        Ok(())
    }

    /// The object as it is; absent: there is none.
    ///
    /// # Errors
    /// What the API server says, with the object.
    pub async fn get(&self, object: &Value) -> Result<Option<Value>> {
        let found = self.api(object).await?.get_opt(name(object)?).await;
        let found = found.with_context(|| format!("get {}", display(object)))?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// Replaces an object that exists, and returns what the API server made of it. Unknown fields are left
    /// out, as for clients that do not ask otherwise.
    ///
    /// # Errors
    /// What the API server says, with the object.
    pub async fn replace(&self, object: &Value) -> Result<Value> {
        let stored = self.get(object).await?.context("there is no such object")?;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        let typed: DynamicObject = serde_json::from_value(object.clone())?;
        let api = self.api(&object).await?;
        let replaced = api.replace(name(&object)?, &PostParams::default(), &typed).await;
        let replaced = replaced.with_context(|| format!("replace {}", display(&object)))?;
        Ok(serde_json::to_value(replaced)?)
    }

    /// Merges a part into an object, lists by their keys, as the API server does for its own kinds.
    ///
    /// # Errors
    /// What the API server says, with the object.
    pub async fn merge(&self, object: &Value, part: &Value) -> Result<Value> {
        let (api, patch) = (self.api(object).await?, Patch::Strategic(part));
        let patched = api.patch(name(object)?, &PatchParams::default(), &patch).await;
        let patched = patched.with_context(|| format!("patch {}", display(object)))?;
        Ok(serde_json::to_value(patched)?)
    }

    /// Sends an object to a path, for what is answered and not kept, such as reviews.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value> {
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(object)?)?;
        self.client.request(request).await.with_context(|| path.to_owned())
    }

    /// Installs every definition of a folder, and Gateway API's, and waits until they are served.
    pub(super) async fn install(&self, folder: Option<&Path>) -> Result<()> {
        let mut paths = tokio::task::spawn_blocking(programs::gateway_api_crds).await??;
        self.install_all(folder, &mut paths).await
    }

    /// Installs the definitions of SMI, and waits until they are served.
    pub(super) async fn install_smi(&self) -> Result<()> {
        let mut paths = tokio::task::spawn_blocking(programs::smi_crds).await??;
        self.install_all(None, &mut paths).await
    }

    async fn install_all(&self, folder: Option<&Path>, paths: &mut Vec<PathBuf>) -> Result<()> {
        for entry in folder.map(std::fs::read_dir).transpose()?.into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                paths.push(path);
            }
        }
        let mut definitions = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path)?;
            definitions.extend(documents(&text).with_context(|| path.display().to_string())?);
        }
        try_join_all(definitions.iter().map(|definition| self.install_one(definition))).await?;
        Ok(())
    }

    /// Applies a definition and waits until each of its versions is served.
    ///
    /// # Errors
    /// If it is refused or never becomes Established.
    pub async fn install_one(&self, definition: &Value) -> Result<()> {
        self.apply_one(definition).await?;
        let deadline = Instant::now() + PATIENCE;
        while !self.served(definition).await? {
            if Instant::now() > deadline {
                let found = self.get(definition).await?.unwrap_or_default();
                bail!("{} is not served: {}", display(definition), found["status"]);
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// True if the definition is Established and every served version answers.
    async fn served(&self, definition: &Value) -> Result<bool> {
        let Some(found) = self.get(definition).await? else { return Ok(false) };
        let conditions = found["status"]["conditions"].as_array();
        let established = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
        if !established {
            return Ok(false);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) =
            (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]));
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            if version["served"] != true {
                continue;
            }
            let path = format!("/apis/{group}/{}/{plural}?limit=1", text(&version["name"]));
            let answer = self.client.request_text(http::Request::get(path).body(Vec::new())?).await;
            if answer.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn api(&self, object: &Value) -> Result<Api<DynamicObject>> {
        let (resource, scope) = self.resource(object).await?;
        let client = self.client.clone();
        Ok(match (scope, object["metadata"]["namespace"].as_str()) {
            (Scope::Cluster, _) => Api::all_with(client, &resource),
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client, namespace, &resource)
            }
            (Scope::Namespaced, None) => Api::namespaced_with(client, "default", &resource),
        })
    }

    async fn resource(&self, object: &Value) -> Result<(ApiResource, Scope)> {
        let version = object["apiVersion"].as_str().context("no apiVersion")?;
        let kind = object["kind"].as_str().context("no kind")?;
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let known =
            self.resources.lock().unwrap_or_else(PoisonError::into_inner).get(&kind).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let (resource, ApiCapabilities { scope, .. }) = self.discover(&kind).await?;
        let found = (resource, scope);
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        resources.insert(kind, found.clone());
        Ok(found)
    }

    /// A definition just installed is told of a moment later.
    async fn discover(&self, kind: &GroupVersionKind) -> Result<(ApiResource, ApiCapabilities)> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match oneshot::pinned_kind(&self.client, kind).await {
                Ok(found) => return Ok(found),
                Err(error) if Instant::now() > deadline => {
                    return Err(anyhow!(error).context(format!("the API server knows no {kind:?}")));
                }
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// The documents of a YAML text, without empty ones.
///
/// # Errors
/// If it is not YAML.
pub fn documents(yaml: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn name(object: &Value) -> Result<&str> {
    object["metadata"]["name"].as_str().with_context(|| format!("no name: {object}"))
}

fn display(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let metadata = &object["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    format!("{} {} {namespace}/{name}", text(&object["apiVersion"]), text(&object["kind"]))
}
