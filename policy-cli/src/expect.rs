//! Expectations: requests and their expected results, as a YAML file beside manifests.
//!
//! ```yaml
//! cluster: {defaultPolicy: deny, clusterNetworks: [10.0.0.0/8]}   # optional, see ClusterSettings;
//!                                             # or {flags: [--default-policy=deny]}
//! requests:
//! - name: web lists emoji
//!   from: {serviceAccount: emojivoto/web}     # or identity, address, node; tls: none|mesh|passthrough
//!   to: emojivoto/emoji-0:8080                # pod:port, or emojivoto/externalworkload/vm:8080
//!   grpc: emojivoto.v1.EmojiService/ListAll   # or http: "GET /path" (host, headers, version), or tcp: true
//!   decision: allow                           # allow, deny, audit
//!   reason: unauthorized                      # of a denial
//!   route: HTTPRoute emojivoto/api            # optional: the route that matched
//!   authorization: AuthorizationPolicy emojivoto/web   # optional: the grant that permitted it
//!   response: {grpcStatus: 0, headers: {x-a: "1", x-b: null}}   # optional: as the client gets it
//!   received: {path: /a, headers: {x-a: [one, two]}}   # optional: as the application gets it
//!   timeouts: {complete: 3s, idle: 30s}       # optional: all bounds on the exchange
//!   burst: 20                                 # optional: sent so many times at once
//! conditions:                                 # optional: conditions of objects
//! - {object: HTTPRoute emojivoto/api, condition: Accepted, status: true, reason: Accepted}
//! ```
//!
//! Two runners read the same file: [`run_evaluator`] calls the evaluator, and [`run_pipeline`] sends
//! the requests with a real client through controller, gRPC and sidecar.

mod burst;
mod client_endpoint;
mod cluster;
mod conditions;
mod effects;
mod error;
mod evaluator;
mod expectation;
mod flags;
mod header_values;
mod pipeline;
mod rate_limits;
mod received;
mod report;
mod response;
mod workload_port;

pub use crate::sidecar_view::ClientTls;
pub use crate::verdict::{DecisionSummary, Verdict};
pub use cluster::{
    ClusterSettings, KubeletExemptionMode, Network, ProbeRoutesMode, ReferenceGrantsMode,
    UndeclaredPortsMode,
};
pub use conditions::ExpectedCondition;
pub use effects::ExpectedTimeouts;
pub use error::ExpectError;
pub use evaluator::{run_evaluator, run_evaluator_on};
pub use expectation::{Client, Expectation, Expectations, Version};
pub use header_values::{ExpectedHeaders, HeaderValues};
pub use pipeline::{run_pipeline, run_pipeline_direct};
pub use received::ExpectedArrival;
pub use report::{Case, Report};
pub use response::ExpectedResponse;
pub use workload_port::WorkloadPort;
