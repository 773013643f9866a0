//! The part of `google/protobuf/descriptor.proto` that is imported. What else descriptors hold is
//! skipped: whole ones, decoded, take three hundred times the room of their bytes.

/// Several files.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FileDescriptorSet {
    #[prost(message, repeated, tag = "1")]
    pub(super) file: Vec<FileDescriptorProto>,
}

/// A `.proto` file.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FileDescriptorProto {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) package: Option<String>,
    #[prost(message, repeated, tag = "6")]
    pub(super) service: Vec<ServiceDescriptorProto>,
}

/// A service.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServiceDescriptorProto {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) method: Vec<MethodDescriptorProto>,
}

/// A method.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MethodDescriptorProto {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub(super) options: Option<MethodOptions>,
}

/// Options of a method.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct MethodOptions {
    #[prost(enumeration = "IdempotencyLevel", optional, tag = "34")]
    pub(super) idempotency_level: Option<i32>,
}

/// The promise that a method may be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum IdempotencyLevel {
    /// None.
    Unknown = 0,
    /// A call changes nothing.
    NoSideEffects = 1,
    /// A second call changes no more than the first.
    Idempotent = 2,
}
