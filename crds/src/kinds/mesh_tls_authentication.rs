//! MeshTLSAuthentication (docs/spec/controller.md 1.4, 4).

use crate::kind::Kind;
use crate::parse::identity::identity;
use crate::parse::input::Input;
use crate::parse::name::is_dns_label;
use crate::parse::target::{Reference, Target};
use crate::reader::{AllowedFields, JsonNode, quote};
use crate::render::definition::{Definition, Version};
use crate::render::profile::Profile;
use crate::render::schema::{any_namespace, exactly_one, list_of, object, reference, text};
use crate::resource::{IdentityRef, MeshTlsAuthentication, Resource};
use crate::spec::ClientReference;

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&["identities", "identityRefs"]))?;
    let (identities, refs) = match (spec.get("identities"), spec.get("identityRefs")) {
        (Some(node), None) => (list(&node, identity)?, Vec::new()),
        (None, Some(node)) => (Vec::new(), list(&node, identity_ref)?),
        (Some(_), Some(_)) | (None, None) => {
            spec.error("exactly one of `identities` and `identityRefs` is required");
            return None;
        }
    };
    Some(Resource::MeshTlsAuthentication(MeshTlsAuthentication { identities, identity_refs: refs }))
}

fn list<T>(node: &JsonNode<'_>, read: impl Fn(&JsonNode<'_>) -> Option<T>) -> Option<Vec<T>> {
    let list = node.list()?;
    if list.is_empty() {
        node.error("an empty list grants nobody, name at least one client");
        return None;
    }
    let read: Vec<Option<T>> = list.iter().map(read).collect();
    read.into_iter().collect()
}

fn identity_ref(node: &JsonNode<'_>) -> Option<IdentityRef> {
    let allowed = &[Target::Kind(Kind::ServiceAccount), Target::Kind(Kind::Namespace)];
    let reference = Reference::read(node, &["group", "kind", "name", "namespace"], allowed)?;
    if reference.target == Target::Kind(Kind::ServiceAccount) {
        return reference.namespaced().map(IdentityRef::ServiceAccount);
    }
    if let Some(namespace) = reference.fields.get("namespace") {
        namespace.error("must be absent: a Namespace is in no namespace, `name` says which one");
    }
    let name = reference.name()?;
    if !is_dns_label(&name) {
        reference.fields.error_at("name", format!("{} is not a namespace", quote(&name)));
        return None;
    }
    Some(IdentityRef::Namespace(name))
}

pub(super) fn clients(resource: &Resource) -> Vec<ClientReference> {
    let Resource::MeshTlsAuthentication(authentication) = resource else { return Vec::new() };
    let MeshTlsAuthentication { identities, identity_refs } = authentication;
    let by_object = identity_refs.iter().enumerate().map(|(i, reference)| {
        let field = format!("spec.identityRefs[{i}].name");
        match reference {
            IdentityRef::ServiceAccount(name) => ClientReference::account(field, name),
            IdentityRef::Namespace(name) => ClientReference::namespace(field, name),
        }
    });
    ClientReference::identities("spec.identities", identities).chain(by_object).collect()
}

pub(super) fn definition(_: Profile) -> Definition {
    let client = reference(
        "A ServiceAccount, or a Namespace with all of its own.",
        any_namespace(),
        &["kind"],
    );
    let identity = text("A name, `*.<suffix>`, `*` for any, or a SPIFFE id.");
    let spec = exactly_one(
        object(
            "Clients by what their certificate proves.",
            &[
                ("identities", list_of("Clients by identity.", identity, Some(1), None)),
                ("identityRefs", list_of("Clients by object.", client, Some(1), None)),
            ],
            &[],
        ),
        &["identities", "identityRefs"],
    );
    Definition {
        kind: Kind::MeshTlsAuthentication,
        short_names: Kind::MeshTlsAuthentication.spec().names.short,
        categories: &[],
        versions: Version::only(spec),
    }
}
