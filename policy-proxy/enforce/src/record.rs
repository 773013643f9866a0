//! Records: one per decision, for the access log, the decision log of `up` and tests; and
//! rate-limited log lines and groups of some of them.

mod access_log;
mod client_key;
mod decisions;
mod entry;
mod notices;
mod request_info;
mod request_line;
mod sample;
mod visible;

pub use crate::error::ErrorKind;
pub use access_log::{AccessLog, Format};
pub use client_key::ClientKey;
pub use decisions::{
    DecisionGroup, DecisionMode, DecisionSample, Decisions, DecisionsState, GroupKey, GroupReason,
    GroupSubject, SampleTls,
};
pub use entry::{OutboundRecord, OutboundRefusal, Record, Recorder, RequestRecord, Verdict};
pub use notices::Notices;
pub use request_info::{DecisionInfo, RequestInfo};
pub use request_line::RequestLine;
pub use sample::Sampler;
pub use visible::{MAX_TEXT, visible_path, visible_text};
