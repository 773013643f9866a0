//! The settings of a sidecar: their names, what is allowed, and what holds where nobody says.

use super::ports::{NamedPorts, PortList};
use super::quantity::is_quantity;
use super::value::{duration, expected, image, number, one_of, positive, switch, version};
use policy_core::{AccessLogs, DefaultPolicy};
use policy_crds::annotation;
use std::fmt;

/// The prefix of our annotations.
pub(super) const OWN: &str = "portcullis.dev/";
/// The prefix of Linkerd's.
pub(super) const LINKERD: &str = "config.linkerd.io/";
/// Every prefix under which Linkerd's injector reads settings of a proxy.
pub(super) const LINKERDS: [&str; 3] =
    [LINKERD, "config.alpha.linkerd.io/", "config.beta.linkerd.io/"];

/// A setting. Its name follows the prefix of an annotation, and `--injector-default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Image of the sidecar, without its version.
    ProxyImage,
    /// Version of both images.
    ProxyVersion,
    /// Image of the init container, without its version.
    InitImage,
    /// When images are pulled.
    ImagePullPolicy,
    /// Filter of log lines.
    ProxyLogLevel,
    /// Format of log lines.
    ProxyLogFormat,
    /// Format of the access log.
    AccessLog,
    /// Processor time that the sidecar is given.
    ProxyCpuRequest,
    /// Most processor time.
    ProxyCpuLimit,
    /// Memory that the sidecar is given.
    ProxyMemoryRequest,
    /// Most memory.
    ProxyMemoryLimit,
    /// Disk that the sidecar is given.
    ProxyEphemeralStorageRequest,
    /// Most disk.
    ProxyEphemeralStorageLimit,
    /// Ports that are not redirected.
    SkipInboundPorts,
    /// Ports whose bytes are not looked at.
    OpaquePorts,
    /// How long a client may take to show its protocol.
    DetectTimeout,
    /// How long the sidecar waits for what is open when it ends.
    ShutdownGracePeriod,
    /// Threads of the sidecar.
    ProxyWorkers,
    /// Whether POST /shutdown works from loopback.
    ProxyAdminShutdown,
    /// What decides while no policy has been received.
    PendingPolicy,
    /// The policy of that time, where `pending-policy` is `default`.
    PendingDefaultPolicy,
    /// How long a connection waits for the first policy.
    PendingTimeout,
    /// How old a policy may get without the controller before its port refuses.
    MaximumPolicyAge,
    /// Open connections per port.
    MaxConnections,
    /// Requests that may wait for the application.
    MaxInFlight,
    /// Bytes of a request head.
    MaxRequestHead,
    /// Header fields of an HTTP/1 request.
    MaxHeaders,
    /// HTTP/2 streams of one client.
    Http2MaxStreams,
    /// How long an HTTP/1 request head may take.
    RequestHeadTimeout,
    /// How long a TLS handshake may take.
    HandshakeTimeout,
    /// How long an HTTP connection may stay open without a request.
    IdleTimeout,
    /// How long any other connection may stay open without a byte.
    OpaqueIdleTimeout,
    /// Whether loopback may read and set the log filter.
    ProxyAdminLogLevel,
}

/// Under which names a setting is annotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefixes {
    /// Ours and Linkerd's, which mean the same.
    Both,
    /// Ours: Linkerd's names something else, or does not exist.
    Own,
    /// Linkerd's: policy depends on it, and the controller reads it.
    Linkerd,
}

impl Setting {
    /// Every setting.
    pub const ALL: [Self; 33] = [
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
        Self::SkipInboundPorts,
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
        Self::MaxHeaders,
        Self::Http2MaxStreams,
        Self::RequestHeadTimeout,
        Self::HandshakeTimeout,
        Self::IdleTimeout,
        Self::OpaqueIdleTimeout,
        Self::ProxyAdminLogLevel,
    ];

    /// Its name.
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
            Self::SkipInboundPorts => "skip-inbound-ports",
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
            Self::MaxHeaders => "max-headers",
            Self::Http2MaxStreams => "http2-max-streams",
            Self::RequestHeadTimeout => "request-head-timeout",
            Self::HandshakeTimeout => "handshake-timeout",
            Self::IdleTimeout => "idle-timeout",
            Self::OpaqueIdleTimeout => "opaque-idle-timeout",
            Self::ProxyAdminLogLevel => "proxy-admin-log-level",
        }
    }

    /// The setting of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    /// The variable of the sidecar's environment that states it; absent: it is told in another way.
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
            | Self::SkipInboundPorts => return None,
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
            Self::MaxHeaders => "PORTCULLIS_MAX_HEADERS",
            Self::Http2MaxStreams => "PORTCULLIS_HTTP2_MAX_STREAMS",
            Self::RequestHeadTimeout => "PORTCULLIS_REQUEST_HEAD_TIMEOUT",
            Self::HandshakeTimeout => "PORTCULLIS_HANDSHAKE_TIMEOUT",
            Self::IdleTimeout => "PORTCULLIS_IDLE_TIMEOUT",
            Self::OpaqueIdleTimeout => "PORTCULLIS_OPAQUE_IDLE_TIMEOUT",
            Self::ProxyAdminLogLevel => "PORTCULLIS_ADMIN_LOG_LEVEL",
        })
    }

    fn prefixes(self) -> Prefixes {
        match self {
            // An image of Linkerd's proxy would not understand what it is told.
            Self::ProxyImage | Self::ProxyVersion | Self::InitImage => Prefixes::Own,
            Self::DetectTimeout
            | Self::ProxyWorkers
            | Self::PendingPolicy
            | Self::PendingDefaultPolicy
            | Self::PendingTimeout
            | Self::MaximumPolicyAge
            | Self::MaxConnections
            | Self::MaxInFlight
            | Self::MaxRequestHead
            | Self::MaxHeaders
            | Self::Http2MaxStreams
            | Self::RequestHeadTimeout
            | Self::HandshakeTimeout
            | Self::IdleTimeout
            | Self::OpaqueIdleTimeout
            | Self::ProxyAdminLogLevel => Prefixes::Own,
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
            | Self::ShutdownGracePeriod
            | Self::ProxyAdminShutdown => Prefixes::Both,
        }
    }

    /// The value with which it opens nothing, where others open a port, the sidecar itself, or what
    /// decides before there is a policy; absent: no value opens anything.
    pub(super) fn opens_unless(self) -> Option<&'static str> {
        match self {
            Self::SkipInboundPorts => Some(""),
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
            | Self::OpaquePorts
            | Self::DetectTimeout
            | Self::ShutdownGracePeriod
            | Self::ProxyWorkers
            | Self::PendingTimeout
            | Self::MaximumPolicyAge
            | Self::MaxConnections
            | Self::MaxInFlight
            | Self::MaxRequestHead
            | Self::MaxHeaders
            | Self::Http2MaxStreams
            | Self::RequestHeadTimeout
            | Self::HandshakeTimeout
            | Self::IdleTimeout
            | Self::OpaqueIdleTimeout => None,
        }
    }

    /// The annotations that state it, ours first.
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

    /// A list of ports without the names that no port of this pod has; anything else as it is.
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

    /// The value that `text` means; `named` knows the pod's ports.
    ///
    /// # Errors
    /// What is wrong and what is allowed.
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
            | Self::ProxyEphemeralStorageLimit => match is_quantity(text) {
                true => Ok(text.to_owned()),
                false => Err(expected(text, "a quantity such as `100m` or `64Mi`")),
            },
            Self::SkipInboundPorts | Self::OpaquePorts => {
                PortList::read(text, named).map(|list| list.text())
            }
            Self::DetectTimeout | Self::ShutdownGracePeriod => duration(text),
            Self::PendingTimeout | Self::MaximumPolicyAge | Self::OpaqueIdleTimeout => {
                duration(text)
            }
            Self::RequestHeadTimeout | Self::HandshakeTimeout | Self::IdleTimeout => positive(text),
            Self::MaxConnections | Self::MaxInFlight | Self::Http2MaxStreams => {
                number(text, 1..=u32::MAX)
            }
            Self::MaxHeaders => number(text, 1..=4096),
            Self::MaxRequestHead => number(text, 8192..=16_777_216),
            Self::ProxyWorkers => number(text, 1..=64),
            Self::PendingPolicy => one_of(text, &["wait", "default"]),
            Self::PendingDefaultPolicy => {
                one_of(text, &DefaultPolicy::ALL.map(DefaultPolicy::as_str))
            }
            Self::ProxyAdminShutdown | Self::ProxyAdminLogLevel => switch(text),
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
    fn values_are_checked_and_refusals_say_what_is_allowed() {
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
            (Setting::DetectTimeout, "5s"),
            (Setting::ProxyWorkers, "4"),
            (Setting::MaximumPolicyAge, "1h"),
            (Setting::PendingPolicy, "default"),
            (Setting::PendingDefaultPolicy, "deny"),
            (Setting::MaxRequestHead, "8192"),
            (Setting::MaxHeaders, "4096"),
            (Setting::OpaqueIdleTimeout, "0s"),
        ] {
            assert_eq!(read(setting, text), Ok(text.to_owned()), "{setting}");
        }
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
            (Setting::MaxHeaders, "0", "a number from 1 to 4096"),
            (Setting::MaxHeaders, "4097", "a number from 1 to 4096"),
            (Setting::IdleTimeout, "0s", "a whole number above 0 with ms, s, m, h or d"),
            (Setting::PendingPolicy, "open", "one of `wait`, `default`"),
            (Setting::ProxyAdminShutdown, "true", "`enabled` or `disabled`"),
        ] {
            assert_eq!(
                read(setting, text),
                Err(format!("`{text}` is not allowed; expected {allowed}")),
                "{setting}"
            );
        }
    }
}
