//! Lists all objects that policy depends on, and records which lists are forbidden.

use super::api_error::{explain, is_forbidden, is_gone, is_not_found, message};
use super::permissions::{ListPermissions, ListScope};
use super::{Cluster, Scope};
use futures_util::future::{join_all, try_join_all};
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use policy_crds::{Kind, Object, ObjectKey};
use policy_kube::source::object_of;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Objects per request.
const PAGE: u32 = 500;

/// Objects of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The objects as the API server gives them, status included.
    pub(crate) values: BTreeMap<ObjectKey, Value>,
    /// The same objects, parsed.
    pub(crate) objects: Vec<Object>,
    /// Extent to which each kind could be listed.
    pub(crate) permissions: ListPermissions,
}

/// Lists every kind that policy depends on: in the whole cluster, because references cross
/// namespaces, or only in the selected namespace if the former is forbidden.
///
/// # Errors
/// The API server cannot be reached, or forbids everything. What it forbids in part is recorded in
/// [`Listing::permissions`].
pub(crate) async fn list(cluster: &Cluster) -> anyhow::Result<Listing> {
    let served = ApiResources::discover(cluster).await?;
    let kinds = Kind::watched().map(|kind| {
        let version = served.version(kind);
        async move {
            let listed = match version {
                Some(version) => list_kind(cluster, kind, version).await?,
                None => (ListScope::Absent, Vec::new()),
            };
            anyhow::Ok((kind, version.unwrap_or_default(), listed))
        }
    });
    let mut listing = Listing::default();
    for (kind, version, (extent, values)) in try_join_all(kinds).await? {
        listing.permissions.record(kind, extent);
        for value in values {
            listing.insert(kind, version, value);
        }
    }
    if listing.permissions.can_list_nothing() {
        anyhow::bail!(
            "{} lets you list nothing that policy depends on. A ClusterRole that would allow it:\n{}",
            cluster.source,
            listing.permissions.cluster_role()
        );
    }
    Ok(listing)
}

impl Listing {
    /// Inserts one object of a list, parsed as the controller does.
    fn insert(&mut self, kind: Kind, version: &'static str, value: Value) {
        if let Some(object) = object_of(kind, version, value.clone()) {
            self.values.insert(object.meta.key.clone(), value);
            self.objects.push(object);
        }
    }
}

/// Resources and versions that the API server serves.
pub(crate) struct ApiResources {
    /// Plural names by `group/version`; `None` if discovery of the version is forbidden.
    resources: BTreeMap<String, Option<BTreeSet<String>>>,
}

impl ApiResources {
    /// Runs API discovery, which is open to every authenticated user.
    ///
    /// # Errors
    /// The API server cannot be reached, or fails.
    pub(crate) async fn discover(cluster: &Cluster) -> anyhow::Result<Self> {
        let wanted: BTreeSet<String> = Kind::watched()
            .filter(|kind| !kind.group().is_empty())
            .flat_map(|kind| kind.versions().iter().map(move |v| format!("{}/{v}", kind.group())))
            .collect();
        let requests = wanted.into_iter().map(|version| async move {
            let answer = cluster.client.list_api_group_resources(&version).await;
            (version, answer)
        });
        let mut resources = BTreeMap::new();
        for (version, answer) in join_all(requests).await {
            let plurals = match answer {
                Ok(list) => Some(list.resources.into_iter().map(|r| r.name).collect()),
                Err(error) if is_not_found(&error) => Some(BTreeSet::new()),
                Err(error) if is_forbidden(&error) => None,
                Err(error) => {
                    let doing = format!("ask what is served of {version}");
                    return Err(explain(&error, &cluster.source, &doing));
                }
            };
            resources.insert(version, plurals);
        }
        Ok(Self { resources })
    }

    /// Version in which a kind is listed; `None` if the cluster does not serve it.
    pub(crate) fn version(&self, kind: Kind) -> Option<&'static str> {
        let serves = |version: &&&str| {
            let key = format!("{}/{version}", kind.group());
            match self.resources.get(&key) {
                Some(Some(plurals)) => plurals.contains(kind.plural()),
                // The core group is always served. Where discovery is forbidden, listing is
                // attempted.
                Some(None) | None => true,
            }
        };
        kind.versions().iter().find(serves).copied()
    }
}

/// API path of a kind's objects.
pub(crate) fn path(kind: Kind, version: &str, namespace: Option<&str>) -> String {
    let api = match kind.group() {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    match namespace {
        Some(namespace) => format!("{api}/namespaces/{namespace}/{}", kind.plural()),
        None => format!("{api}/{}", kind.plural()),
    }
}

async fn list_kind(
    cluster: &Cluster,
    kind: Kind,
    version: &'static str,
) -> anyhow::Result<(ListScope, Vec<Value>)> {
    let whole = pages(&cluster.client, &path(kind, version, None)).await;
    let refusal: Arc<str> = match whole {
        Ok(values) => return Ok((ListScope::Everywhere, values)),
        Err(error) if is_not_found(&error) => return Ok((ListScope::Absent, Vec::new())),
        Err(error) if is_forbidden(&error) => message(&error).into(),
        Err(error) => return Err(failed(cluster, kind, &error)),
    };
    let Scope::Namespace(namespace) = &cluster.scope else {
        return Ok((ListScope::Denied { refusal }, Vec::new()));
    };
    let within = if kind.is_namespaced() {
        pages(&cluster.client, &path(kind, version, Some(namespace))).await
    } else if kind == Kind::Namespace {
        // A Role in a namespace may allow reading the Namespace itself.
        one(&cluster.client, &path(kind, version, None), namespace).await.map(|v| vec![v])
    } else {
        return Ok((ListScope::Denied { refusal }, Vec::new()));
    };
    match within {
        Ok(values) => Ok((ListScope::Namespace { namespace: namespace.clone(), refusal }, values)),
        Err(error) if is_forbidden(&error) => Ok((ListScope::Denied { refusal }, Vec::new())),
        Err(error) if is_not_found(&error) && kind == Kind::Namespace => {
            Ok((ListScope::Namespace { namespace: namespace.clone(), refusal }, Vec::new()))
        }
        Err(error) => Err(failed(cluster, kind, &error)),
    }
}

fn failed(cluster: &Cluster, kind: Kind, error: &kube::Error) -> anyhow::Error {
    explain(error, &cluster.source, &format!("list {}", super::permissions::resource(kind)))
}

/// Reads one object.
pub(crate) async fn one(client: &Client, path: &str, name: &str) -> Result<Value, kube::Error> {
    let request = Request::new(path).get(name, &kube::api::GetParams::default());
    client.request(request.map_err(kube::Error::BuildRequest)?).await
}

/// Lists all objects, page by page. If the continue token expires (410 Gone), lists again without
/// paging, because pages of different resource versions do not belong together.
pub(crate) async fn pages(client: &Client, path: &str) -> Result<Vec<Value>, kube::Error> {
    let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
    let mut items = Vec::new();
    loop {
        let request = Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        let mut page: Value = match client.request(request).await {
            Ok(page) => page,
            Err(error) if is_gone(&error) && params.limit.is_some() => {
                params = ListParams::default();
                items.clear();
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            items.extend(found);
        }
        let next = page.get("metadata").and_then(|m| m.get("continue")).and_then(Value::as_str);
        match next.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token.to_owned()),
            None => return Ok(items),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_read_claims_what_it_might() {
        use policy_crds::{Body, Claims};
        let mut listing = Listing::default();
        let pod = json!({"metadata": {"name": "web", "namespace": "shop"},
                         "spec": {"containers": []}});
        listing.insert(Kind::Pod, "v1", pod);
        let labels = json!({"name": "A b", "namespace": "shop"});
        listing.insert(Kind::Server, "v1beta3", json!({ "metadata": labels }));
        let bodies: Vec<&Body> = listing.objects.iter().map(|object| &object.body).collect();
        let [Body::Valid(_), Body::Invalid(server)] = bodies[..] else { panic!("{bodies:?}") };
        assert_eq!(server.claims, Claims::Server { workloads: None, port: None });
        assert_eq!(listing.values.len(), 2);
    }

    #[test]
    fn kinds_are_listed_in_the_preferred_version_that_is_served() {
        let served = |versions: &[&str]| {
            let all = Kind::Server.versions().iter().map(|version| {
                let plurals = versions.contains(version).then(|| "servers".to_owned());
                (format!("policy.linkerd.io/{version}"), Some(plurals.into_iter().collect()))
            });
            ApiResources { resources: all.collect() }.version(Kind::Server)
        };
        assert_eq!(served(&["v1beta1", "v1beta3"]), Some("v1beta3"));
        assert_eq!(served(&["v1alpha1"]), Some("v1alpha1"));
        assert_eq!(served(&[]), None);
        assert_eq!(path(Kind::Pod, "v1", Some("shop")), "/api/v1/namespaces/shop/pods");
        assert_eq!(path(Kind::Server, "v1beta3", None), "/apis/policy.linkerd.io/v1beta3/servers");
    }
}
