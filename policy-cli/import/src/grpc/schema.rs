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
    /// The number of a value of the enum `IdempotencyLevel`.
    #[prost(int32, optional, tag = "34")]
    pub(super) idempotency_level: Option<i32>,
}

impl MethodOptions {
    /// True if its author promises that a second call changes no more than the first. A level that is
    /// not known promises nothing.
    pub(super) fn is_idempotent(self) -> bool {
        const NO_SIDE_EFFECTS: i32 = 1;
        const IDEMPOTENT: i32 = 2;
        matches!(self.idempotency_level, Some(NO_SIDE_EFFECTS | IDEMPOTENT))
    }
}
