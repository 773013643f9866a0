//! Differences between a container of the sidecar that a pod brings itself and the one that would be
//! injected. Everything has to be equal except what other webhooks and operators add to any container and
//! what can change neither the program nor whom it believes: resources, variables of others, and
//! credentials below `/var/run/secrets`.

use super::container::DERIVED_VARIABLES;
use super::element::{items, text};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Fields that may differ. The name is how the containers were found.
const FREE: [&str; 3] = ["name", "resizePolicy", "resources"];

/// Prefixes of variables that the sidecar or its init container reads. `LINKERD2_PROXY_` is how Linkerd's
/// proxies are configured, which the sidecar understands, too.
const READ: [&str; 3] = ["PORTCULLIS_", "LINKERD2_PROXY_", "_pod_"];

/// Prefixes of variables by which the dynamic loader, the C library, the runtime of the program, or
/// iptables, which the init container runs, load other code or behave otherwise.
const LOADERS: [&str; 7] = ["LD_", "GLIBC_", "MALLOC_", "RUST_", "TOKIO_", "XTABLES_", "IPTABLES_"];

/// Names of such variables.
const LOADER_NAMES: [&str; 7] =
    ["GCONV_PATH", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH", "NLSPATH", "PATH", "RES_OPTIONS"];

/// Returns the fields in which a container differs from the one that is injected.
pub(super) fn differing_fields<'a>(own: &'a Value, wanted: &'a Value) -> Vec<&'a str> {
    let keys = |value: &'a Value| value.as_object().into_iter().flatten().map(|(key, _)| &**key);
    let fields: BTreeSet<&str> = keys(own).chain(keys(wanted)).collect();
    let differs = |field: &&str| !FREE.contains(field) && !is_alike(field, own, wanted);
    fields.into_iter().filter(differs).collect()
}

fn is_alike(field: &str, own: &Value, wanted: &Value) -> bool {
    let absent = Value::Null;
    let of = |container: &'_ Value| container.get(field).unwrap_or(&absent).clone();
    match field {
        "env" => variables(own) == variables(wanted),
        "volumeMounts" => mounts(own) == mounts(wanted),
        // The admission plugin AlwaysPullImages writes it on every container.
        "imagePullPolicy" if of(own) == "Always" => true,
        _ => completed(field, of(own)) == completed(field, of(wanted)),
    }
}

/// Returns a field without what the API server adds to it, and without what is empty.
fn completed(field: &str, mut value: Value) -> Value {
    match field {
        "terminationMessagePath" => drop_default(&mut value, &json!("/dev/termination-log")),
        "ports" => {
            for port in value.as_array_mut().into_iter().flatten() {
                drop_field(port, "protocol", &json!("TCP"));
            }
        }
        "livenessProbe" | "readinessProbe" | "startupProbe" => {
            drop_field(&mut value, "successThreshold", &json!(1));
            if let Some(request) = value.get_mut("httpGet") {
                drop_field(request, "scheme", &json!("HTTP"));
            }
        }
        "securityContext" => drop_field(&mut value, "procMount", &json!("Default")),
        _ => {}
    }
    without_empty(value)
}

fn drop_default(value: &mut Value, default: &Value) {
    if value == default {
        *value = Value::Null;
    }
}

fn drop_field(value: &mut Value, name: &str, default: &Value) {
    if let Some(value) = value.as_object_mut()
        && value.get(name) == Some(default)
    {
        value.remove(name);
    }
}

/// Returns the value without empty fields, which mean the same as absent ones; nothing if it is empty.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().map(|(name, value)| (name, without_empty(value)));
            let kept: Map<String, Value> = kept.filter(|(_, value)| !value.is_null()).collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        Value::Array(list) if list.is_empty() => Value::Null,
        kept @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => kept,
    }
}

/// Returns the variables that count, in order: those that are read, unless they are derived from the pod's
/// other containers, and those of loaders.
fn variables(container: &Value) -> Vec<Value> {
    let counts = |name: &str| {
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let is_read = begins(&READ) && !DERIVED_VARIABLES.contains(&name);
        is_read || begins(&LOADERS) || LOADER_NAMES.contains(&name)
    };
    let of = |variable: &Value| {
        let name = text(variable, "name").filter(|name| counts(name))?;
        let value = variable.get("value");
        let value = value.or_else(|| variable.pointer("/valueFrom/fieldRef/fieldPath"));
        Some(json!([name, value]))
    };
    items(container, "env").iter().filter_map(of).collect()
}

/// Returns the mounts, sorted by path, without credentials of others that hide nothing: the API
/// server mounts the service account's token into every container, and cloud providers theirs
/// beside it.
fn mounts(container: &Value) -> Vec<Value> {
    const SECRETS: &str = "/var/run/secrets/";
    let foreign = |mount: &&Value| {
        let path = text(mount, "mountPath").unwrap_or_default().trim_end_matches('/');
        let below = path.strip_prefix(SECRETS).unwrap_or_default();
        let plain = below.split('/').all(|part| !["", ".", ".."].contains(&part));
        plain && below.split('/').next() != Some("portcullis")
    };
    let kept = items(container, "volumeMounts").iter().filter(|mount| !foreign(mount));
    let parts = |mount: &Value| {
        let read_only = mount.get("readOnly").and_then(Value::as_bool).unwrap_or(false);
        let mut mount = mount.clone();
        if let Some(mount) = mount.as_object_mut() {
            mount.insert("readOnly".to_owned(), read_only.into());
        }
        without_empty(mount)
    };
    let mut all: Vec<Value> = kept.map(parts).collect();
    all.sort_by_key(Value::to_string);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An injected container as it is written, and as the API server stores it.
    fn stored() -> (Value, Value) {
        let wanted = json!({
            "name": "portcullis-proxy", "image": "proxy:1", "imagePullPolicy": "IfNotPresent",
            "args": ["run"], "ports": [{"name": "proxy-inbound", "containerPort": 4143}],
            "env": [{"name": "PORTCULLIS_LISTEN", "value": "[::]:4143"}],
            "livenessProbe": {"httpGet": {"path": "/live", "port": 4191}, "periodSeconds": 10},
            "securityContext": {"runAsUser": 2102, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [
                {"name": "t", "mountPath": "/var/run/secrets/portcullis", "readOnly": true}
            ],
        });
        let mut stored = wanted.clone();
        stored["terminationMessagePath"] = json!("/dev/termination-log");
        stored["ports"][0]["protocol"] = json!("TCP");
        stored["livenessProbe"]["successThreshold"] = json!(1);
        stored["livenessProbe"]["httpGet"]["scheme"] = json!("HTTP");
        stored["securityContext"]["procMount"] = json!("Default");
        stored["resources"] = json!({});
        (wanted, stored)
    }

    #[test]
    fn what_the_api_server_and_operators_add_is_no_difference() {
        let (wanted, mut own) = stored();
        assert_eq!(differing_fields(&own, &wanted), [""; 0]);
        own["resources"] = json!({"limits": {"cpu": "1"}});
        own["imagePullPolicy"] = json!("Always");
        for name in ["AWS_ROLE_ARN", "HTTPS_PROXY", "PORTCULLIS_APP_PORTS"] {
            let derived = name.starts_with("PORT");
            let name = if derived { DERIVED_VARIABLES[0] } else { name };
            own["env"].as_array_mut().unwrap().push(json!({"name": name, "value": "x"}));
        }
        let token = "/var/run/secrets/eks.amazonaws.com/serviceaccount";
        let mount = json!({"name": "aws", "mountPath": token, "mountPropagation": "None"});
        own["volumeMounts"].as_array_mut().unwrap().push(mount);
        own["lifecycle"] = json!({});
        own["stdin"] = Value::Null;
        assert_eq!(differing_fields(&own, &wanted), [""; 0]);
    }

    #[test]
    fn everything_else_is_one() {
        let (wanted, own) = stored();
        let more = |field: &str, value: Value| {
            let mut own = own.clone();
            match (own.get_mut(field), value) {
                (Some(Value::Array(list)), value) => list.push(value),
                (Some(Value::Object(fields)), Value::Object(more)) => fields.extend(more),
                (_, value) => own[field] = value,
            }
            let differing = differing_fields(&own, &wanted);
            assert_eq!(differing, [field], "{own}");
        };
        let loaders = LOADER_NAMES.into_iter().chain([
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "GLIBC_TUNABLES",
            "XTABLES_LIBDIR",
            "LINKERD2_PROXY_LOG",
            "PORTCULLIS_POLICY_ADDR",
            "RUST_LOG",
        ]);
        for name in loaders {
            more("env", json!({"name": name, "value": "x"}));
        }
        more("env", json!({"name": "_pod_ns", "valueFrom": {"secretKeyRef": {"name": "a"}}}));
        more("volumeMounts", json!({"name": "mine", "mountPath": "/lib"}));
        for field in ["allowPrivilegeEscalation", "privileged", "runAsNonRoot"] {
            more("securityContext", json!({field: true}));
        }
        more("securityContext", json!({"procMount": "Unmasked"}));
        more("securityContext", json!({"capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]}}));
        more("lifecycle", json!({"postStart": {"exec": {"command": ["sh"]}}}));
        more("livenessProbe", json!({"exec": {"command": ["sh"]}}));
        more("readinessProbe", json!({"exec": {"command": ["sh"]}}));
        more("ports", json!({"containerPort": 1}));
        more("args", json!("--listen=[::]:1"));
        for field in ["command", "envFrom", "volumeDevices"] {
            more(field, json!(["x"]));
        }
        for field in ["image", "workingDir", "restartPolicy", "imagePullPolicy"] {
            more(field, json!("Never"));
        }
        for field in ["stdin", "tty", "of-next-year"] {
            more(field, json!(true));
        }
    }
}
