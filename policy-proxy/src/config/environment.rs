//! The environment variables that the proxy reads, and warnings about others.
//!
//! A `PORTCULLIS_` variable is a flag by another name, so that an unknown one is an error. A
//! `LINKERD2_PROXY_` variable may be meant for another proxy or version: unknown ones are logged as
//! warnings, and those without effect are listed once. docs/environment.md is generated from here.

use super::reader::ConfigError;
use crate::args::Cli;
use clap::CommandFactory;
use policy_core::suggest::nearest;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// Support of a Linkerd variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The variable is read.
    Honoured,
    /// The variable is accepted without effect, for this reason.
    Ignored(&'static str),
    /// The proxy does not start with it, for this reason.
    Refused(&'static str),
}

/// A note on the environment, logged by its severity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Variables without effect.
    Ignored(Vec<String>),
    /// An unknown variable.
    Unknown(String),
}

impl Note {
    /// Writes it to the log.
    pub fn log(&self) {
        match self {
            Self::Ignored(names) => {
                let names = names.join(", ");
                tracing::info!(names, "environment variables without effect");
            }
            Self::Unknown(words) => tracing::warn!("{words}"),
        }
    }
}

const OURS: &str = "PORTCULLIS_";
const LINKERDS: &str = "LINKERD2_PROXY_";

const NO_OUTBOUND: &str = "the outbound half has settings of its own: --outbound-…";
const NO_DESTINATIONS: &str = "destinations are asked of the policy controller";
const NO_PROFILES: &str = "service profiles are not looked up";
const NO_TRACES: &str = "no traces are exported";
const NO_TAP: &str = "there is no tap";
const NO_QUEUE: &str = "requests do not queue for the application";
const NO_POOL: &str = "upstream connections belong to one client's connection";
const BY_CONTROLLER: &str = "the controller reads the annotation, on the pod or else its namespace";
const BY_SERVER: &str = "policy says it, as by a Server; current Linkerd proxies ignore it as well";

/// Linkerd's variables without their prefix; a trailing `*` matches any rest.
pub const LINKERD: &[(&str, Support)] = &[
    ("ACCESS_LOG", Support::Honoured),
    ("ADMIN_LISTEN_ADDR", Support::Honoured),
    ("CONTROL_LISTEN_ADDR", Support::Ignored(NO_TAP)),
    ("CONTROL_STREAM_IDLE_TIMEOUT", Support::Honoured),
    ("CONTROL_STREAM_INITIAL_TIMEOUT", Support::Honoured),
    ("CONTROL_STREAM_LIFETIME", Support::Honoured),
    ("CORES", Support::Honoured),
    ("CORES_MAX", Support::Honoured),
    ("CORES_MAX_RATIO", Support::Ignored("workers are a number: --workers")),
    ("CORES_MIN", Support::Ignored("workers are a number: --workers")),
    ("DESTINATION_CONTEXT", Support::Ignored(NO_PROFILES)),
    ("DESTINATION_PROFILE_INITIAL_TIMEOUT", Support::Ignored(NO_PROFILES)),
    ("DESTINATION_PROFILE_NETWORKS", Support::Honoured),
    ("DESTINATION_PROFILE_SUFFIXES", Support::Ignored(NO_PROFILES)),
    ("DESTINATION_SVC_ADDR", Support::Ignored(NO_DESTINATIONS)),
    ("DESTINATION_SVC_NAME", Support::Ignored(NO_DESTINATIONS)),
    ("DNS_MAX_TTL", Support::Ignored("names are resolved for each attempt to connect")),
    ("DNS_MIN_TTL", Support::Ignored("names are resolved for each attempt to connect")),
    ("HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", Support::Honoured),
    ("HTTP2_INITIAL_STREAM_WINDOW_SIZE", Support::Honoured),
    ("IDENTITY_DIR", Support::Honoured),
    ("IDENTITY_DISABLED", Support::Refused("an identity is switched off by --identity=none alone")),
    ("IDENTITY_LOCAL_NAME", Support::Honoured),
    ("IDENTITY_MAX_REFRESH", Support::Honoured),
    ("IDENTITY_MIN_REFRESH", Support::Honoured),
    ("IDENTITY_SERVER_ID", Support::Honoured),
    ("IDENTITY_SERVER_NAME", Support::Honoured),
    (
        "IDENTITY_SPIRE_EXP_BACKOFF_JITTER",
        Support::Ignored("pauses are shortened by up to a half at random"),
    ),
    ("IDENTITY_SPIRE_EXP_BACKOFF_MAX", Support::Honoured),
    ("IDENTITY_SPIRE_EXP_BACKOFF_MIN", Support::Honoured),
    ("IDENTITY_SPIRE_SOCKET", Support::Honoured),
    ("IDENTITY_SPIRE_WORKLOAD_API_ADDRESS", Support::Honoured),
    ("IDENTITY_SVC_ADDR", Support::Honoured),
    ("IDENTITY_SVC_NAME", Support::Honoured),
    ("IDENTITY_TOKEN_FILE", Support::Honoured),
    ("IDENTITY_TRUST_ANCHORS", Support::Honoured),
    ("INBOUND_ACCEPT_KEEPALIVE", Support::Honoured),
    ("INBOUND_ACCEPT_USER_TIMEOUT", Support::Honoured),
    (
        "INBOUND_CONNECT_EXP_BACKOFF_*",
        Support::Ignored("a connection that fails is answered at once"),
    ),
    ("INBOUND_CONNECT_KEEPALIVE", Support::Honoured),
    ("INBOUND_CONNECT_TIMEOUT", Support::Honoured),
    ("INBOUND_CONNECT_USER_TIMEOUT", Support::Honoured),
    ("INBOUND_DEFAULT_POLICY", Support::Honoured),
    ("INBOUND_DETECT_TIMEOUT", Support::Honoured),
    ("INBOUND_DISCOVERY_IDLE_TIMEOUT", Support::Honoured),
    (
        "INBOUND_GATEWAY_SUFFIXES",
        Support::Ignored("there is no gateway; its connections are refused"),
    ),
    ("INBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT", Support::Ignored(NO_POOL)),
    ("INBOUND_HTTP_FAILFAST_TIMEOUT", Support::Ignored(NO_QUEUE)),
    ("INBOUND_HTTP_QUEUE_CAPACITY", Support::Ignored(NO_QUEUE)),
    ("INBOUND_IPS", Support::Honoured),
    ("INBOUND_LISTEN_ADDR", Support::Honoured),
    ("INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", Support::Ignored(NO_POOL)),
    ("INBOUND_MAX_IN_FLIGHT", Support::Honoured),
    (
        "INBOUND_METRICS_AUTHORITY_LABELS",
        Support::Ignored("an authority is never a label: clients choose its values"),
    ),
    ("INBOUND_PORTS", Support::Honoured),
    ("INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION", Support::Honoured),
    ("INBOUND_PORTS_REQUIRE_IDENTITY", Support::Ignored(BY_CONTROLLER)),
    ("INBOUND_PORTS_REQUIRE_TLS", Support::Ignored(BY_SERVER)),
    ("INBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_FRAME_SIZE", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS", Support::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE", Support::Honoured),
    ("INBOUND_TCP_LISTEN_BACKLOG", Support::Honoured),
    ("LOG", Support::Honoured),
    ("LOG_FORMAT", Support::Honoured),
    ("MAX_IDLE_CONNS_PER_ENDPOINT", Support::Ignored(NO_POOL)),
    ("METRICS_RETAIN_IDLE", Support::Honoured),
    ("OUTBOUND_*", Support::Ignored(NO_OUTBOUND)),
    ("OUTBOUND_CONNECT_TIMEOUT", Support::Honoured),
    ("OUTBOUND_LISTEN_ADDR", Support::Honoured),
    ("OUTBOUND_LISTEN_ADDRS", Support::Honoured),
    ("POLICY_CLUSTER_NETWORKS", Support::Honoured),
    ("POLICY_SVC_ADDR", Support::Honoured),
    ("POLICY_SVC_NAME", Support::Honoured),
    ("POLICY_WORKLOAD", Support::Honoured),
    ("SHUTDOWN_ENDPOINT_ENABLED", Support::Honoured),
    ("SHUTDOWN_GRACE_PERIOD", Support::Honoured),
    ("TAP_SVC_NAME", Support::Ignored(NO_TAP)),
    ("TRACE_*", Support::Ignored(NO_TRACES)),
];

/// Returns the support of a Linkerd variable, without its prefix; none if it is unknown.
pub fn support(name: &str) -> Option<Support> {
    let exact = LINKERD.iter().find(|(known, _)| *known == name);
    let group = |known: &str| known.strip_suffix('*').is_some_and(|stem| name.starts_with(stem));
    exact.or_else(|| LINKERD.iter().find(|(known, _)| group(known))).map(|(_, support)| *support)
}

/// Checks all environment variables.
///
/// # Errors
/// Those that are mistakes, each with the nearest known name or the reason.
pub fn review(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<Note>, ConfigError> {
    let own = own_variables();
    let (mut errors, mut ignored, mut notes) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (name, value) in variables {
        // Names that are not UTF-8 are never settings.
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(OURS) && !own.contains(name) && !is_service_link(name, &value) {
            let known: Vec<&str> = own.iter().map(String::as_str).collect();
            errors.push(format!("{name}: no such setting{}", suggestion(name, &known)));
        }
        let Some(short) = name.strip_prefix(LINKERDS) else { continue };
        match support(short) {
            Some(Support::Honoured) => {}
            Some(Support::Ignored(_)) => {
                ignored.insert(name.to_owned());
            }
            // Empty is unset here, as for Linkerd.
            Some(Support::Refused(_)) if value.is_empty() => {}
            Some(Support::Refused(reason)) => errors.push(format!("{name}: {reason}")),
            None => {
                let known = LINKERD.iter().map(|(known, _)| *known).collect::<Vec<_>>();
                let near = nearest(short, &known).map(|near| format!("{LINKERDS}{near}"));
                let near = near.map(|near| format!(", did you mean {near}?")).unwrap_or_default();
                notes.push(Note::Unknown(format!("{name}: unknown variable{near}")));
            }
        }
    }
    if !errors.is_empty() {
        errors.sort();
        return Err(ConfigError(errors));
    }
    if !ignored.is_empty() {
        notes.insert(0, Note::Ignored(ignored.into_iter().collect()));
    }
    Ok(notes)
}

/// The variables of all flags of all subcommands.
fn own_variables() -> BTreeSet<String> {
    let command = Cli::command();
    let arguments = command.get_subcommands().flat_map(clap::Command::get_arguments);
    let flags = arguments.filter_map(clap::Arg::get_long);
    flags.map(|flag| format!("{OURS}{}", flag.replace('-', "_").to_ascii_uppercase())).collect()
}

fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!(", did you mean {near}?"),
        None => "; every flag of `policy-proxy run` is one (docs/environment.md)".to_owned(),
    }
}

/// True for a service link: Kubernetes sets variables for the Services of a namespace in every
/// container. They begin with the Service's name, which may be `portcullis`, and must not count as
/// mistyped settings.
fn is_service_link(name: &str, value: &OsStr) -> bool {
    let Some(value) = value.to_str() else { return false };
    let rest = name.rsplit_once("_PORT_").map(|(_, rest)| rest);
    let protocol = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| {
        let number = rest.and_then(|rest| rest.split_once(protocol)).map(|(number, _)| number);
        number.is_some_and(|number| number.parse::<u16>().is_ok())
    });
    let url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let host = name.ends_with("_SERVICE_HOST");
    let number = name.contains("_SERVICE_PORT") && value.parse::<u16>().is_ok();
    host || number || (name.ends_with("_PORT") && url) || protocol
}

#[cfg(test)]
mod tests;
