//! The workload token of Linkerd's API and ours, as a key of the index.

use policy_engine::publish::WorkloadKey;
use policy_proto::workload::{TokenError, WorkloadName, WorkloadNameKind, parse_workload};

/// Reads a token. The workload need not exist.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn parse(token: &str) -> Result<WorkloadKey, TokenError> {
    let WorkloadName { namespace, kind, name } = parse_workload(token)?;
    Ok(match kind {
        WorkloadNameKind::Pod => WorkloadKey::pod(&namespace, &name),
        WorkloadNameKind::ExternalWorkload => WorkloadKey::external(&namespace, &name),
    })
}
