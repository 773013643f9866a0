//! Records: one per decision, for the access log, the decision log of `up` and tests; and
//! rate-limited log lines about some of them.

mod access_log;
mod entry;
mod notices;
mod request_info;
mod sample;

pub use crate::error::ErrorKind;
pub use access_log::{AccessLog, Format};
pub use entry::{Record, Recorder, RequestRecord, Verdict};
pub use notices::{Notices, RequestLine};
pub use request_info::{DecisionInfo, RequestInfo};
pub use sample::Sampler;
