//! One record per decision, for the access log, `up`'s decision log and tests; and notices about some of
//! them, for the log.

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
