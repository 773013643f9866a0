//! Imports of descriptors: those of real `.proto` files, wrong ones and any bytes.

use super::{GrpcChoice, grpc_services};
use crate::{Fidelity, Imported, ReportRow};
use policy_crds::route_selector::IDEMPOTENT;
use policy_crds::{Body, Resource, document, parse};
use proptest::prelude::*;
use prost::Message;
use prost_types::method_options::IdempotencyLevel;
use prost_types::{
    FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, MethodOptions,
    ServiceDescriptorProto,
};
use std::collections::BTreeMap;
use std::path::Path;

fn method(name: &str) -> MethodDescriptorProto {
    MethodDescriptorProto { name: Some(name.to_owned()), ..Default::default() }
}

fn leveled(name: &str, level: i32) -> MethodDescriptorProto {
    let options = MethodOptions { idempotency_level: Some(level), ..Default::default() };
    MethodDescriptorProto { options: Some(options), ..method(name) }
}

fn service(name: &str, method: Vec<MethodDescriptorProto>) -> ServiceDescriptorProto {
    ServiceDescriptorProto { name: Some(name.to_owned()), method, options: None }
}

fn file(name: &str, package: &str, service: Vec<ServiceDescriptorProto>) -> FileDescriptorProto {
    let (name, package) = (Some(name.to_owned()), Some(package.to_owned()));
    FileDescriptorProto { name, package, service, ..Default::default() }
}

fn bytes(file: Vec<FileDescriptorProto>) -> Vec<u8> {
    FileDescriptorSet { file }.encode_to_vec()
}

fn import(bytes: &[u8], services: &[&str], name: Option<&str>) -> Result<Imported, Vec<String>> {
    let services: Vec<String> = services.iter().copied().map(str::to_owned).collect();
    grpc_services(bytes, &GrpcChoice { services: &services, name, namespace: None })
}

fn all(bytes: &[u8]) -> Result<Imported, Vec<String>> {
    import(bytes, &[], None)
}

fn yaml(imported: &Imported) -> String {
    imported.yaml()
}

/// The services that the reader makes of the manifests, and their methods with `idempotent`, by the
/// names of the objects.
fn read(imported: &Imported) -> BTreeMap<String, (String, Vec<(String, bool)>)> {
    let mut read = BTreeMap::new();
    for document in document::read(&yaml(imported)) {
        let object = parse(&document.value.unwrap()).unwrap();
        let Body::Valid(Resource::GrpcService(service)) = object.body else {
            panic!("{:?}", object.body);
        };
        let methods = service.methods.iter().map(|method| {
            let label = method.labels.get(IDEMPOTENT).map(|value| &**value);
            assert!(label.is_none_or(|value| value == "true"), "{label:?}");
            (method.name.to_string(), label.is_some())
        });
        let value = (service.service.to_string(), methods.collect());
        assert_eq!(read.insert(object.meta.key.name.to_string(), value), None);
    }
    read
}

#[test]
fn a_service_becomes_an_object_with_its_methods() {
    let methods = vec![
        method("Create"),
        leveled("Get", IdempotencyLevel::NoSideEffects.into()),
        leveled("Delete", IdempotencyLevel::Idempotent.into()),
        leveled("Move", IdempotencyLevel::IdempotencyUnknown.into()),
        leveled("Sell", 9),
    ];
    let set = bytes(vec![
        file("books.proto", "books.v1", vec![service("Books", methods)]),
        file("types.proto", "books.v1", vec![]),
        file("old.proto", "", vec![service("Old_Shop", vec![method("Call")])]),
    ]);
    let expected = "\
apiVersion: portcullis.dev/v1alpha1
kind: GrpcService
metadata:
  name: books.v1.books
spec:
  methods:
  - name: Create
  - labels:
      http.linkerd.io/idempotent: \"true\"
    name: Get
  - labels:
      http.linkerd.io/idempotent: \"true\"
    name: Delete
  - name: Move
  - name: Sell
  service: books.v1.Books
---
apiVersion: portcullis.dev/v1alpha1
kind: GrpcService
metadata:
  name: old-shop
spec:
  methods:
  - name: Call
  service: Old_Shop
";
    let imported = all(&set).unwrap();
    assert_eq!(yaml(&imported), expected);
    let row = |service: &str, file: &str, name: &str| {
        let subject = format!("service `{service}` of `{file}`");
        let note = format!("GrpcService `{name}`");
        ReportRow { place: None, subject, fidelity: Fidelity::Exact, note }
    };
    let rows = [
        row("books.v1.Books", "books.proto", "books.v1.books"),
        row("Old_Shop", "old.proto", "old-shop"),
    ];
    assert_eq!(imported.rows, rows);
    let one = import(&set, &["Old_Shop"], Some("old")).unwrap();
    let call = vec![("Call".to_owned(), false)];
    assert_eq!(read(&one), BTreeMap::from([("old".to_owned(), ("Old_Shop".to_owned(), call))]));
}

#[test]
fn real_files_are_imported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let sources = ["portcullis/policy/v1/report.proto", "linkerd/inbound.proto"];
    let set = protox::compile(sources.map(|source| folder.join(source)), [&folder]).unwrap();
    let methods = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), false)).collect();
    let expected = BTreeMap::from([
        (
            "portcullis.policy.v1.policyreport".to_owned(),
            (
                "portcullis.policy.v1.PolicyReport".to_owned(),
                methods(&["InForce", "Objects", "Denied"]),
            ),
        ),
        (
            "portcullis.policy.v1.policydiscovery".to_owned(),
            ("portcullis.policy.v1.PolicyDiscovery".to_owned(), methods(&["Watch"])),
        ),
        (
            "io.linkerd.proxy.inbound.inboundserverpolicies".to_owned(),
            (
                "io.linkerd.proxy.inbound.InboundServerPolicies".to_owned(),
                methods(&["GetPort", "WatchPort"]),
            ),
        ),
    ]);
    assert_eq!(read(&all(&set.encode_to_vec()).unwrap()), expected);
}

#[test]
fn options_are_read_as_a_compiler_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let source = "\
syntax = \"proto3\";
package books.v1;
message Book {}
service Books {
  rpc Get(Book) returns (Book) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Put(Book) returns (stream Book) {
    option deprecated = true;
    option idempotency_level = IDEMPOTENT;
  }
  rpc Add(stream Book) returns (Book);
}
";
    let path = folder.path().join("books.proto");
    std::fs::write(&path, source).unwrap();
    let set = protox::compile([path], [folder.path()]).unwrap();
    let methods = [("Get", true), ("Put", true), ("Add", false)];
    let methods = methods.map(|(name, idempotent)| (name.to_owned(), idempotent)).to_vec();
    let expected = ("books.v1.Books".to_owned(), methods);
    assert_eq!(
        read(&all(&set.encode_to_vec()).unwrap()),
        BTreeMap::from([("books.v1.books".to_owned(), expected)])
    );
}

#[test]
fn no_service_becomes_one_for_every_method() {
    let full = file("a.proto", "a", vec![service("Full", vec![method("Get")])]);
    let empty = file("b.proto", "b", vec![service("Empty", vec![])]);
    let set = bytes(vec![full, empty.clone()]);
    let imported = all(&set).unwrap();
    assert_eq!(read(&imported).into_keys().collect::<Vec<_>>(), ["a.full"]);
    let left_out: Vec<(&str, &str)> = imported
        .rows
        .iter()
        .filter(|row| row.fidelity == Fidelity::Omitted)
        .map(|row| (&*row.subject, &*row.note))
        .collect();
    let note = "it has no methods, and a GrpcService without methods is for all";
    assert_eq!(left_out, [("service `b.Empty` of `b.proto`", note)]);
    let error = "service `b.Empty` of `b.proto`: it has no methods, and a GrpcService without \
                 methods is for all";
    assert_eq!(import(&set, &["a.Full", "b.Empty"], None), Err(vec![error.to_owned()]));
    let none = Err(vec!["declares no service that has methods".to_owned()]);
    assert_eq!(all(&bytes(vec![empty])), none);
    assert_eq!(all(&bytes(vec![file("c.proto", "c", vec![])])), none);
}

/// The error of a file that is no set of descriptors.
fn refused(bytes: &[u8]) -> String {
    let errors = all(bytes).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.concat()
}

#[test]
fn other_files_are_refused_with_what_they_seem_to_be() {
    assert_eq!(refused(b""), "is empty");
    let source = refused(b"syntax = \"proto3\";\n\nservice Books {}\n");
    assert!(source.contains("; it looks like text: compile `.proto` files first, with `protoc "));
    let json = refused(br#" {"file": [{"name": "books.proto"}]}"#);
    assert!(json.contains("; it looks like JSON: write the binary form"), "{json}");
    let gzip = refused(&[0x1f, 0x8b, 8, 0, 0, 0]);
    assert!(gzip.ends_with("; it is compressed: decompress it first"), "{gzip}");
    // A message of another type, which has a field of the number 2.
    assert_eq!(refused(&[0x12, 1, 0xff]), "is no FileDescriptorSet: it has no files");
    let set = bytes(vec![file("a.proto", "a", vec![service("A", vec![method("Get")])])]);
    for length in 1..set.len() {
        let words = refused(&set[..length]);
        assert!(words.starts_with("is no FileDescriptorSet, or a part of one ("), "{words}");
    }
}

#[test]
fn what_the_reader_refuses_is_named_and_nothing_is_imported() {
    let many: Vec<_> = (0..257).map(|number| method(&format!("M{number}"))).collect();
    let unnamed = MethodDescriptorProto::default();
    let long = "x".repeat(64);
    let set = bytes(vec![file(
        "a.proto",
        "a",
        vec![
            service("Good", vec![method("Get")]),
            service("Many", many),
            service("Twice", vec![method("Get"), method("Get")]),
            service("Wrong", vec![method("Get-It"), unnamed]),
            service("9", vec![method("Get")]),
            service(&long, vec![method("Get")]),
            ServiceDescriptorProto { method: vec![method("Get")], ..Default::default() },
        ],
    )]);
    let found = all(&set).unwrap_err();
    let expected = [
        "service `a.Many` of `a.proto`: spec.methods: 257 elements, at most 256 are allowed",
        "service `a.Twice` of `a.proto`: spec.methods[1].name: `Get` appears twice",
        "service `a.Wrong` of `a.proto`: spec.methods[0].name: `Get-It` is not the name of a gRPC \
         method: letters, digits and `_` are allowed, not beginning with a digit",
        "service `a.Wrong` of `a.proto`: spec.methods[1].name: must not be empty",
        "service `a.9` of `a.proto`: spec.service: `a.9` is not the name of a gRPC service: letters, \
         digits and `_` are allowed, not beginning with a digit, with dots between",
    ];
    assert_eq!(found[..5], expected, "{found:#?}");
    let named = format!(
        "service `a.{long}` of `a.proto`: metadata.name: `a.{long}` is not a name: lower-case \
         letters, digits, `-` and `.` are allowed; import it alone, with --service and --name"
    );
    let without = "service `a.` of `a.proto`: spec.service: `a.` is not the name of a gRPC service: \
                   letters, digits and `_` are allowed, not beginning with a digit, with dots between";
    assert_eq!(found[5..], [named, without.to_owned()]);
    let long = format!("a.{long}");
    let mended = import(&set, &[&long], Some("long")).unwrap();
    assert_eq!(read(&mended).into_keys().collect::<Vec<_>>(), ["long"]);
}

#[test]
fn no_more_than_could_be_meant_is_imported() {
    let one = service("S", vec![MethodDescriptorProto::default(); 65_535]);
    let set = bytes(vec![file("a.proto", "a", vec![one.clone()])]);
    let most = "service `a.S` of `a.proto`: spec.methods: 65535 elements, at most 256 are allowed";
    assert_eq!(all(&set), Err(vec![most.to_owned()]));
    let set = bytes(vec![file("a.proto", "a", vec![one, service("T", vec![])])]);
    let more = "declares more than 65536 services and methods, which is the most that is imported at \
                once";
    assert_eq!(import(&set, &["a.T"], None), Err(vec![more.to_owned()]));
}

#[test]
fn one_name_is_never_given_twice() {
    let one = |name| vec![service(name, vec![method("Get")])];
    let set = bytes(vec![file("a.proto", "a", one("B")), file("b.proto", "a", one("b"))]);
    let error = "service `a.b` of `b.proto`: `a.B` would be called `a.b` as well; import it alone, \
                 with --service and --name";
    assert_eq!(all(&set), Err(vec![error.to_owned()]));
    let twice = bytes(vec![file("a.proto", "a", one("B")), file("b.proto", "a", one("B"))]);
    let error = "service `a.B` of `b.proto`: it is declared in `a.proto` already";
    assert_eq!(all(&twice), Err(vec![error.to_owned()]));
    let error = "--name is for one service of 2: choose it with --service";
    assert_eq!(import(&set, &[], Some("b")), Err(vec![error.to_owned()]));
    let (upper, lower) = (import(&set, &["a.B"], Some("upper")), import(&set, &["a.b"], None));
    assert_eq!(read(&upper.unwrap()).into_keys().collect::<Vec<_>>(), ["upper"]);
    assert_eq!(read(&lower.unwrap()).into_keys().collect::<Vec<_>>(), ["a.b"]);
}

#[test]
fn a_service_that_is_not_there_is_an_error() {
    let one = |name| service(name, vec![method("Get")]);
    let set = bytes(vec![file("a.proto", "books.v1", vec![one("Books"), one("Authors")])]);
    let error = |name| import(&set, &[name], None).unwrap_err();
    assert_eq!(error("Books"), ["declares no service `Books`; did you mean `books.v1.Books`?"]);
    let meant = "declares no service `books.v1.Boks`; did you mean `books.v1.Books`?";
    assert_eq!(error("books.v1.Boks"), [meant]);
    let listed =
        "declares no service `x.\\u{1b}`; it declares `books.v1.Books`, `books.v1.Authors`";
    assert_eq!(error("x.\u{1b}"), [listed]);
    let empty = bytes(vec![file("a.proto", "a", vec![])]);
    let found = import(&empty, &["a.B"], None);
    assert_eq!(found, Err(vec!["declares no service `a.B`; it declares none".to_owned()]));
}

/// Names of few letters, so that they collide, and others.
fn names() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[ab_A]{1,2}", 1 => "[a-zA-Z_.0-9-]{0,70}", 1 => any::<String>()]
}

prop_compose! {
    fn methods()(name in names(), level in prop::option::of(-1..4)) -> MethodDescriptorProto {
        level.map_or_else(|| method(&name), |level| leveled(&name, level))
    }
}

prop_compose! {
    fn services()(
        name in names(),
        methods in prop::collection::vec(methods(), 0..4),
    ) -> ServiceDescriptorProto {
        service(&name, methods)
    }
}

prop_compose! {
    fn files()(
        package in names(),
        services in prop::collection::vec(services(), 0..3),
    ) -> FileDescriptorProto {
        file("a.proto", &package, services)
    }
}

proptest! {
    #[test]
    fn any_bytes_are_imported_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        match all(&bytes) {
            Ok(imported) => prop_assert!(!read(&imported).is_empty()),
            Err(errors) => prop_assert!(!errors.is_empty()),
        }
    }

    #[test]
    fn changed_sets_are_imported_or_refused(
        set in prop::collection::vec(files(), 1..3),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        kept in any::<prop::sample::Index>(),
    ) {
        let mut bytes = bytes(set);
        let (at, kept) = (at.index(bytes.len()), kept.index(bytes.len()));
        bytes[at] = byte;
        for bytes in [&bytes[..], &bytes[..kept]] {
            if let Ok(imported) = all(bytes) {
                prop_assert!(!read(&imported).is_empty());
            }
        }
    }

    #[test]
    fn what_is_imported_has_the_methods_of_the_set(set in prop::collection::vec(files(), 1..3)) {
        if let Ok(imported) = all(&bytes(set.clone())) {
            let mut expected = BTreeMap::new();
            for file in &set {
                for service in file.service.iter().filter(|service| !service.method.is_empty()) {
                    let parts = [file.package(), service.name()];
                    let parts = parts.iter().filter(|part| !part.is_empty());
                    let name = parts.copied().collect::<Vec<_>>().join(".");
                    let methods = service.method.iter().map(|method| {
                        let level = method.options.as_ref().and_then(|one| one.idempotency_level);
                        (method.name().to_owned(), matches!(level, Some(1 | 2)))
                    });
                    let methods: Vec<_> = methods.collect();
                    prop_assert_eq!(expected.insert(name, methods), None);
                }
            }
            let read: BTreeMap<_, _> = read(&imported).into_values().collect();
            prop_assert_eq!(read, expected);
        }
    }
}
