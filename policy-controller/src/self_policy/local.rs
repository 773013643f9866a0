//! The local policies of our own ports.

use super::settings::{OwnPorts, SelfPolicySettings};
use policy_core::evaluator::BuildError;
use policy_core::{
    DefaultPolicy, Denied, Owner, Revision, ServerPolicy, UndeclaredPorts, WorkloadKey,
};
use policy_crds::{Body, Object};
use policy_engine::behaviour::Behaviours;
use policy_engine::compile_objects;
use policy_engine::config::{ControllerConfig, Namespaces};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

/// The policy that the controller carries.
const BUILT_IN: &str = include_str!("../../manifests/control-plane.yaml");

/// Error of loading a local policy.
#[derive(Debug, thiserror::Error)]
pub enum LocalPolicyError {
    /// The file cannot be read.
    #[error("--local-policy: cannot read `{file}`: {error}")]
    Read {
        /// The file.
        file: String,
        /// The cause.
        error: std::io::Error,
    },
    /// A document or object in it breaks a rule.
    #[error("--local-policy: `{file}`: {what}")]
    Invalid {
        /// The file.
        file: String,
        /// The problem.
        what: String,
    },
    /// No Server in it selects a port.
    #[error(
        "--local-policy: `{file}`: no valid Server selects port `{name}` ({port}) of pods with the \
         label portcullis.dev/component: {component}"
    )]
    Unowned {
        /// The label's value.
        component: &'static str,
        /// The file.
        file: String,
        /// The port's name.
        name: &'static str,
        /// The port.
        port: NonZeroU16,
    },
    /// A policy is too large to be enforced.
    #[error("--local-policy: {error}")]
    Build {
        /// The cause.
        error: BuildError,
    },
}

/// The compiled local policy.
#[derive(Debug)]
pub(super) struct LocalPolicy {
    policies: BTreeMap<NonZeroU16, Arc<ServerPolicy>>,
}

impl LocalPolicy {
    /// Compiles the local policy for our own pod: every port must be selected by a Server of it.
    pub(super) fn compile(
        settings: &SelfPolicySettings,
        ports: OwnPorts,
        config: &ControllerConfig,
    ) -> Result<Self, LocalPolicyError> {
        let (file, text) = match &settings.local_policy {
            None => ("control-plane.yaml".to_owned(), BUILT_IN.to_owned()),
            Some(path) => {
                let file = path.display().to_string();
                let read = std::fs::read_to_string(path);
                let text =
                    read.map_err(|error| LocalPolicyError::Read { file: file.clone(), error })?;
                (file, text)
            }
        };
        let invalid = |what| LocalPolicyError::Invalid { file: file.clone(), what };
        let mut objects = read(&text, &settings.namespace).map_err(invalid)?;
        let named = named(ports);
        objects.push(own_pod(settings, &named).map_err(invalid)?);
        let component = settings.component;
        // Nothing that the flags grant to workloads is granted here.
        let config = ControllerConfig {
            default_policy: DefaultPolicy::Deny,
            probe_networks: Vec::new(),
            proxy_ports: BTreeSet::new(),
            localhost_authorization: false,
            as_linkerd: Behaviours::default(),
            undeclared_ports: UndeclaredPorts::Deny,
            namespaces: Namespaces::Optional,
            ..config.clone()
        };
        let compiled = compile_objects(objects, &config);
        let key = WorkloadKey::pod(&settings.namespace, component);
        let mut policies = BTreeMap::new();
        for (name, port) in named {
            let policy = compiled.port(&key, port).filter(|policy| is_owned(policy));
            let unowned =
                || LocalPolicyError::Unowned { component, file: file.clone(), name, port };
            policies.insert(port, policy.ok_or_else(unowned)?);
        }
        Ok(Self { policies })
    }

    pub(super) fn ports(&self) -> impl Iterator<Item = NonZeroU16> {
        self.policies.keys().copied()
    }

    pub(super) fn policy(&self, port: NonZeroU16) -> Option<&Arc<ServerPolicy>> {
        self.policies.get(&port)
    }

    pub(super) fn revision(&self) -> Revision {
        Revision { epoch: "local".into(), content: 0, versions: BTreeMap::new() }
    }
}

fn is_owned(policy: &ServerPolicy) -> bool {
    matches!(policy.owner, Owner::Server(_)) && policy.deny != Some(Denied::ServerInvalid)
}

fn named(ports: OwnPorts) -> Vec<(&'static str, NonZeroU16)> {
    let OwnPorts { grpc, admission, admin } = ports;
    let admission = admission.map(|port| ("admission", port));
    [Some(("grpc", grpc)), admission, Some(("admin", admin))].into_iter().flatten().collect()
}

/// The objects of a text, those without a namespace in `namespace`. None may be invalid: a mistake in
/// this file is found when the controller starts.
fn read(text: &str, namespace: &str) -> Result<Vec<Object>, String> {
    let mut objects = Vec::new();
    for document in policy_crds::document::read(text) {
        let line = document.location.line;
        let failed = |what: &dyn std::fmt::Display| format!("document at line {line}: {what}");
        let value = document.value.map_err(|error| failed(&error))?;
        if value.is_null() {
            continue;
        }
        for part in policy_crds::parts(&value) {
            let mut value = part.value.into_owned();
            let meta = value.get_mut("metadata").and_then(Value::as_object_mut);
            if let Some(meta) = meta {
                meta.entry("namespace").or_insert_with(|| json!(namespace));
            }
            objects.push(parsed(&value).map_err(|what| failed(&what))?);
        }
    }
    Ok(objects)
}

fn parsed(value: &Value) -> Result<Object, String> {
    let object = policy_crds::parse(value).map_err(|error| error.to_string())?;
    match &object.body {
        Body::Valid(_) => Ok(object),
        Body::Invalid(invalid) => {
            let errors: Vec<_> = invalid.errors.iter().map(ToString::to_string).collect();
            Err(format!("{}: {}", object.meta.key, errors.join("; ")))
        }
    }
}

/// Our own pod, with the fields that Servers select by.
fn own_pod(
    settings: &SelfPolicySettings,
    ports: &[(&'static str, NonZeroU16)],
) -> Result<Object, String> {
    let (namespace, name) = (&settings.namespace, settings.component);
    let ports: Vec<_> =
        ports.iter().map(|(name, port)| json!({"name": name, "containerPort": port})).collect();
    parsed(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"portcullis.dev/component": name},
        },
        "spec": {"serviceAccountName": name, "containers": [{"name": name, "ports": ports}]},
    }))
}
