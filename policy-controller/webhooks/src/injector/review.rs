//! Admission reviews of pods, with their namespace read live.

use super::diff::diff;
use super::inject::{Outcome, inject, review_update};
use super::metrics::InjectorMetrics;
use super::opt_in::NamespaceContext;
use super::roots::RootsSource;
use super::settings::{InjectorSettings, Settings, Sidecar, Trust};
use crate::review::{
    AdmissionRequest, Cause, Details, NO_REQUEST, ReviewResponse, Status, version,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use parking_lot::Mutex;
use policy_crds::FieldError;
use policy_server::TlsHandle;
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout of a request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for which the API server's version is cached.
const VERSION_TTL: Duration = Duration::from_secs(300);

/// The first minor version that supports native sidecars.
const NATIVE_SINCE: u32 = 29;

/// Responds to reviews of pods. Clones share their caches.
#[derive(Clone)]
pub struct Injector {
    client: Client,
    sidecar: Sidecar,
    settings: Settings,
    roots: RootsSource,
    native_support: Arc<Mutex<Option<(bool, Instant)>>>,
    metrics: InjectorMetrics,
    reads_linkerd: bool,
}

/// A response over HTTP.
pub(crate) enum Reply {
    /// A review.
    Review(Box<ReviewResponse>),
    /// No review: the API server's failure policy decides.
    Unavailable(String),
}

/// A review of a pod with everything that its response depends on.
pub(crate) struct PodReview {
    injector: Injector,
    review: Value,
    context: NamespaceContext,
    settings: Settings,
}

impl Injector {
    /// Creates an injector, which sends no request before the first review. `own`: the controller's
    /// credentials, whose roots are the default for sidecars.
    pub fn new(
        client: Client,
        settings: InjectorSettings,
        own: Option<TlsHandle>,
        metrics: InjectorMetrics,
    ) -> Self {
        let InjectorSettings {
            configuration: _,
            defaults,
            control_plane,
            sidecar,
            trust,
            bypass,
            outbound,
            reads_linkerd,
        } = settings;
        let native = sidecar != Sidecar::Container;
        let roots = RootsSource::new(trust, own);
        let trust = Trust::ConfigMap;
        Self {
            client,
            sidecar,
            settings: Settings { defaults, control_plane, trust, bypass, native, outbound },
            roots,
            native_support: Arc::default(),
            metrics,
            reads_linkerd,
        }
    }

    /// Reads from the API server what the response depends on.
    ///
    /// # Errors
    /// The response, if it does not depend on the pod.
    pub(crate) async fn prepare(&self, review: Value) -> Result<PodReview, Reply> {
        let version = version(&review);
        let Some(request) = AdmissionRequest::read(&review) else {
            self.metrics.answered("malformed");
            let answer = ReviewResponse::deny(version, "", Status::malformed(NO_REQUEST));
            return Err(Reply::Review(Box::new(answer)));
        };
        let is_whole = request.subresource.is_empty();
        let is_new = is_whole && request.operation == "CREATE";
        let is_changed = is_whole && request.operation == "UPDATE" && request.old.is_some();
        let is_pod = (is_new || is_changed) && request.group.is_empty() && request.kind == "Pod";
        if !is_pod || request.object.is_none() {
            self.metrics.answered("passed");
            return Err(Reply::Review(Box::new(ReviewResponse::allow(
                version,
                request.uid,
                Vec::new(),
            ))));
        }
        let known = async {
            let context = self.namespace_context(request.namespace).await?;
            Ok::<_, String>((context, self.native().await?, self.roots.trust().await?))
        };
        let (context, native, trust) = match known.await {
            Ok(known) => known,
            Err(reason) => {
                tracing::warn!(namespace = request.namespace, "a pod was not processed: {reason}");
                self.metrics.answered("failed");
                return Err(Reply::Unavailable(format!("portcullis injector: {reason}\n")));
            }
        };
        let settings = Settings { native, trust, ..self.settings.clone() };
        Ok(PodReview { injector: self.clone(), review, context, settings })
    }

    /// Counts a pod that could not be processed and returns the response.
    pub(crate) fn failed(&self) -> Reply {
        self.metrics.answered("failed");
        Reply::Unavailable("portcullis injector: the pod could not be processed\n".into())
    }

    fn answer(
        &self,
        version: &'static str,
        request: &AdmissionRequest<'_>,
        pod: &Value,
        outcome: Outcome,
    ) -> ReviewResponse {
        match outcome {
            Outcome::Injected { pod: injected, warnings } => {
                self.metrics.answered("injected");
                let patch = patch(pod, &injected);
                ReviewResponse::patch(version, request.uid, patch, prefixed(warnings))
            }
            Outcome::Skipped { reason, warnings, unmarked } => {
                self.metrics.answered(reason.label());
                match unmarked {
                    Some(unmarked) => {
                        let patch = patch(pod, &unmarked);
                        ReviewResponse::patch(version, request.uid, patch, prefixed(warnings))
                    }
                    None => ReviewResponse::allow(version, request.uid, prefixed(warnings)),
                }
            }
            Outcome::Refused(errors) => {
                self.metrics.answered("refused");
                tracing::info!(
                    namespace = request.namespace,
                    pod = request.name,
                    ?errors,
                    "a pod was refused"
                );
                ReviewResponse::deny(version, request.uid, refusal(request, errors))
            }
        }
    }

    /// Reads the namespace of a pod.
    async fn namespace_context(&self, name: &str) -> Result<NamespaceContext, String> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = within(api.get_opt(name), "read the namespace").await?;
        let reads_linkerd = self.reads_linkerd;
        let Some(found) = found else {
            return Ok(NamespaceContext { reads_linkerd, ..NamespaceContext::unknown(name) });
        };
        let texts = |texts: Option<BTreeMap<String, String>>| texts.unwrap_or_default();
        Ok(NamespaceContext {
            namespace: name.to_owned(),
            annotations: texts(found.metadata.annotations),
            labels: texts(found.metadata.labels),
            default_enabled: false,
            is_assumed: false,
            reads_linkerd,
        })
    }

    /// True if the sidecar is a native one.
    async fn native(&self) -> Result<bool, String> {
        match self.sidecar {
            Sidecar::Native => return Ok(true),
            Sidecar::Container => return Ok(false),
            Sidecar::Auto => {}
        }
        let native_support = *self.native_support.lock();
        if let Some((native, _)) = native_support.filter(|(_, when)| when.elapsed() < VERSION_TTL) {
            return Ok(native);
        }
        let version = match within(self.client.apiserver_version(), "read its version").await {
            Ok(version) => version,
            // The last known version: API servers are not downgraded while they are unavailable.
            Err(reason) => return native_support.map(|(native, _)| native).ok_or(reason),
        };
        let native = is_native(&version.major, &version.minor);
        *self.native_support.lock() = Some((native, Instant::now()));
        Ok(native)
    }
}

impl PodReview {
    /// Returns the response. Call it on a blocking thread, because large pods take long to compare.
    pub(crate) fn reply(self) -> Reply {
        let Some(request) = AdmissionRequest::read(&self.review) else {
            return self.injector.failed();
        };
        let Some(pod) = request.object else { return self.injector.failed() };
        let outcome = match request.old.filter(|_| request.operation == "UPDATE") {
            Some(old) => review_update((old, pod), &self.context, &self.settings),
            None => inject(pod, &self.context, &self.settings),
        };
        let answer = self.injector.answer(version(&self.review), &request, pod, outcome);
        Reply::Review(Box::new(answer))
    }
}

async fn within<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
    doing: &str,
) -> Result<T, String> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("cannot {doing}: {error}")),
        Err(_) => {
            Err(format!("cannot {doing}: no response within {} s", REQUEST_TIMEOUT.as_secs()))
        }
    }
}

/// Providers write minor versions such as `29+`. An unreadable version counts as new.
fn is_native(major: &str, minor: &str) -> bool {
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    number(major) != Some(1) || number(minor).is_none_or(|minor| minor >= NATIVE_SINCE)
}

/// Returns the JSON Patch from one pod to another, as a response carries it.
fn patch(from: &Value, to: &Value) -> String {
    BASE64_STANDARD.encode(Value::Array(diff(from, to)).to_string())
}

/// Prefixes warnings with our name, because other webhooks warn too.
fn prefixed(warnings: Vec<String>) -> Vec<String> {
    warnings.into_iter().map(|warning| format!("portcullis: {warning}")).collect()
}

fn refusal(request: &AdmissionRequest<'_>, errors: Vec<FieldError>) -> Status {
    let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let causes = errors.into_iter().map(|FieldError { field, message }| Cause {
        reason: "FieldValueInvalid",
        message,
        field,
    });
    Status {
        message: format!("portcullis: {}", words.join("; ")),
        reason: "Invalid",
        code: 422,
        details: Some(Details {
            name: request.name.to_owned(),
            group: String::new(),
            kind: "Pod".to_owned(),
            causes: causes.collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::is_native;

    #[test]
    fn sidecars_are_native_from_1_29() {
        for (minor, native) in
            [("28", false), ("29", true), ("29+", true), ("9", false), ("x", true)]
        {
            assert_eq!(is_native("1", minor), native, "{minor}");
        }
        assert!(is_native("2", "0"));
    }
}
