//! Parses a JSON value into an [`Object`]: every rule of every kind, with the field in each error.

pub(crate) mod attachment_times;
pub(crate) mod duration;
mod error;
mod generated;
pub(crate) mod header;
pub(crate) mod host;
pub(crate) mod hostnames;
pub(crate) mod identity;
pub(crate) mod input;
pub(crate) mod label;
pub(crate) mod metadata;
mod misindented;
pub(crate) mod name;
pub(crate) mod network;
mod object;
mod part;
pub(crate) mod path;
pub(crate) mod probe;
mod recorded;
pub(crate) mod route_label;
mod sidecar_mark;
pub(crate) mod target;
mod type_meta;
pub(crate) mod values;

pub use attachment_times::{AttachmentTimes, HOSTNAMES_ATTACHED};
pub use error::NotAnObject;
pub use host::hostname;
pub use object::{parse, parse_all, parse_written};
pub use part::{Part, parts};
