//! What a Namespace says about ports that no Server owns, read live.
//!
//! A Namespace that cannot be read may have said anything: nobody is admitted by default, undeclared
//! ports are refused, and clients need an identity, where a workload does not say otherwise itself. So
//! may one that was not read yet, where every object has one.

use crate::config::Namespaces;
use crate::incremental::{Context, question};
use crate::question::namespace::{NamespaceDefaults, NamespaceSettings};
use policy_core::{DefaultPolicy, UndeclaredPorts};
use policy_crds::{Body, Kind, ObjectKey, annotation};
use std::sync::Arc;

/// A list of all ports.
const EVERY_PORT: &str = "1-65535";

question!(NamespaceDefaults, NamespaceSettings, settings);

/// The key of a Namespace.
pub(crate) fn key(namespace: &Arc<str>) -> ObjectKey {
    ObjectKey { kind: Kind::Namespace, namespace: "".into(), name: namespace.clone() }
}

fn settings(question: &NamespaceDefaults, cx: &mut Context<'_>) -> NamespaceSettings {
    let Some(object) = cx.object(&key(&question.0)) else {
        return match cx.config.namespaces {
            Namespaces::Optional => NamespaceSettings::default(),
            Namespaces::Required => closed(None),
        };
    };
    let annotations = &object.meta.annotations;
    let opaque = annotations.get(annotation::OPAQUE_PORTS).cloned();
    match &object.body {
        Body::Valid(_) => NamespaceSettings {
            default_policy: annotation::default_policy(annotations).value,
            undeclared: annotation::undeclared_ports(annotations).value,
            opaque,
            require_identity: annotations.get(annotation::REQUIRE_IDENTITY).cloned(),
        },
        Body::Invalid(_) => closed(opaque),
    }
}

/// The settings of a Namespace that may have said anything.
fn closed(opaque: Option<Arc<str>>) -> NamespaceSettings {
    NamespaceSettings {
        default_policy: Some(DefaultPolicy::Deny),
        undeclared: Some(UndeclaredPorts::Deny),
        opaque,
        require_identity: Some(EVERY_PORT.into()),
    }
}
