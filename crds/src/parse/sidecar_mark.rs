//! Reads the mark of a pod's sidecar.

use super::name::is_dns_name;
use crate::annotation::{SIDECAR_MARK, field, strictly_numbered_ports};
use crate::object::FieldError;
use crate::ports::PortSet;
use crate::reader::{AllowedFields, Errors, Fields, JsonNode, quote, shared};
use crate::sidecar_mark::{Capture, OutboundMode, SidecarMark};
use serde_json::Value;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The longest identity: that of SPIFFE.
const MAX_IDENTITY: usize = 2048;

const OUTBOUND: [(&str, OutboundMode); 3] =
    [("none", OutboundMode::None), ("on", OutboundMode::On), ("mesh-only", OutboundMode::MeshOnly)];

const CAPTURE: [(&str, Capture); 2] =
    [("init-container", Capture::InitContainer), ("cni-plugin", Capture::Plugin)];

impl SidecarMark {
    /// Reads the value of the annotation. Unknown fields are ignored, because a controller reads the
    /// marks of injectors newer than itself.
    ///
    /// # Errors
    /// The first field that cannot be read.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let value: Value = serde_json::from_str(text).map_err(|error| FieldError {
            field: field(SIDECAR_MARK),
            message: format!("is not JSON: {error}"),
        })?;
        let errors = Errors::default();
        let mark = read(&JsonNode::new(&value, &field(SIDECAR_MARK), &errors));
        match (mark, errors.into_vec().into_iter().next()) {
            (Some(mark), None) => Ok(mark),
            (_, Some(error)) => Err(error),
            (None, None) => {
                Err(FieldError { field: field(SIDECAR_MARK), message: "cannot be read".to_owned() })
            }
        }
    }

    /// True unless it states the identity of another than this ServiceAccount, by how it begins. The
    /// engine, which knows the trust domains, compares the rest.
    pub fn is_of(&self, namespace: &str, account: &str) -> bool {
        let of_account = format!("{account}.{namespace}.serviceaccount.identity.");
        self.identity
            .as_deref()
            .is_none_or(|identity| is_dns_name(identity) && identity.starts_with(&of_account))
    }
}

fn read(node: &JsonNode<'_>) -> Option<SidecarMark> {
    let fields = node.fields(AllowedFields::Any)?;
    let port = fields.require("inboundPort")?.integer(1, 65535)?;
    Some(SidecarMark {
        version: shared(fields.require("version")?.text_up_to(128)?),
        inbound_port: u16::try_from(port).ok().and_then(NonZeroU16::new)?,
        skipped: skipped(&fields)?,
        identity: optional(&fields, "identity", MAX_IDENTITY, is_identity)?,
        server_name: optional(&fields, "serverName", 253, is_dns_name)?,
        outbound: fields.require("outbound")?.choice(&OUTBOUND)?,
        capture: fields.require("capture")?.choice(&CAPTURE)?,
    })
}

fn skipped(fields: &Fields<'_>) -> Option<PortSet> {
    let Some(node) = fields.get("skippedInboundPorts") else { return Some(PortSet::default()) };
    let read = strictly_numbered_ports(node.text()?);
    read.map_err(|message| node.error(message)).ok()
}

/// A text that may be absent. `None`: it is there and cannot be read.
fn optional(
    fields: &Fields<'_>,
    name: &str,
    max: usize,
    is_valid: impl Fn(&str) -> bool,
) -> Option<Option<Arc<str>>> {
    let Some(node) = fields.get(name) else { return Some(None) };
    let text = node.text_up_to(max)?;
    if !is_valid(text) {
        node.error(format!("{} is not a name", quote(text)));
        return None;
    }
    Some(Some(shared(text)))
}

/// True for names of hosts and for SPIFFE IDs: visible ASCII.
fn is_identity(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mark() -> SidecarMark {
        SidecarMark {
            version: "1.2.3".into(),
            inbound_port: NonZeroU16::new(4143).unwrap(),
            skipped: PortSet::of([25..=25, 8000..=8080]),
            identity: Some("web.shop.serviceaccount.identity.linkerd.cluster.local".into()),
            server_name: Some("web.shop.svc".into()),
            outbound: OutboundMode::MeshOnly,
            capture: Capture::Plugin,
        }
    }

    #[test]
    fn a_mark_is_read_back_as_it_was_written() {
        let least = SidecarMark {
            skipped: PortSet::default(),
            identity: None,
            server_name: None,
            outbound: OutboundMode::None,
            capture: Capture::InitContainer,
            ..mark()
        };
        for mark in [mark(), least] {
            assert_eq!(SidecarMark::parse(&mark.to_json()), Ok(mark.clone()), "{mark:?}");
        }
        assert_eq!(
            mark().to_json(),
            "{\"capture\":\"cni-plugin\",\
             \"identity\":\"web.shop.serviceaccount.identity.linkerd.cluster.local\",\
             \"inboundPort\":4143,\"outbound\":\"mesh-only\",\"serverName\":\"web.shop.svc\",\
             \"skippedInboundPorts\":\"25,8000-8080\",\"version\":\"1.2.3\"}"
        );
    }

    #[test]
    fn each_value_has_the_name_by_which_it_is_read() {
        for (name, outbound) in OUTBOUND {
            assert_eq!(outbound.as_str(), name);
        }
        for (name, capture) in CAPTURE {
            assert_eq!(capture.as_str(), name);
        }
    }

    /// The text with one field replaced.
    fn with(name: &str, value: Value) -> String {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(&mark().to_json()) else {
            panic!("no mapping")
        };
        fields.insert(name.to_owned(), value);
        Value::Object(fields).to_string()
    }

    #[test]
    fn the_field_that_cannot_be_read_is_named() {
        for (name, value, words) in [
            ("inboundPort", 0.into(), "a whole number from 1 to 65535"),
            ("inboundPort", Value::Null, "is required"),
            ("version", "".into(), "must not be empty"),
            ("version", Value::Null, "is required"),
            ("skippedInboundPorts", "25,smtp".into(), "`smtp` is no number"),
            ("skippedInboundPorts", "9-8".into(), "`9-8` is a range whose end is below"),
            ("skippedInboundPorts", 25.into(), "expected text"),
            ("identity", "web shop".into(), "`web shop` is not a name"),
            ("identity", "".into(), "must not be empty"),
            ("identity", "a".repeat(2049).into(), "is longer than 2048 bytes"),
            ("serverName", "Web_1".into(), "`Web_1` is not a name"),
            ("outbound", "yes".into(), "unknown value `yes`, expected one of `none`, `on`"),
            ("outbound", Value::Null, "is required"),
            ("capture", "ebpf".into(), "expected one of `init-container`, `cni-plugin`"),
            ("capture", Value::Null, "is required"),
        ] {
            let error = SidecarMark::parse(&with(name, value)).unwrap_err();
            assert_eq!(error.field, format!("{}.{name}", field(SIDECAR_MARK)));
            assert!(error.message.contains(words), "{words} in {}", error.message);
        }
        for (text, words) in [("", "is not JSON"), ("{", "is not JSON"), ("[]", "a mapping")] {
            let error = SidecarMark::parse(text).unwrap_err();
            assert_eq!(error.field, field(SIDECAR_MARK));
            assert!(error.message.contains(words), "{words} in {}", error.message);
        }
    }

    #[test]
    fn a_field_of_a_newer_injector_is_ignored() {
        assert_eq!(SidecarMark::parse(&with("protocol", "hbone".into())), Ok(mark()));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[\\[\\]{}\",:a-z0-9 -]{0,40}", any: String) {
            let _ = SidecarMark::parse(&text);
            let _ = SidecarMark::parse(&any);
        }

        #[test]
        fn what_is_read_is_written_alike(ports in prop::collection::vec((1_u16.., 0_u16..9), 0..4)) {
            let ranges = ports.iter().map(|(first, more)| *first..=first.saturating_add(*more));
            let mark = SidecarMark { skipped: PortSet::of(ranges), ..mark() };
            prop_assert_eq!(SidecarMark::parse(&mark.to_json()), Ok(mark));
        }
    }
}
