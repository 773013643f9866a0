//! The descriptors of the services and of what they refer to, by file and by name.

use bytes::Bytes;
use policy_proto::DESCRIPTORS;
use policy_proto::reflection::server_reflection_response::MessageResponse as Answer;
use policy_proto::reflection::{FileDescriptorResponse, ServerReflectionResponse};
use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use std::collections::{BTreeMap, BTreeSet};

/// Encoded files, and what is in them. Each file is the field of an answer that has it, encoded once for all
/// who ask.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    files: BTreeMap<String, Bytes>,
    /// The file of each service, method, message and enum, by its full name.
    symbols: BTreeMap<String, Bytes>,
    messages: BTreeSet<String>,
}

impl Descriptors {
    /// The descriptors of the files with these services, and of the files that they refer to.
    pub(super) fn of(services: &[&str]) -> Self {
        // A test reads the same bytes; unreadable ones would describe nothing.
        let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default();
        let mut known = Self::default();
        for file in reachable(&set, services) {
            known.add(file);
        }
        known
    }

    /// Returns a file by its name.
    pub(super) fn file(&self, name: &str) -> Option<Bytes> {
        self.files.get(name).cloned()
    }

    /// Returns the file that has a service, method, message or enum of this full name.
    pub(super) fn file_of(&self, symbol: &str) -> Option<Bytes> {
        self.symbols.get(symbol).cloned()
    }

    /// True if there is a message of this full name.
    pub(super) fn has_message(&self, name: &str) -> bool {
        self.messages.contains(name)
    }

    fn add(&mut self, file: &FileDescriptorProto) {
        let encoded = as_field(file);
        for service in &file.service {
            let name = within(file.package(), service.name());
            for method in &service.method {
                self.symbols.insert(within(&name, method.name()), encoded.clone());
            }
            self.symbols.insert(name, encoded.clone());
        }
        self.add_types(file.package(), &file.message_type, &file.enum_type, &encoded);
        self.files.insert(file.name().to_owned(), encoded);
    }

    /// Adds the messages and enums of a package, or of a message.
    fn add_types(
        &mut self,
        scope: &str,
        messages: &[DescriptorProto],
        enums: &[EnumDescriptorProto],
        file: &Bytes,
    ) {
        for message in messages {
            let name = within(scope, message.name());
            self.add_types(&name, &message.nested_type, &message.enum_type, file);
            self.messages.insert(name.clone());
            self.symbols.insert(name, file.clone());
        }
        for of in enums {
            self.symbols.insert(within(scope, of.name()), file.clone());
        }
    }
}

/// Returns the files that have one of these services, and those that they refer to.
fn reachable<'a>(set: &'a FileDescriptorSet, services: &[&str]) -> Vec<&'a FileDescriptorProto> {
    let serves = |file: &FileDescriptorProto| {
        let mut names = file.service.iter().map(|it| within(file.package(), it.name()));
        names.any(|name| services.contains(&&*name))
    };
    let mut due: Vec<_> = set.file.iter().filter(|file| serves(file)).collect();
    let mut found = BTreeMap::new();
    while let Some(file) = due.pop() {
        if found.insert(file.name(), file).is_none() {
            due.extend(
                set.file.iter().filter(|other| file.dependency.iter().any(|it| it == other.name())),
            );
        }
    }
    found.into_values().collect()
}

/// Returns the part of an answer that is the same for all who ask for this file.
fn as_field(file: &FileDescriptorProto) -> Bytes {
    let file_descriptor_proto = vec![file.encode_to_vec()];
    let field = Answer::FileDescriptorResponse(FileDescriptorResponse { file_descriptor_proto });
    let answer = ServerReflectionResponse { message_response: Some(field), ..Default::default() };
    answer.encode_to_vec().into()
}

/// A full name. SPIFFE's API is in no package.
fn within(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Services of every API that the policy port may have.
    fn known() -> Descriptors {
        Descriptors::of(&[
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "io.linkerd.proxy.destination.Destination",
            "io.linkerd.proxy.inbound.InboundServerPolicies",
            "io.linkerd.proxy.outbound.OutboundPolicies",
            "portcullis.policy.v1.DestinationDiscovery",
            "portcullis.policy.v1.PolicyDiscovery",
            "portcullis.policy.v1.PolicyReport",
        ])
    }

    fn file_in(field: &Bytes) -> FileDescriptorProto {
        let answer = ServerReflectionResponse::decode(field.clone()).unwrap();
        let Some(Answer::FileDescriptorResponse(files)) = answer.message_response else {
            panic!("no file");
        };
        let [file] = files.file_descriptor_proto.as_slice() else { panic!("not one file") };
        FileDescriptorProto::decode(file.as_slice()).unwrap()
    }

    /// The types of the fields of a message and of those within it.
    fn field_types(message: &DescriptorProto) -> Vec<String> {
        let own = message.field.iter().map(|field| field.type_name().to_owned());
        own.chain(message.nested_type.iter().flat_map(field_types)).collect()
    }

    #[test]
    fn everything_that_a_described_file_refers_to_is_described() {
        let known = known();
        assert!(known.files.len() > 10, "{:?}", known.files.keys());
        for (name, field) in &known.files {
            let file = file_in(field);
            assert_eq!(file.name(), name);
            let missing = |name: &&String| known.file(name).is_none();
            assert_eq!(file.dependency.iter().find(missing), None, "{name}");
            let methods = file.service.iter().flat_map(|service| &service.method);
            let of_methods = methods.flat_map(|method| [method.input_type(), method.output_type()]);
            let mut types: Vec<String> = of_methods.map(str::to_owned).collect();
            types.extend(file.message_type.iter().flat_map(field_types));
            for of in types {
                let of = of.trim_start_matches('.');
                assert!(of.is_empty() || known.file_of(of).is_some(), "{name}: {of}");
            }
        }
    }

    #[test]
    fn files_of_services_that_are_not_served_are_not_described() {
        let known = Descriptors::of(&["grpc.health.v1.Health"]);
        let files: Vec<_> = known.files.keys().map(String::as_str).collect();
        assert_eq!(files, ["grpc/health/v1/health.proto"]);
        assert_eq!(known.file_of("portcullis.policy.v1.PolicyDiscovery"), None);
        assert!(Descriptors::of(&[]).files.is_empty());
    }

    #[test]
    fn a_file_is_encoded_once_however_many_ask_for_it() {
        let known = known();
        let name = "grpc/health/v1/health.proto";
        let (one, other) = (known.file(name).unwrap(), known.file(name).unwrap());
        assert_eq!(one.as_ptr(), other.as_ptr());
        let by_symbol = known.file_of("grpc.health.v1.Health").unwrap();
        assert_eq!(one.as_ptr(), by_symbol.as_ptr());
    }

    #[test]
    fn services_methods_messages_and_enums_are_found_by_their_full_names() {
        let known = known();
        let file = known.file("grpc/health/v1/health.proto");
        assert!(file.is_some());
        for symbol in [
            "grpc.health.v1.Health",
            "grpc.health.v1.Health.List",
            "grpc.health.v1.HealthCheckResponse",
            "grpc.health.v1.HealthCheckResponse.ServingStatus",
        ] {
            assert_eq!(known.file_of(symbol), file, "{symbol}");
        }
        for none in ["", "grpc.health.v1", "Health", "grpc.health.v1.Health."] {
            assert_eq!(known.file_of(none), None, "{none}");
        }
        assert!(known.has_message("grpc.health.v1.HealthListRequest"));
        assert!(!known.has_message("grpc.health.v1.Health"));
    }
}
