//! Why a connection or request is refused or allowed, with the first cause first, and the least change
//! that would allow it. The evaluator decides, the engine finds the change; here both get words.

mod answer;
mod caller_record;
mod cause;
mod causes;
mod client;
mod delegation;
mod explained;
mod find;
mod in_force;
mod judge;
mod log;
mod misplaced;
mod near_miss;
mod outside;
mod overlooked;
mod place;
mod recorded;
mod report;
mod target;
mod text;

pub(crate) use answer::WhyCase;
pub(crate) use caller_record::ask_callers;
pub(crate) use client::WhyClient;
pub(crate) use explained::{Explainer, RecordedReport};
pub(crate) use find::{FoundDecisions, by_id, latest, of_id};
pub(crate) use in_force::{InForceSource, ask_sidecars};
pub(crate) use judge::{Question, QuestionRequest};
pub(crate) use log::{LogDecisions, read as read_log};
pub(crate) use outside::{NetworkPolicyExtent, NetworkPolicyList};
pub(crate) use report::WhyReport;
pub(crate) use target::PortArgument;
