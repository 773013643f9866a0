//! Support for the tests of other crates.

use crate::identity::{CertificateState, FailureKind, IdentityMetrics};
use rustls::pki_types::CertificateDer;
use std::time::SystemTime;

/// Counts one of each event of an identity under `root`.
pub fn count_one_of_each(metrics: &IdentityMetrics, root: CertificateDer<'_>) {
    let now = SystemTime::now();
    let held = CertificateState {
        name: None,
        not_before: now,
        not_after: now,
        since: now,
        roots: 1,
        rejection: None,
    };
    metrics.start();
    metrics.renewed(now);
    metrics.roots_changed();
    metrics.in_force(&held, &[root]);
    metrics.failed(FailureKind::Token, now);
}
