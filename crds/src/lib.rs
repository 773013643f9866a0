//! The Kubernetes kinds: a table of their properties and references ([`Kind::spec`]), and the
//! parser of manifests into typed values.
//!
//! [`document`] reads text into JSON values that know the location of each field; [`parse()`] turns
//! such a value into an [`Object`] whose body is either a valid [`Resource`] or an [`Invalid`] that
//! keeps its [`Claims`]: an invalid object grants nothing, but still owns what it would have owned,
//! so that a mistake never opens a port. [`render`] writes the CRDs that a cluster installs.

pub mod annotation;
mod annotation_reading;
pub mod document;
mod field;
mod group_path;
mod inbound;
mod injected;
mod key;
pub mod kind;
mod kinds;
mod lookup;
mod node;
pub mod object;
mod other_workload;
mod outbound;
mod parse;
mod path;
pub mod pods;
mod ports;
mod quote;
mod rate_limits;
mod reader;
mod recorded;
pub mod render;
mod requests;
pub mod resource;
pub mod route_selector;
mod routes;
pub mod selector;
pub mod server_annotation;
mod sidecar_mark;
mod smi;
pub mod spec;
mod target;
pub mod unknown;
mod unread_annotation;

pub use field::{join_index, join_key};
pub use kind::Kind;
pub use object::{Body, Claims, FieldError, Invalid, Object, ObjectKey, ObjectMeta};
pub use other_workload::{OtherWorkload, TEMPLATE, other_workload, template_place};
pub use parse::identity::principal;
pub use parse::name::{is_dns_label, is_dns_name};
pub use parse::values::METHODS;
pub use parse::{
    AttachmentTimes, HOSTNAMES_ATTACHED, NotAnObject, Part, hostname, parse, parse_all,
    parse_written, parts,
};
pub use pods::{name_with_kind, pods_of};
pub use policy_core::suggest::{nearest, nearest_within};
pub use quote::quote;
pub use resource::Resource;
pub use selector::{Expression, LabelSelector, Operator};
pub use sidecar_mark::{Capture, OutboundMode, SidecarMark};
pub use spec::{Field, KindSpec};
pub use unread_annotation::{UnreadAnnotation, unread_annotations};
