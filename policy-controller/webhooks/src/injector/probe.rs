//! tcpSocket probes. Behind a redirect the proxy's own listener would always accept, so they become
//! requests to the proxy's admin port, which connects to the application (docs/spec/decisions.md, *Redirected TCP probes*).

use super::element::{containers, containers_mut, text};
use super::ports::{PortList, resolve};
use super::sidecar::ADMIN_PORT;
use policy_crds::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PROBES: [&str; 3] = ["startupProbe", "livenessProbe", "readinessProbe"];

/// Fields of a probe whose port may be a name.
const ACTIONS: [&str; 2] = ["httpGet", "tcpSocket"];

/// Prefix of the path before the port to connect to.
const PATH: &str = "/probe/tcp/";

/// Rewrites every tcpSocket probe of a redirected port, and returns these ports.
pub(super) fn rewrite(pod: &mut Value, skipped: &PortList) -> BTreeSet<u16> {
    let mut ports = BTreeSet::new();
    for (_, container) in containers_mut(pod) {
        let whole = container.clone();
        for name in PROBES {
            let Some(probe) = container.get_mut(name) else { continue };
            if let Some(port) = rewritten(probe) {
                ports.insert(port);
            }
            let Some(wanted) = tcp(probe) else { continue };
            let Some(port) = resolve(wanted, &whole) else { continue };
            if skipped.contains(port) {
                continue;
            }
            if let Some(probe) = probe.as_object_mut() {
                probe.remove("tcpSocket");
                let get = json!({"path": format!("{PATH}{port}"), "port": ADMIN_PORT});
                probe.insert("httpGet".to_owned(), get);
            }
            ports.insert(port);
        }
    }
    ports
}

/// Remarks on probes of a port that their container does not have. The kubelet fails them, and they are not
/// rewritten.
pub(super) fn unresolved(pod: &Value) -> Vec<FieldError> {
    let mut found = Vec::new();
    for (place, container) in containers(pod) {
        for (name, action) in PROBES.iter().flat_map(|name| ACTIONS.map(|action| (name, action))) {
            let probe = container.get(name).and_then(|probe| probe.get(action));
            let Some(wanted) = probe.and_then(|probe| probe.get("port")) else { continue };
            if resolve(wanted, container).is_none() {
                let message =
                    format!("{wanted} is no port of this container, so that the probe fails");
                let field = format!("{place}.{name}.{action}.port");
                found.push(FieldError { field, message });
            }
        }
    }
    found
}

/// Makes tcpSocket probes again of the rewritten ones of a container.
pub(super) fn restore(container: &mut Value) {
    for name in PROBES {
        let Some(probe) = container.get_mut(name) else { continue };
        let Some(port) = rewritten(probe) else { continue };
        if let Some(probe) = probe.as_object_mut() {
            probe.remove("httpGet");
            probe.insert("tcpSocket".to_owned(), json!({"port": port}));
        }
    }
}

/// Returns the port of a tcpSocket probe of the pod itself.
fn tcp(probe: &Value) -> Option<&Value> {
    let socket = probe.get("tcpSocket").filter(|socket| socket.is_object())?;
    let own = text(socket, "host").is_none_or(str::is_empty);
    socket.get("port").filter(|_| own)
}

/// Returns the port of a probe that is already rewritten.
fn rewritten(probe: &Value) -> Option<u16> {
    let get = probe.get("httpGet")?;
    let ours = get.get("port").and_then(Value::as_u64) == Some(u64::from(ADMIN_PORT));
    let port = text(get, "path")?.strip_prefix(PATH)?;
    port.parse().ok().filter(|port| ours && *port > 0)
}
