//! Selection of the namespace in which the webhook is probed. It must be one for which the API
//! server calls the webhook.

use crate::diagnostics::fetch::{FetchError, FetchResult};
use crate::diagnostics::installed_injector::InstalledInjector;
use crate::diagnostics::metadata::name;
use serde_json::Value;

/// Selects a namespace for which the API server calls the webhook: one of those that are `watched`,
/// else one that requests sidecars, else `default`, else any. `injector` is the installed one.
pub(super) fn probe_namespace(
    namespaces: &FetchResult<Vec<Value>>,
    watched: Option<&[String]>,
    injector: InstalledInjector<'_>,
) -> FetchResult<String> {
    let all = namespaces.as_deref().unwrap_or_default();
    let is_watched = |namespace: &Value| {
        watched.is_none_or(|names| names.iter().any(|watched| watched == name(namespace)))
    };
    let ending = |namespace: &Value| namespace.pointer("/metadata/deletionTimestamp").is_some();
    let fit = |namespace: &&Value| {
        is_watched(namespace) && !injector.leaves_alone(namespace) && !ending(namespace)
    };
    let asking = all.iter().filter(fit).find(|namespace| injector.is_asked_by(namespace));
    let default = || all.iter().filter(fit).find(|namespace| name(namespace) == "default");
    let any = || all.iter().find(fit);
    if let Some(found) = asking.or_else(default).or_else(any) {
        return Ok(name(found).to_owned());
    }
    // For namespaces that were not read, it is unknown whether they are excluded.
    let is_unread = |wanted: &&String| {
        let read = all.iter().any(|namespace| name(namespace) == wanted.as_str());
        !read && ![injector.home, "kube-system"].contains(&wanted.as_str())
    };
    if let Some(unread) = watched.unwrap_or_default().iter().find(is_unread) {
        return Ok(unread.clone());
    }
    match namespaces {
        Err(why) => Err(why.clone()),
        Ok(_) => {
            let words = "whether the webhook responds: it is not called for any of the selected \
                         namespaces";
            Err(FetchError::Failed(words.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const INJECTOR: InstalledInjector<'static> =
        InstalledInjector { home: "mesh", reads_linkerd: false };

    fn namespace(name: &str, inject: &str) -> Value {
        let annotations = json!({"portcullis.dev/inject": inject});
        json!({"kind": "Namespace", "metadata": {"name": name, "annotations": annotations}})
    }

    fn disabled(name: &str) -> Value {
        let mut namespace = namespace(name, "enabled");
        namespace["metadata"]["labels"] =
            json!({"config.linkerd.io/admission-webhooks": "disabled"});
        namespace
    }

    #[test]
    fn the_webhook_is_tried_where_it_is_asked() {
        let of = |all: Vec<Value>| probe_namespace(&Ok(all), None, INJECTOR).ok();
        let is = |name: &str| Some(name.to_owned());
        let (shop, plain) = (namespace("shop", "enabled"), namespace("plain", "disabled"));
        let default = namespace("default", "disabled");
        let all = vec![plain.clone(), default.clone(), shop];
        assert_eq!(of(all), is("shop"));
        assert_eq!(of(vec![plain.clone(), default]), is("default"));
        assert_eq!(of(vec![plain.clone()]), is("plain"));
        let mut ending = namespace("ending", "enabled");
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let (home, system) = (namespace("mesh", "enabled"), namespace("kube-system", "enabled"));
        let away = vec![home, system, disabled("out"), disabled("default"), ending];
        assert_eq!(of([away.clone(), vec![plain]].concat()), is("plain"));
        assert_eq!(of(away), None);
    }

    #[test]
    fn where_no_namespace_is_left_it_is_not_known() {
        let nowhere = probe_namespace(&Ok(vec![]), None, INJECTOR).unwrap_err();
        assert!(nowhere.message().contains("not called"), "{nowhere:?}");
        let unread = FetchError::Failed("no".to_owned());
        assert_eq!(probe_namespace(&Err(unread.clone()), None, INJECTOR), Err(unread));
    }

    #[test]
    fn namespaces_that_are_watched_come_first() {
        let watched = ["mesh", "out", "bank"].map(str::to_owned);
        let of =
            |all: FetchResult<Vec<Value>>| probe_namespace(&all, Some(&watched), INJECTOR).ok();
        let is = |name: &str| Some(name.to_owned());
        let shop = namespace("shop", "enabled");
        assert_eq!(of(Ok(vec![shop.clone(), namespace("bank", "disabled")])), is("bank"));
        assert_eq!(of(Ok(vec![shop, disabled("out")])), is("bank"), "it was not read");
        assert_eq!(of(Err(FetchError::Failed("no".to_owned()))), is("out"));
        assert_eq!(of(Ok(vec![disabled("out"), disabled("bank")])), None);
    }
}
