//! Statuses of failed lookups.

use policy_core::WorkloadKey;
use policy_engine::publish::LookupError;
use std::num::NonZeroU16;
use tonic::Status;

/// Returns the status of a failed lookup. Never a code that Linkerd's proxies take as final.
pub(super) fn refusal(key: &WorkloadKey, port: NonZeroU16, error: LookupError) -> Status {
    match error {
        LookupError::NotFound => Status::not_found(format!("unknown server: no workload `{key}`")),
        LookupError::NotSynced => Status::unavailable("objects have not been listed yet"),
        LookupError::TooManyPorts => Status::resource_exhausted(format!(
            "too many ports of `{key}` are watched that it does not declare; port {port} is refused"
        )),
        LookupError::TooManyDestinations => {
            Status::resource_exhausted("too many destinations are followed")
        }
        LookupError::OutboundOff => Status::unimplemented("outbound discovery is off"),
        LookupError::Stopped => Status::unavailable("the controller is shutting down"),
    }
}
