//! The descriptors that compilers of `.proto` files write.

use super::schema::{FileDescriptorSet, MethodDescriptorProto};
use policy_crds::quote;
use prost::Message;

/// A service as it is declared.
#[derive(Debug)]
pub(super) struct Declared<'a> {
    /// Its name with its package.
    pub(super) name: String,
    /// The `.proto` file.
    pub(super) file: &'a str,
    /// Its methods.
    pub(super) methods: &'a [MethodDescriptorProto],
}

impl Declared<'_> {
    /// Its name and its file, for messages.
    pub(super) fn place(&self) -> String {
        format!("service {} of {}", quote(&self.name), quote(self.file))
    }
}

/// The files in these bytes.
///
/// # Errors
/// The bytes are no FileDescriptorSet, or an empty one: what they may be instead, and how such a set
/// is made.
pub(super) fn descriptor_set(bytes: &[u8]) -> Result<FileDescriptorSet, String> {
    if bytes.is_empty() {
        return Err("is empty".to_owned());
    }
    let hint = hint(bytes);
    let set = FileDescriptorSet::decode(bytes)
        .map_err(|error| format!("is no FileDescriptorSet, or a part of one ({error}){hint}"))?;
    // Most messages of other types, too, decode to an empty set.
    if set.file.is_empty() {
        return Err(format!("is no FileDescriptorSet: it has no files{hint}"));
    }
    Ok(set)
}

/// The most services and methods of a file that is imported, all together.
const MAX_DECLARED: usize = 65_536;

/// Every service of the files, in their order.
///
/// # Errors
/// There are more services and methods than could be meant.
pub(super) fn declared(set: &FileDescriptorSet) -> Result<Vec<Declared<'_>>, String> {
    let services = set.file.iter().flat_map(|file| &file.service);
    let counts = services.map(|service| service.method.len().saturating_add(1));
    if counts.fold(0, usize::saturating_add) > MAX_DECLARED {
        return Err(format!(
            "declares more than {MAX_DECLARED} services and methods, which is the most that is \
             imported at once"
        ));
    }
    let mut all = Vec::new();
    for file in &set.file {
        for service in &file.service {
            let name = match file.package() {
                "" => service.name().to_owned(),
                package => format!("{package}.{}", service.name()),
            };
            all.push(Declared { name, file: file.name(), methods: &service.method });
        }
    }
    Ok(all)
}

/// A guess at bytes that are no FileDescriptorSet.
fn hint(bytes: &[u8]) -> &'static str {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    if bytes.starts_with(GZIP) {
        return "; it is compressed: decompress it first";
    }
    let text = std::str::from_utf8(bytes);
    let no_text = |c: char| c.is_control() && !c.is_ascii_whitespace();
    match text.map(|text| text.trim_start_matches('\u{feff}')) {
        Ok(text) if text.contains(no_text) => "",
        Ok(text) if text.trim_start().starts_with('{') => {
            "; it looks like JSON: write the binary form, with `buf build -o books.binpb` for example"
        }
        Ok(_) => {
            "; it looks like text: compile `.proto` files first, with `protoc \
             --descriptor_set_out=books.binpb books.proto` or `buf build -o books.binpb`"
        }
        Err(_) => "",
    }
}
