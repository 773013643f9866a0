//! The wire: protobuf messages and both conversions.
//!
//! [`linkerd`] holds the messages that Linkerd's proxies understand, [`messages`] those of the
//! native service, [`spiffe`] those of SPIFFE's Workload API, [`reflection`] those of gRPC's
//! reflection; [`compat`] and [`native`] convert between them and `policy_core`'s model;
//! [`transport`] is the header that meshed clients send first on a connection. Encoding is a
//! function of policy, workload facts and the client's features, and reports the parts that are
//! unsupported. Decoding is all or nothing and names the field that it refuses.
//!
//! **Invariants.** No I/O and no Kubernetes. Every field of every model type is named where it is
//! encoded, so that a new one cannot be forgotten. A part that a client could not enforce is never
//! sent as if it could.

pub mod compat;
mod error;
mod hash;
pub mod linkerd;
pub mod native;
pub mod transport;
mod unreadable;
mod unsupported;
pub mod workload;

pub use error::DecodeError;
pub use unsupported::{Fallback, Part, Unsupported};

/// Package `portcullis.policy.v1`: the native service.
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs, unreachable_pub, reason = "generated")]
#[path = "gen/portcullis.policy.v1.rs"]
pub mod messages;

/// Package `grpc.reflection.v1`: server reflection. The package `grpc.reflection.v1alpha` has the same
/// bytes.
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs, unreachable_pub, reason = "generated")]
#[path = "gen/grpc.reflection.v1.rs"]
pub mod reflection;

/// The descriptors of every `.proto` file of this crate and of what they refer to, whether its services are
/// served or not: a `google.protobuf.FileDescriptorSet` without comments.
pub const DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");

/// SPIFFE's Workload API, as far as X.509 goes; in no package.
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, clippy::restriction, missing_docs, unreachable_pub, reason = "generated")]
#[path = "gen/spiffe.rs"]
pub mod spiffe;
