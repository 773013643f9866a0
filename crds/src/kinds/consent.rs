//! `delegatedFrom`: the hosts under which an object agrees to be delegated to.

use crate::parse::host::host as read_host;
use crate::parse::name::{is_dns_label, object_name};
use crate::reader::{AllowedFields, JsonNode, quote, shared};
use crate::render::schema::{LABEL, at_most, list_of, matching, object, set, text, text_up_to};
use crate::resource::{Consent, NamespacedName};
use serde_json::{Value, json};

/// The most entries.
const MAX_CONSENTS: usize = 16;

/// A host name in any case, with or without a dot at its end, and with or without a wildcard.
const HOST: &str = "^(\\*\\.)?[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\\.?$";

/// Reads the list, which must not be empty.
pub(super) fn list(node: &JsonNode<'_>) -> Option<Vec<Consent>> {
    let list = node.list_up_to(MAX_CONSENTS)?;
    if list.is_empty() {
        node.error("must not be empty: it names the hosts to be delegated");
        return None;
    }
    let read: Vec<Option<Consent>> = list.iter().map(consent).collect();
    read.into_iter().collect()
}

fn consent(node: &JsonNode<'_>) -> Option<Consent> {
    let fields = node.fields(AllowedFields::Only(&["fqdn", "parent"]))?;
    let host = fields.require("fqdn").and_then(|node| read_host(&node));
    let parent = match fields.get("parent") {
        Some(node) => parent(&node).map(Some),
        None => Some(None),
    };
    Some(Consent { host: host?, parent: parent? })
}

/// The object that delegates. A namespace that is left out could be meant for either side.
fn parent(node: &JsonNode<'_>) -> Option<NamespacedName> {
    let fields = node.fields(AllowedFields::Only(&["namespace", "name"]))?;
    let name = fields.require("name").and_then(|node| object_name(&node));
    let namespace = fields.require("namespace").and_then(|node| {
        let text = node.text_up_to(63)?;
        if !is_dns_label(text) {
            node.error(format!("{} is not a namespace", quote(text)));
            return None;
        }
        Some(shared(text))
    });
    Some(NamespacedName { namespace: Some(namespace?), name: name? })
}

/// The schema of the list.
pub(super) fn schema() -> Value {
    let consent = object(
        "A host that may be delegated to this object.",
        &[
            ("fqdn", host("The host, one of the root's.")),
            ("parent", delegator("The object that may delegate it; absent: any.", false)),
        ],
        &["fqdn"],
    );
    let about = "Hosts that may be delegated to this object.";
    list_of(about, consent, Some(1), at_most(MAX_CONSENTS))
}

/// The schema of a host.
pub(super) fn host(about: &str) -> Value {
    let mut host = matching(about, HOST);
    set(&mut host, "minLength", json!(1));
    set(&mut host, "maxLength", json!(254));
    host
}

/// The schema of an InboundRoute by namespace and name; `prefix`: with the path that it delegates.
pub(super) fn delegator(about: &str, prefix: bool) -> Value {
    let mut namespace = matching("Namespace.", LABEL);
    set(&mut namespace, "minLength", json!(1));
    set(&mut namespace, "maxLength", json!(63));
    let mut fields = vec![("namespace", namespace), ("name", text_up_to("Name.", 253))];
    fields.extend(prefix.then(|| ("prefix", text("The path that it delegates."))));
    object(about, &fields, &["namespace", "name"])
}
