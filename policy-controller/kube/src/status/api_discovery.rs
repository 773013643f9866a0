//! Discovers which kinds have a status, and lists the current status of their objects, so that a new
//! leader writes only what differs.

use super::api::{StatusApi, StatusApiError, StatusSupport};
use super::item::Item;
use super::queue::backoff;
use super::settings::StatusSettings;
use policy_crds::Kind;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A result of discovery.
#[derive(Debug)]
pub(super) enum DiscoveryReport {
    /// The support of a kind.
    Support {
        /// The kind.
        kind: Kind,
        /// Its support.
        support: StatusSupport,
    },
    /// A page of its objects.
    Page {
        /// The kind.
        kind: Kind,
        /// The objects.
        items: Vec<Item>,
    },
    /// The end of the list of a kind, or it cannot be listed.
    End {
        /// The kind.
        kind: Kind,
        /// The version of the list.
        version: &'static str,
    },
}

/// Backoff of kinds that failed, at first and at most.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// One run of discovery.
pub(super) struct ApiDiscovery {
    /// The client.
    pub(super) api: Arc<StatusApi>,
    /// The kinds that are written, and the namespaces.
    pub(super) settings: Arc<StatusSettings>,
    /// The queue of the results, one page at a time.
    pub(super) report: mpsc::Sender<DiscoveryReport>,
}

impl ApiDiscovery {
    /// Discovers these kinds, and retries until each has succeeded.
    pub(super) async fn run(self, mut kinds: Vec<Kind>) {
        let mut failures = 0_u32;
        while !kinds.is_empty() {
            let mut failed = Vec::new();
            for kind in kinds {
                if let Err(failure) = self.discover(kind).await {
                    tracing::debug!(kind = kind.plural(), %failure, "discovery failed");
                    failed.push(kind);
                }
            }
            kinds = failed;
            failures = failures.saturating_add(1);
            if !kinds.is_empty() {
                tokio::time::sleep(backoff(failures, RETRY_BACKOFF.0, RETRY_BACKOFF.1, 0)).await;
            }
        }
    }

    async fn discover(&self, kind: Kind) -> Result<(), StatusApiError> {
        let found = self.api.discover(kind).await?;
        self.send(DiscoveryReport::Support { kind, support: found }).await;
        let StatusSupport::Status(version) = found else { return Ok(()) };
        if !self.settings.is_written(kind) {
            return Ok(());
        }
        for namespace in self.settings.list_scopes(kind) {
            match self.list((kind, version), namespace).await {
                Ok(()) => {}
                // Each object is read before it is written anyhow.
                Err(failure) if matches!(failure.code(), 403 | 404) => {}
                Err(failure) => return Err(failure),
            }
        }
        self.send(DiscoveryReport::End { kind, version }).await;
        Ok(())
    }

    async fn list(
        &self,
        (kind, version): (Kind, &'static str),
        namespace: Option<&str>,
    ) -> Result<(), StatusApiError> {
        let mut token: Option<String> = None;
        loop {
            let page = self.api.page((kind, version), namespace, token.as_deref()).await?;
            self.send(DiscoveryReport::Page { kind, items: page.items }).await;
            token = page.metadata.token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(());
            }
        }
    }

    async fn send(&self, report: DiscoveryReport) {
        // Fails only where this replica does not lead any more.
        let _ = self.report.send(report).await;
    }
}
