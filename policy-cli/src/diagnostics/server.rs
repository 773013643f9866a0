//! Version and time of the API server.

use super::check::Check;
use super::metadata::text;
use super::result::CheckResult;
use crate::cluster::Cluster;
use crate::cluster::api_error::explain;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use std::time::SystemTime;

/// The oldest supported minor version of Kubernetes 1.
const OLDEST: u32 = 28;

/// Version and time of the API server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Response to `/version`.
    pub(crate) version: Value,
    /// Its time, in seconds; `None` without a `Date` header.
    pub(crate) date: Option<SystemTime>,
}

/// Requests the version, which every authenticated user may read.
///
/// # Errors
/// The API server cannot be reached, or rejects the credentials.
pub(crate) async fn fetch(cluster: &Cluster) -> anyhow::Result<Server> {
    let explained = |error| explain(&error, &cluster.source, "ask the API server for its version");
    let request = http::Request::get("/version").body(Body::empty())?;
    let response = cluster.client.send(request).await.map_err(explained)?;
    let date = response.headers().get(http::header::DATE);
    let date = date.and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    let status = response.status();
    let body = response.into_body().collect().await.map_err(explained)?.to_bytes();
    anyhow::ensure!(
        status.is_success(),
        "cannot ask the API server for its version: HTTP status {status}: {}",
        String::from_utf8_lossy(&body).trim()
    );
    let version = serde_json::from_slice(&body)?;
    Ok(Server { version, date })
}

/// Checks that the version is supported.
pub(crate) fn version(version: &Value) -> CheckResult {
    let check = Check::ApiServer;
    let version_text = text(version, "/gitVersion");
    let number = |field: &str| {
        let digits = text(version, field).trim_end_matches('+');
        digits.parse::<u32>().ok()
    };
    match (number("/major"), number("/minor")) {
        (Some(1), Some(minor)) if minor < OLDEST => CheckResult::fail(
            check,
            format!(
                "the API server is Kubernetes {version_text}, and 1.{OLDEST} is the oldest supported"
            ),
            "upgrade the cluster: webhooks need matchConditions",
        ),
        (Some(_), Some(_)) => {
            CheckResult::pass(check, format!("the API server is Kubernetes {version_text}"))
        }
        (None, _) | (_, None) => CheckResult::warn(
            check,
            format!("the API server does not say a version that can be read: `{version_text}`"),
            format!("see that it is Kubernetes 1.{OLDEST} or newer"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::result::CheckOutcome;
    use serde_json::json;

    #[test]
    fn the_oldest_version_is_the_charts() {
        let outcome = |major: &str, minor: &str| {
            let version_text = json!({"major": major, "minor": minor, "gitVersion": "v"});
            version(&version_text).outcome
        };
        assert_eq!(outcome("1", "27"), CheckOutcome::Fail);
        assert_eq!(outcome("1", "28+"), CheckOutcome::Pass);
        assert_eq!(outcome("1", "34"), CheckOutcome::Pass);
        assert_eq!(outcome("2", "0"), CheckOutcome::Pass);
        assert_eq!(outcome("", ""), CheckOutcome::Warn);
        let chart = include_str!("../../../charts/portcullis/Chart.yaml");
        assert!(chart.contains(&format!("kubeVersion: \">=1.{OLDEST}.0-0\"")));
    }
}
