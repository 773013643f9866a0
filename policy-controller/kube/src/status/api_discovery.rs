//! Looks at what there is: which kinds have a status, and what their objects are told already. So a
//! leader that begins writes only what differs.

use super::api::{StatusApi, StatusApiError, StatusSupport};
use super::merge::Item;
use super::queue::backoff;
use super::settings::StatusSettings;
use policy_crds::Kind;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// What has been found out.
#[derive(Debug)]
pub(super) enum DiscoveryReport {
    /// What a kind has.
    Support {
        /// The kind.
        kind: Kind,
        /// What it has.
        support: StatusSupport,
    },
    /// Some of its objects.
    Page {
        /// The kind.
        kind: Kind,
        /// The objects.
        items: Vec<Item>,
    },
    /// All of its objects have been reported, or cannot be.
    End {
        /// The kind.
        kind: Kind,
        /// The version that they were listed in.
        version: &'static str,
    },
}

/// How long to wait before the kinds that failed are asked about again, at first and at most.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// One discover.
pub(super) struct ApiDiscovery {
    /// Who is asked.
    pub(super) api: Arc<StatusApi>,
    /// Which kinds are written, and where.
    pub(super) settings: Arc<StatusSettings>,
    /// Where it is reported, one page at a time.
    pub(super) report: mpsc::Sender<DiscoveryReport>,
}

impl ApiDiscovery {
    /// Reports on these kinds, until each has been reported on.
    pub(super) async fn run(self, mut kinds: Vec<Kind>) {
        let mut failures = 0_u32;
        while !kinds.is_empty() {
            let mut failed = Vec::new();
            for kind in kinds {
                if let Err(failure) = self.discover(kind).await {
                    tracing::debug!(kind = kind.plural(), %failure, "cannot be looked at");
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
        for namespace in self.settings.places() {
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
        // Nobody listens any more where this replica does not lead any more.
        let _ = self.report.send(report).await;
    }
}
