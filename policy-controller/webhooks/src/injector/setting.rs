//! The settings of a sidecar: their names, allowed values and annotations.

use super::ports::{NamedPorts, PortList};
use super::quantity::is_quantity;
use super::value::{duration, expected, image, number, one_of, positive, switch, version};
use policy_core::{AccessLogs, DefaultPolicy};
use policy_crds::annotation;
use std::fmt;

/// The prefix of our annotations.
pub(super) const OWN: &str = "portcullis.dev/";
/// The prefix of Linkerd's annotations.
pub(super) const LINKERD: &str = "config.linkerd.io/";
/// Every prefix under which Linkerd's injector reads proxy settings.
pub(super) const LINKERDS: [&str; 3] =
    [LINKERD, "config.alpha.linkerd.io/", "config.beta.linkerd.io/"];

/// The value of `outbound` by which the pod's own connections go through the sidecar.
pub(super) const ENABLED: &str = "enabled";
/// The value of `outbound` by which the sidecar leaves them alone.
pub(super) const DISABLED: &str = "disabled";
/// The value of `outbound` by which the sidecar refuses plaintext within the cluster, too.
pub(super) const MESH_ONLY: &str = "mesh-only";

/// A setting. Its name follows the prefix of an annotation and is a key of `--injector-default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Image of the sidecar, without its version.
    ProxyImage,
    /// Version of both images.
    ProxyVersion,
    /// Image of the init container, without its version.
    InitImage,
    /// Pull policy of both images.
    ImagePullPolicy,
    /// Filter of log lines.
    ProxyLogLevel,
    /// Format of log lines.
    ProxyLogFormat,
    /// Format of the access log.
    AccessLog,
    /// CPU request.
    ProxyCpuRequest,
    /// CPU limit.
    ProxyCpuLimit,
    /// Memory request.
    ProxyMemoryRequest,
    /// Memory limit.
    ProxyMemoryLimit,
    /// Ephemeral storage request.
    ProxyEphemeralStorageRequest,
    /// Ephemeral storage limit.
    ProxyEphemeralStorageLimit,
    /// CPU request and limit of the init container.
    InitCpu,
    /// Memory request and limit of the init container.
    InitMemory,
    /// Ports that are not redirected.
    SkipInboundPorts,
    /// Whether the pod's own connections go through the sidecar.
    Outbound,
    /// Destination ports of the pod's own connections that are not redirected.
    SkipOutboundPorts,
    /// Ports without protocol detection.
    OpaquePorts,
    /// Timeout of protocol detection.
    DetectTimeout,
    /// Time for which the sidecar waits for open connections at shutdown.
    ShutdownGracePeriod,
    /// Number of worker threads of the sidecar.
    ProxyWorkers,
    /// Enables POST /shutdown from loopback.
    ProxyAdminShutdown,
    /// The decision on connections before the first policy is received.
    PendingPolicy,
    /// The default policy before the first policy is received, if `pending-policy` is `default`.
    PendingDefaultPolicy,
    /// Time for which a connection waits for the first policy.
    PendingTimeout,
    /// Age of a policy without contact to the controller after which its port refuses traffic.
    MaximumPolicyAge,
    /// Maximum number of open connections per port.
    MaxConnections,
    /// Maximum number of requests waiting for the application.
    MaxInFlight,
    /// Maximum size of a request head in bytes.
    MaxRequestHead,
    /// Maximum size of the head of an application's response in bytes.
    MaxResponseHead,
    /// Maximum size of the heads of all open requests in bytes.
    MaxOpenHeads,
    /// Maximum number of header fields of an HTTP/1 request.
    MaxHeaders,
    /// Maximum number of HTTP/2 streams of one client.
    Http2MaxStreams,
    /// Timeout of an HTTP/1 request head.
    RequestHeadTimeout,
    /// Timeout of a TLS handshake.
    HandshakeTimeout,
    /// Idle timeout of an HTTP connection.
    IdleTimeout,
    /// Idle timeout of any other connection.
    OpaqueIdleTimeout,
    /// Allows loopback clients to read and set the log filter.
    ProxyAdminLogLevel,
    /// What refusals tell meshed clients.
    RefusalDetail,
    /// The extent of the record of refusals and audited permits.
    Decisions,
}

/// The prefixes of a setting's annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefixes {
    /// Ours and Linkerd's, with the same meaning.
    Both,
    /// Ours: Linkerd's has another meaning or does not exist.
    Own,
    /// Linkerd's: the controller reads it too, because policy depends on it.
    Linkerd,
}

impl Setting {
    /// Every setting.
    pub const ALL: [Self; 41] = [
        Self::ProxyImage,
        Self::ProxyVersion,
        Self::InitImage,
        Self::ImagePullPolicy,
        Self::ProxyLogLevel,
        Self::ProxyLogFormat,
        Self::AccessLog,
        Self::ProxyCpuRequest,
        Self::ProxyCpuLimit,
        Self::ProxyMemoryRequest,
        Self::ProxyMemoryLimit,
        Self::ProxyEphemeralStorageRequest,
        Self::ProxyEphemeralStorageLimit,
        Self::InitCpu,
        Self::InitMemory,
        Self::SkipInboundPorts,
        Self::Outbound,
        Self::SkipOutboundPorts,
        Self::OpaquePorts,
        Self::DetectTimeout,
        Self::ShutdownGracePeriod,
        Self::ProxyWorkers,
        Self::ProxyAdminShutdown,
        Self::PendingPolicy,
        Self::PendingDefaultPolicy,
        Self::PendingTimeout,
        Self::MaximumPolicyAge,
        Self::MaxConnections,
        Self::MaxInFlight,
        Self::MaxRequestHead,
        Self::MaxResponseHead,
        Self::MaxOpenHeads,
        Self::MaxHeaders,
        Self::Http2MaxStreams,
        Self::RequestHeadTimeout,
        Self::HandshakeTimeout,
        Self::IdleTimeout,
        Self::OpaqueIdleTimeout,
        Self::ProxyAdminLogLevel,
        Self::RefusalDetail,
        Self::Decisions,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProxyImage => "proxy-image",
            Self::ProxyVersion => "proxy-version",
            Self::InitImage => "init-image",
            Self::ImagePullPolicy => "image-pull-policy",
            Self::ProxyLogLevel => "proxy-log-level",
            Self::ProxyLogFormat => "proxy-log-format",
            Self::AccessLog => "access-log",
            Self::ProxyCpuRequest => "proxy-cpu-request",
            Self::ProxyCpuLimit => "proxy-cpu-limit",
            Self::ProxyMemoryRequest => "proxy-memory-request",
            Self::ProxyMemoryLimit => "proxy-memory-limit",
            Self::ProxyEphemeralStorageRequest => "proxy-ephemeral-storage-request",
            Self::ProxyEphemeralStorageLimit => "proxy-ephemeral-storage-limit",
            Self::InitCpu => "init-cpu",
            Self::InitMemory => "init-memory",
            Self::SkipInboundPorts => "skip-inbound-ports",
            Self::Outbound => "outbound",
            Self::SkipOutboundPorts => "skip-outbound-ports",
            Self::OpaquePorts => "opaque-ports",
            Self::DetectTimeout => "detect-timeout",
            Self::ShutdownGracePeriod => "shutdown-grace-period",
            Self::ProxyWorkers => "proxy-workers",
            Self::ProxyAdminShutdown => "proxy-admin-shutdown",
            Self::PendingPolicy => "pending-policy",
            Self::PendingDefaultPolicy => "pending-default-policy",
            Self::PendingTimeout => "pending-timeout",
            Self::MaximumPolicyAge => "maximum-policy-age",
            Self::MaxConnections => "max-connections",
            Self::MaxInFlight => "max-in-flight",
            Self::MaxRequestHead => "max-request-head",
            Self::MaxResponseHead => "max-response-head",
            Self::MaxOpenHeads => "max-open-heads",
            Self::MaxHeaders => "max-headers",
            Self::Http2MaxStreams => "http2-max-streams",
            Self::RequestHeadTimeout => "request-head-timeout",
            Self::HandshakeTimeout => "handshake-timeout",
            Self::IdleTimeout => "idle-timeout",
            Self::OpaqueIdleTimeout => "opaque-idle-timeout",
            Self::ProxyAdminLogLevel => "proxy-admin-log-level",
            Self::RefusalDetail => "refusal-detail",
            Self::Decisions => "decisions",
        }
    }

    /// Returns the setting with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// Returns the variable of the sidecar's environment for it; `None` if it is not set by a
    /// variable.
    pub(super) fn variable(self) -> Option<&'static str> {
        Some(match self {
            Self::ProxyImage
            | Self::ProxyVersion
            | Self::InitImage
            | Self::ImagePullPolicy
            | Self::ProxyCpuRequest
            | Self::ProxyCpuLimit
            | Self::ProxyMemoryRequest
            | Self::ProxyMemoryLimit
            | Self::ProxyEphemeralStorageRequest
            | Self::ProxyEphemeralStorageLimit
            | Self::InitCpu
            | Self::InitMemory
            | Self::SkipInboundPorts
            // `outbound` makes its variables.
            | Self::Outbound
            | Self::SkipOutboundPorts => return None,
            Self::ProxyLogLevel => "PORTCULLIS_LOG",
            Self::ProxyLogFormat => "PORTCULLIS_LOG_FORMAT",
            Self::AccessLog => "PORTCULLIS_ACCESS_LOG",
            Self::OpaquePorts => "PORTCULLIS_OPAQUE_PORTS",
            Self::DetectTimeout => "PORTCULLIS_DETECT_TIMEOUT",
            Self::ShutdownGracePeriod => "PORTCULLIS_GRACE",
            Self::ProxyWorkers => "PORTCULLIS_WORKERS",
            Self::ProxyAdminShutdown => "PORTCULLIS_ADMIN_SHUTDOWN",
            Self::PendingPolicy => "PORTCULLIS_PENDING_POLICY",
            Self::PendingDefaultPolicy => "PORTCULLIS_DEFAULT_POLICY",
            Self::PendingTimeout => "PORTCULLIS_PENDING_TIMEOUT",
            Self::MaximumPolicyAge => "PORTCULLIS_MAXIMUM_POLICY_AGE",
            Self::MaxConnections => "PORTCULLIS_MAX_CONNECTIONS",
            Self::MaxInFlight => "PORTCULLIS_MAX_IN_FLIGHT",
            Self::MaxRequestHead => "PORTCULLIS_MAX_REQUEST_HEAD",
            Self::MaxResponseHead => "PORTCULLIS_MAX_RESPONSE_HEAD",
            Self::MaxOpenHeads => "PORTCULLIS_MAX_OPEN_HEADS",
            Self::MaxHeaders => "PORTCULLIS_MAX_HEADERS",
            Self::Http2MaxStreams => "PORTCULLIS_HTTP2_MAX_STREAMS",
            Self::RequestHeadTimeout => "PORTCULLIS_REQUEST_HEAD_TIMEOUT",
            Self::HandshakeTimeout => "PORTCULLIS_HANDSHAKE_TIMEOUT",
            Self::IdleTimeout => "PORTCULLIS_IDLE_TIMEOUT",
            Self::OpaqueIdleTimeout => "PORTCULLIS_OPAQUE_IDLE_TIMEOUT",
            Self::ProxyAdminLogLevel => "PORTCULLIS_ADMIN_LOG_LEVEL",
            Self::RefusalDetail => "PORTCULLIS_REFUSAL_DETAIL",
            Self::Decisions => "PORTCULLIS_DECISIONS",
        })
    }

    fn prefixes(self) -> Prefixes {
        match self {
            // An image of Linkerd's proxy would not understand our settings.
            Self::ProxyImage | Self::ProxyVersion | Self::InitImage => Prefixes::Own,
            Self::Outbound
            | Self::InitCpu
            | Self::InitMemory
            | Self::DetectTimeout
            | Self::ProxyWorkers
            | Self::PendingPolicy
            | Self::PendingDefaultPolicy
            | Self::PendingTimeout
            | Self::MaximumPolicyAge
            | Self::MaxConnections
            | Self::MaxInFlight
            | Self::MaxRequestHead
            | Self::MaxResponseHead
            | Self::MaxOpenHeads
            | Self::MaxHeaders
            | Self::Http2MaxStreams
            | Self::RequestHeadTimeout
            | Self::HandshakeTimeout
            | Self::IdleTimeout
            | Self::OpaqueIdleTimeout
            | Self::ProxyAdminLogLevel
            | Self::RefusalDetail
            | Self::Decisions => Prefixes::Own,
            Self::OpaquePorts => Prefixes::Linkerd,
            Self::ImagePullPolicy
            | Self::ProxyLogLevel
            | Self::ProxyLogFormat
            | Self::AccessLog
            | Self::ProxyCpuRequest
            | Self::ProxyCpuLimit
            | Self::ProxyMemoryRequest
            | Self::ProxyMemoryLimit
            | Self::ProxyEphemeralStorageRequest
            | Self::ProxyEphemeralStorageLimit
            | Self::SkipInboundPorts
            | Self::SkipOutboundPorts
            | Self::ShutdownGracePeriod
            | Self::ProxyAdminShutdown => Prefixes::Both,
        }
    }

    /// Returns the one value that keeps all protection; `None` if no value reduces it. Other values
    /// open a port or the sidecar's admin server, or decide before there is a policy.
    pub(super) fn harmless_value(self) -> Option<&'static str> {
        match self {
            Self::SkipInboundPorts | Self::SkipOutboundPorts => Some(""),
            // Any other value permits plaintext to where `mesh-only` refuses it.
            Self::Outbound => Some(MESH_ONLY),
            Self::PendingPolicy => Some("wait"),
            Self::PendingDefaultPolicy => Some("deny"),
            Self::ProxyAdminShutdown | Self::ProxyAdminLogLevel => Some("disabled"),
            Self::ProxyImage
            | Self::ProxyVersion
            | Self::InitImage
            | Self::ImagePullPolicy
            | Self::ProxyLogLevel
            | Self::ProxyLogFormat
            | Self::AccessLog
            | Self::ProxyCpuRequest
            | Self::ProxyCpuLimit
            | Self::ProxyMemoryRequest
            | Self::ProxyMemoryLimit
            | Self::ProxyEphemeralStorageRequest
            | Self::ProxyEphemeralStorageLimit
            | Self::InitCpu
            | Self::InitMemory
            | Self::OpaquePorts
            | Self::DetectTimeout
            | Self::ShutdownGracePeriod
            | Self::ProxyWorkers
            | Self::PendingTimeout
            | Self::MaximumPolicyAge
            | Self::MaxConnections
            | Self::MaxInFlight
            | Self::MaxRequestHead
            | Self::MaxResponseHead
            | Self::MaxOpenHeads
            | Self::MaxHeaders
            | Self::Http2MaxStreams
            | Self::RequestHeadTimeout
            | Self::HandshakeTimeout
            | Self::IdleTimeout
            | Self::OpaqueIdleTimeout
            | Self::RefusalDetail
            | Self::Decisions => None,
        }
    }

    /// Returns its annotations, ours first.
    pub fn annotations(self) -> Vec<String> {
        let (own, linkerd) = match self.prefixes() {
            Prefixes::Both => (true, true),
            Prefixes::Own => (true, false),
            Prefixes::Linkerd => (false, true),
        };
        let prefixes = [(OWN, own), (LINKERD, linkerd)];
        let wanted = prefixes.into_iter().filter(|(_, wanted)| *wanted);
        wanted.map(|(prefix, _)| format!("{prefix}{}", self.name())).collect()
    }

    /// Removes the port names that this pod lacks from a list of ports; other values stay as they
    /// are.
    pub(super) fn of_this_pod(self, text: &str, named: &NamedPorts) -> String {
        if ![Self::SkipInboundPorts, Self::OpaquePorts].contains(&self) {
            return text.to_owned();
        }
        let foreign = |item: &str| {
            item.bytes().any(|byte| byte.is_ascii_alphabetic()) && !named.contains_key(item)
        };
        let items = text.split(',').map(str::trim).filter(|item| !foreign(item));
        items.collect::<Vec<_>>().join(",")
    }

    /// Parses and normalizes a value; `named` has the pod's named ports.
    ///
    /// # Errors
    /// The problem and the allowed values.
    pub(super) fn read(self, text: &str, named: &NamedPorts) -> Result<String, String> {
        match self {
            Self::ProxyImage | Self::InitImage => image(text),
            Self::ProxyVersion => version(text),
            Self::ImagePullPolicy => one_of(text, &["Always", "IfNotPresent", "Never"]),
            Self::ProxyLogLevel if annotation::is_log_filter(text) => Ok(text.to_owned()),
            Self::ProxyLogLevel => {
                Err(expected(text, "a log filter such as `info` or `warn,policy_proxy=debug`"))
            }
            Self::ProxyLogFormat => one_of(text, &["plain", "json"]),
            Self::AccessLog => one_of(text, &AccessLogs::ALL.map(AccessLogs::as_str)),
            Self::ProxyCpuRequest
            | Self::ProxyCpuLimit
            | Self::ProxyMemoryRequest
            | Self::ProxyMemoryLimit
            | Self::ProxyEphemeralStorageRequest
            | Self::ProxyEphemeralStorageLimit
            | Self::InitCpu
            | Self::InitMemory => match is_quantity(text) {
                true => Ok(text.to_owned()),
                false => Err(expected(text, "a quantity such as `100m` or `64Mi`")),
            },
            Self::SkipInboundPorts | Self::OpaquePorts => {
                PortList::read(text, named).map(|list| list.text())
            }
            Self::SkipOutboundPorts => PortList::numbers(text).map(|list| list.text()),
            Self::Outbound => one_of(text, &[ENABLED, DISABLED, MESH_ONLY]),
            Self::DetectTimeout | Self::ShutdownGracePeriod => duration(text),
            Self::PendingTimeout | Self::MaximumPolicyAge | Self::OpaqueIdleTimeout => {
                duration(text)
            }
            Self::RequestHeadTimeout | Self::HandshakeTimeout | Self::IdleTimeout => positive(text),
            Self::MaxConnections | Self::MaxInFlight | Self::Http2MaxStreams => {
                number(text, 1..=u32::MAX)
            }
            Self::MaxHeaders => number(text, 1..=4096),
            Self::MaxRequestHead | Self::MaxResponseHead => number(text, 8192..=16_777_216),
            Self::MaxOpenHeads => number(text, 1_048_576..=1_073_741_824),
            Self::ProxyWorkers => number(text, 1..=64),
            Self::PendingPolicy => one_of(text, &["wait", "default"]),
            Self::PendingDefaultPolicy => {
                one_of(text, &DefaultPolicy::ALL.map(DefaultPolicy::as_str))
            }
            Self::ProxyAdminShutdown | Self::ProxyAdminLogLevel => switch(text),
            Self::RefusalDetail => one_of(text, &["reason", "status"]),
            Self::Decisions => one_of(text, &["off", "counts", "full"]),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_found_by_its_name_and_has_an_annotation() {
        for setting in Setting::ALL {
            assert_eq!(Setting::find(setting.name()), Some(setting));
            assert!(!setting.annotations().is_empty(), "{setting}");
        }
        assert_eq!(
            Setting::ProxyLogLevel.annotations(),
            ["portcullis.dev/proxy-log-level", "config.linkerd.io/proxy-log-level"]
        );
        assert_eq!(Setting::ProxyImage.annotations(), ["portcullis.dev/proxy-image"]);
        assert_eq!(Setting::OpaquePorts.annotations(), ["config.linkerd.io/opaque-ports"]);
    }

    #[test]
    fn values_that_mean_something_are_taken_as_they_are() {
        let named = NamedPorts::new();
        let read = |setting: Setting, text: &str| setting.read(text, &named);
        for (setting, text) in [
            (Setting::ProxyImage, "registry.local:5000/a/proxy"),
            (Setting::ProxyVersion, "v1.2.3-rc.1"),
            (Setting::ImagePullPolicy, "Never"),
            (Setting::ProxyLogLevel, "warn,linkerd=info,trust_dns=error"),
            (Setting::ProxyLogFormat, "json"),
            (Setting::AccessLog, "apache"),
            (Setting::ProxyCpuLimit, "1.5"),
            (Setting::SkipInboundPorts, "25,8000-8010"),
            (Setting::SkipOutboundPorts, "25,8000-8010"),
            (Setting::Outbound, "mesh-only"),
            (Setting::DetectTimeout, "5s"),
            (Setting::ProxyWorkers, "4"),
            (Setting::MaximumPolicyAge, "1h"),
            (Setting::PendingPolicy, "default"),
            (Setting::PendingDefaultPolicy, "deny"),
            (Setting::MaxRequestHead, "8192"),
            (Setting::MaxResponseHead, "16777216"),
            (Setting::MaxOpenHeads, "1048576"),
            (Setting::MaxHeaders, "4096"),
            (Setting::OpaqueIdleTimeout, "0s"),
            (Setting::RefusalDetail, "status"),
            (Setting::Decisions, "counts"),
        ] {
            assert_eq!(read(setting, text), Ok(text.to_owned()), "{setting}");
        }
    }

    #[test]
    fn refusals_say_what_is_allowed() {
        let named = NamedPorts::new();
        let read = |setting: Setting, text: &str| setting.read(text, &named);
        for (setting, text, allowed) in [
            (
                Setting::ProxyImage,
                "a/proxy:1",
                "an image without its version, which proxy-version states",
            ),
            (Setting::ProxyImage, "a proxy", "an image such as `ghcr.io/portcullis/proxy`"),
            (Setting::ProxyVersion, "", "the tag of an image"),
            (Setting::ImagePullPolicy, "always", "one of `Always`, `IfNotPresent`, `Never`"),
            (
                Setting::ProxyLogLevel,
                "",
                "a log filter such as `info` or `warn,policy_proxy=debug`",
            ),
            (
                Setting::ProxyLogLevel,
                "a=b=c",
                "a log filter such as `info` or `warn,policy_proxy=debug`",
            ),
            (Setting::ProxyMemoryLimit, "64MB", "a quantity such as `100m` or `64Mi`"),
            (Setting::DetectTimeout, "1.5s", "a whole number with ms, s, m, h or d"),
            (Setting::ProxyWorkers, "0", "a number from 1 to 64"),
            (Setting::MaxConnections, "many", "a number from 1 to 4294967295"),
            (Setting::MaxRequestHead, "1", "a number from 8192 to 16777216"),
            (Setting::MaxResponseHead, "1", "a number from 8192 to 16777216"),
            (Setting::MaxOpenHeads, "8192", "a number from 1048576 to 1073741824"),
            (Setting::MaxHeaders, "0", "a number from 1 to 4096"),
            (Setting::MaxHeaders, "4097", "a number from 1 to 4096"),
            (Setting::IdleTimeout, "0s", "a whole number above 0 with ms, s, m, h or d"),
            (Setting::PendingPolicy, "open", "one of `wait`, `default`"),
            (Setting::RefusalDetail, "none", "one of `reason`, `status`"),
            (Setting::Decisions, "on", "one of `off`, `counts`, `full`"),
            (Setting::ProxyAdminShutdown, "true", "`enabled` or `disabled`"),
            (Setting::Outbound, "true", "one of `enabled`, `disabled`, `mesh-only`"),
        ] {
            assert_eq!(
                read(setting, text),
                Err(format!("`{text}` is not allowed; expected {allowed}")),
                "{setting}"
            );
        }
    }
}
