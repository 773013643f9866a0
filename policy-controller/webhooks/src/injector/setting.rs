//! The settings of a sidecar: their names, what is allowed, and what holds where nobody says.

use super::ports::{Named, PortList};
use super::quantity::is_quantity;
use std::fmt;
use tracing_subscriber::EnvFilter;

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
    pub const ALL: [Self; 19] = [
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
        }
    }

    /// The setting of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }

    fn prefixes(self) -> Prefixes {
        match self {
            // An image of Linkerd's proxy would not understand what it is told.
            Self::ProxyImage | Self::ProxyVersion | Self::InitImage => Prefixes::Own,
            Self::DetectTimeout | Self::ProxyWorkers => Prefixes::Own,
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
    pub(super) fn of_this_pod(self, text: &str, named: &Named) -> String {
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
    pub(super) fn read(self, text: &str, named: &Named) -> Result<String, String> {
        match self {
            Self::ProxyImage | Self::InitImage => image(text),
            Self::ProxyVersion => version(text),
            Self::ImagePullPolicy => one_of(text, &["Always", "IfNotPresent", "Never"]),
            Self::ProxyLogLevel => match EnvFilter::builder().parse(text) {
                Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
                Ok(_) | Err(_) => {
                    Err(expected(text, "a log filter such as `info` or `warn,policy_proxy=debug`"))
                }
            },
            Self::ProxyLogFormat => one_of(text, &["plain", "json"]),
            Self::AccessLog => one_of(text, &["off", "apache", "json"]),
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
            Self::ProxyWorkers => match text.parse::<u8>() {
                Ok(1..=64) => Ok(text.to_owned()),
                Ok(_) | Err(_) => Err(expected(text, "a number from 1 to 64")),
            },
            Self::ProxyAdminShutdown => match text {
                "enabled" => Ok("true".to_owned()),
                "disabled" => Ok("false".to_owned()),
                text => Err(expected(text, "`enabled` or `disabled`")),
            },
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn expected(text: &str, what: &str) -> String {
    let shown: String = text.chars().take(64).collect();
    format!("`{shown}` is not allowed; expected {what}")
}

fn one_of(text: &str, known: &[&str]) -> Result<String, String> {
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
    Err(expected(text, &format!("one of {}", known.join(", "))))
}

/// The characters of registries and paths; which image it is, the kubelet finds out.
fn image(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte);
    let sound =
        text.bytes().all(allowed) && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let tagged = text.rsplit('/').next().is_some_and(|name| name.contains(':'));
    if !sound || text.len() > 255 {
        return Err(expected(text, "an image such as `ghcr.io/portcullis/proxy`"));
    }
    if tagged {
        return Err(expected(text, "an image without its version, which proxy-version states"));
    }
    Ok(text.to_owned())
}

/// A tag.
fn version(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    match text.len() <= 128 && begins && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => Err(expected(text, "the tag of an image")),
    }
}

/// As the proxy reads it: a whole number with a unit.
fn duration(text: &str) -> Result<String, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number = number.parse::<u32>();
    match number {
        Ok(_) if ["ms", "s", "m", "h", "d"].contains(&unit) => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(expected(text, "a whole number with ms, s, m, h or d")),
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
        let named = Named::new();
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
