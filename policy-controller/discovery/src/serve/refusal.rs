//! Statuses of failed lookups.

use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_core::WorkloadKey;
use policy_engine::publish::LookupError;
use std::num::NonZeroU16;
use tonic::Status;

/// Returns the status of a failed lookup. Never a code that Linkerd's proxies take as final.
pub(super) fn refusal(key: &WorkloadKey, port: NonZeroU16, error: LookupError) -> Status {
    match error {
        LookupError::NotFound => Status::not_found(format!("unknown server: no workload `{key}`"))
            .because(StatusReason::WorkloadNotFound),
        LookupError::NotSynced => {
            Status::unavailable("objects have not been listed yet").because(StatusReason::NotListed)
        }
        LookupError::TooManyPorts => Status::resource_exhausted(format!(
            "too many ports of `{key}` are watched that it does not declare; port {port} is refused"
        ))
        .because(StatusReason::TooManyPorts),
        LookupError::TooManyDestinations => {
            Status::resource_exhausted("too many destinations are followed")
                .because(StatusReason::TooManyDestinations)
        }
        LookupError::OutboundOff => {
            Status::unimplemented("outbound discovery is off").because(StatusReason::OutboundOff)
        }
        LookupError::Stopped => {
            Status::unavailable("the controller is shutting down").because(StatusReason::Stopping)
        }
    }
}
