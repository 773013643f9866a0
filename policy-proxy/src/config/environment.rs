//! The variables of the environment that mean something to the proxy, and what it says of others.
//!
//! A `PORTCULLIS_` variable is a flag by another name, so that an unknown one is a mistake. A
//! `LINKERD2_PROXY_` variable may be meant for another proxy or version: unknown ones are warned about,
//! those that mean nothing here are named once. docs/environment.md is written from here.

use super::reader::ConfigError;
use crate::args::Cli;
use clap::CommandFactory;
use policy_core::suggest::nearest;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// What a variable of Linkerd's does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is read.
    Honoured,
    /// It is accepted and changes nothing, for this reason.
    Ignored(&'static str),
    /// The proxy does not start with it, for this reason.
    Refused(&'static str),
}

/// Something to say about the environment, by its importance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Variables that change nothing.
    Ignored(Vec<String>),
    /// A variable that nobody knows.
    Unknown(String),
}

impl Note {
    /// Writes it to the log.
    pub fn tell(&self) {
        match self {
            Self::Ignored(names) => {
                let names = names.join(", ");
                tracing::info!(names, "variables that are accepted and have no effect");
            }
            Self::Unknown(words) => tracing::warn!("{words}"),
        }
    }
}

const OURS: &str = "PORTCULLIS_";
const LINKERDS: &str = "LINKERD2_PROXY_";

const NO_OUTBOUND: &str = "there is no outbound side";
const NO_PROFILES: &str = "service profiles are not looked up";
const NO_TRACES: &str = "no traces are exported";
const NO_TAP: &str = "there is no tap";
const NO_QUEUE: &str = "requests do not queue for the application";
const NO_POOL: &str = "upstream connections belong to one client's connection";
const BY_CONTROLLER: &str = "the controller reads the annotation";

/// Linkerd's variables without their prefix; a name that ends in `*` stands for all that begin so.
pub const LINKERD: &[(&str, Effect)] = &[
    ("ACCESS_LOG", Effect::Honoured),
    ("ADMIN_LISTEN_ADDR", Effect::Honoured),
    ("CONTROL_LISTEN_ADDR", Effect::Ignored(NO_TAP)),
    ("CONTROL_STREAM_IDLE_TIMEOUT", Effect::Honoured),
    ("CONTROL_STREAM_INITIAL_TIMEOUT", Effect::Honoured),
    ("CONTROL_STREAM_LIFETIME", Effect::Honoured),
    ("CORES", Effect::Honoured),
    ("CORES_MAX", Effect::Honoured),
    ("CORES_MAX_RATIO", Effect::Ignored("workers are a number: --workers")),
    ("CORES_MIN", Effect::Ignored("workers are a number: --workers")),
    ("DESTINATION_CONTEXT", Effect::Ignored(NO_PROFILES)),
    ("DESTINATION_PROFILE_INITIAL_TIMEOUT", Effect::Ignored(NO_PROFILES)),
    ("DESTINATION_PROFILE_NETWORKS", Effect::Ignored(NO_PROFILES)),
    ("DESTINATION_PROFILE_SUFFIXES", Effect::Ignored(NO_PROFILES)),
    ("DESTINATION_SVC_ADDR", Effect::Ignored(NO_OUTBOUND)),
    ("DESTINATION_SVC_NAME", Effect::Ignored(NO_OUTBOUND)),
    ("DNS_MAX_TTL", Effect::Ignored("names are resolved for each attempt to connect")),
    ("DNS_MIN_TTL", Effect::Ignored("names are resolved for each attempt to connect")),
    ("HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", Effect::Honoured),
    ("HTTP2_INITIAL_STREAM_WINDOW_SIZE", Effect::Honoured),
    ("IDENTITY_DIR", Effect::Honoured),
    ("IDENTITY_DISABLED", Effect::Refused("an identity is switched off by --identity=none alone")),
    ("IDENTITY_LOCAL_NAME", Effect::Honoured),
    ("IDENTITY_MAX_REFRESH", Effect::Honoured),
    ("IDENTITY_MIN_REFRESH", Effect::Honoured),
    ("IDENTITY_SERVER_ID", Effect::Honoured),
    ("IDENTITY_SERVER_NAME", Effect::Honoured),
    (
        "IDENTITY_SPIRE_EXP_BACKOFF_JITTER",
        Effect::Ignored("pauses are shortened by up to a half at random"),
    ),
    ("IDENTITY_SPIRE_EXP_BACKOFF_MAX", Effect::Honoured),
    ("IDENTITY_SPIRE_EXP_BACKOFF_MIN", Effect::Honoured),
    ("IDENTITY_SPIRE_SOCKET", Effect::Honoured),
    ("IDENTITY_SPIRE_WORKLOAD_API_ADDRESS", Effect::Honoured),
    ("IDENTITY_SVC_ADDR", Effect::Honoured),
    ("IDENTITY_SVC_NAME", Effect::Honoured),
    ("IDENTITY_TOKEN_FILE", Effect::Honoured),
    ("IDENTITY_TRUST_ANCHORS", Effect::Honoured),
    ("INBOUND_ACCEPT_KEEPALIVE", Effect::Honoured),
    ("INBOUND_ACCEPT_USER_TIMEOUT", Effect::Honoured),
    (
        "INBOUND_CONNECT_EXP_BACKOFF_*",
        Effect::Ignored("a connection that fails is answered at once"),
    ),
    ("INBOUND_CONNECT_KEEPALIVE", Effect::Honoured),
    ("INBOUND_CONNECT_TIMEOUT", Effect::Honoured),
    ("INBOUND_CONNECT_USER_TIMEOUT", Effect::Honoured),
    ("INBOUND_DEFAULT_POLICY", Effect::Honoured),
    ("INBOUND_DETECT_TIMEOUT", Effect::Honoured),
    ("INBOUND_DISCOVERY_IDLE_TIMEOUT", Effect::Honoured),
    (
        "INBOUND_GATEWAY_SUFFIXES",
        Effect::Ignored("there is no gateway; its connections are refused"),
    ),
    ("INBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT", Effect::Ignored(NO_POOL)),
    ("INBOUND_HTTP_FAILFAST_TIMEOUT", Effect::Ignored(NO_QUEUE)),
    ("INBOUND_HTTP_QUEUE_CAPACITY", Effect::Ignored(NO_QUEUE)),
    ("INBOUND_IPS", Effect::Honoured),
    ("INBOUND_LISTEN_ADDR", Effect::Honoured),
    ("INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", Effect::Ignored(NO_POOL)),
    ("INBOUND_MAX_IN_FLIGHT", Effect::Honoured),
    (
        "INBOUND_METRICS_AUTHORITY_LABELS",
        Effect::Ignored("what a client calls us is never a label: it has no bound"),
    ),
    ("INBOUND_PORTS", Effect::Honoured),
    ("INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION", Effect::Honoured),
    ("INBOUND_PORTS_REQUIRE_IDENTITY", Effect::Ignored(BY_CONTROLLER)),
    ("INBOUND_PORTS_REQUIRE_TLS", Effect::Ignored(BY_CONTROLLER)),
    ("INBOUND_SERVER_HTTP2_ADAPTIVE_FLOW_CONTROL", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_INITIAL_CONNECTION_WINDOW_SIZE", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_INITIAL_STREAM_WINDOW_SIZE", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_CONCURRENT_STREAMS", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_FRAME_SIZE", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_HEADER_LIST_SIZE", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_PENDING_ACCEPT_RESET_STREAMS", Effect::Honoured),
    ("INBOUND_SERVER_HTTP2_MAX_SEND_BUF_SIZE", Effect::Honoured),
    ("INBOUND_TCP_LISTEN_BACKLOG", Effect::Honoured),
    ("LOG", Effect::Honoured),
    ("LOG_FORMAT", Effect::Honoured),
    ("MAX_IDLE_CONNS_PER_ENDPOINT", Effect::Ignored(NO_POOL)),
    ("METRICS_RETAIN_IDLE", Effect::Honoured),
    ("OUTBOUND_*", Effect::Ignored(NO_OUTBOUND)),
    ("POLICY_CLUSTER_NETWORKS", Effect::Honoured),
    ("POLICY_SVC_ADDR", Effect::Honoured),
    ("POLICY_SVC_NAME", Effect::Honoured),
    ("POLICY_WORKLOAD", Effect::Honoured),
    ("SHUTDOWN_ENDPOINT_ENABLED", Effect::Honoured),
    ("SHUTDOWN_GRACE_PERIOD", Effect::Honoured),
    ("TAP_SVC_NAME", Effect::Ignored(NO_TAP)),
    ("TRACE_*", Effect::Ignored(NO_TRACES)),
];

/// What a variable of Linkerd's, without its prefix, does here; none: nobody knows it.
pub fn effect(name: &str) -> Option<Effect> {
    let exact = LINKERD.iter().find(|(known, _)| *known == name);
    let group = |known: &str| known.strip_suffix('*').is_some_and(|stem| name.starts_with(stem));
    exact.or_else(|| LINKERD.iter().find(|(known, _)| group(known))).map(|(_, effect)| *effect)
}

/// Looks through all variables of the environment.
///
/// # Errors
/// Those that are mistakes, each with the nearest known name or the reason.
pub fn review(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<Note>, ConfigError> {
    let own = own_variables();
    let (mut errors, mut ignored, mut notes) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (name, value) in variables {
        // A name that is not text is none of ours.
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(OURS) && !own.contains(name) && !is_service_link(name, &value) {
            let known: Vec<&str> = own.iter().map(String::as_str).collect();
            errors.push(format!("{name}: no such setting{}", suggestion(name, &known)));
        }
        let Some(short) = name.strip_prefix(LINKERDS) else { continue };
        match effect(short) {
            Some(Effect::Honoured) => {}
            Some(Effect::Ignored(_)) => {
                ignored.insert(name.to_owned());
            }
            // Empty is unset here, as for Linkerd.
            Some(Effect::Refused(_)) if value.is_empty() => {}
            Some(Effect::Refused(reason)) => errors.push(format!("{name}: {reason}")),
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

/// The variable of every flag of every subcommand.
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

/// Kubernetes tells every container of the Services of its namespace by variables that begin with the
/// Service's name, and ours begin with `portcullis`. What it says by them is told from a setting whose
/// name was mistyped.
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
