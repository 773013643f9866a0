//! Expectations: requests and their expected results, as a YAML file beside manifests.
//!
//! ```yaml
//! cluster: {defaultPolicy: deny, clusterNetworks: [10.0.0.0/8]}   # optional, see ClusterSettings
//! requests:
//! - name: web lists emoji
//!   from: {serviceAccount: emojivoto/web}     # or identity, address, node; tls: none|mesh|passthrough
//!   to: emojivoto/emoji-0:8080                # pod:port
//!   grpc: emojivoto.v1.EmojiService/ListAll   # or http: "GET /path" (host, headers, version), or tcp: true
//!   decision: allow                           # allow, deny, audit
//!   reason: unauthorized                      # of a denial
//!   route: HTTPRoute emojivoto/api            # optional: the route that matched
//!   authorization: AuthorizationPolicy emojivoto/web   # optional: the grant that permitted it
//! ```
//!
//! Two runners read the same file: [`run_evaluator`] calls the evaluator, and [`run_pipeline`] sends
//! the requests with a real client through controller, gRPC and sidecar.

mod client_endpoint;
mod cluster;
mod error;
mod evaluator;
mod expectation;
mod pipeline;
mod report;

pub use crate::verdict::{DecisionSummary, Verdict};
pub use cluster::{
    ClusterSettings, KubeletExemptionMode, Network, ProbeRoutesMode, ReferenceGrantsMode,
    UndeclaredPortsMode,
};
pub use error::ExpectError;
pub use evaluator::{run_evaluator, run_evaluator_on};
pub use expectation::{
    Client, ClientTls, Expectation, Expectations, HeaderValues, Version, WorkloadPort,
};
pub use pipeline::{run_pipeline, run_pipeline_direct};
pub use report::{Case, Report};
