//! Manifests from descriptions of APIs: one module for each format that is read, and what all of them
//! share.

mod grpc;
mod input;
mod manifest;
mod object_name;

pub(crate) use grpc::{GrpcChoice, grpc_services};
pub(crate) use input::read;
pub(crate) use manifest::{Imported, ManifestFormat};
