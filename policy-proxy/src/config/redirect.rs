//! The settings of `policy-proxy redirect`.

use super::parse;
use super::reader::{ConfigError, Environment, Reader};
use crate::args::RedirectArgs;
use crate::redirect::{Mode, RedirectConfig, Task};
use std::collections::BTreeSet;
use std::num::{NonZeroU16, NonZeroU32};

/// Reads all settings of `redirect`.
///
/// # Errors
/// [`ConfigError`] names each setting that is invalid.
pub fn redirect(
    args: &RedirectArgs,
    environment: Environment<'_>,
) -> Result<RedirectConfig, ConfigError> {
    let mut reader = Reader::new(environment);
    let mut port = |flag, typed, default: NonZeroU16| {
        let given = reader.lookup(flag, typed, &[]);
        reader.read(given, default, |text| {
            text.parse().map_err(|_| "expected a port from 1 to 65535")
        })
    };
    let inbound = port("inbound-port", args.inbound_port.as_ref(), INBOUND);
    let admin = port("admin-port", args.admin_port.as_ref(), ADMIN);
    if inbound == admin {
        reader.fail(format!("--admin-port: `{admin}`: is the inbound port; expected another one"));
    }
    let given = reader.lookup("proxy-uid", args.proxy_uid.as_ref(), &[]);
    let user = reader.read(given, PROXY, |text| {
        // The last one stands for "no user" (setuid(2)).
        let user = text.parse().ok().filter(|user: &NonZeroU32| *user != NonZeroU32::MAX);
        user.ok_or("expected a user id from 1 to 4294967294; the sidecar never runs as root")
    });
    let given = reader.lookup("skip-inbound-ports", args.skip_inbound_ports.as_ref(), &[]);
    let skipped = reader.read(given, BTreeSet::new(), parse::ports);
    let given = reader.lookup("mode", args.mode.as_ref(), &[]);
    let mode = reader.read(given, Mode::Auto, |text| match text {
        "auto" => Ok(Mode::Auto),
        "nft" => Ok(Mode::Nft),
        "iptables" => Ok(Mode::Iptables),
        _ => Err("expected auto, nft or iptables"),
    });
    let task = match (args.undo, args.check) {
        (true, _) => Task::Undo,
        (false, true) => Task::Check,
        (false, false) => Task::Apply,
    };
    reader.finish(RedirectConfig { inbound, admin, user, skipped, mode, task })
}

const INBOUND: NonZeroU16 = NonZeroU16::MIN.saturating_add(4142);
const ADMIN: NonZeroU16 = NonZeroU16::MIN.saturating_add(4190);
const PROXY: NonZeroU32 = NonZeroU32::MIN.saturating_add(2101);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: RedirectArgs) -> Result<RedirectConfig, ConfigError> {
        redirect(&args, &|_| None)
    }

    fn typed(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn without_flags_the_usual_ports_are_redirected() {
        let port = |port| NonZeroU16::new(port).unwrap();
        let expected = RedirectConfig {
            inbound: port(4143),
            admin: port(4191),
            user: NonZeroU32::new(2102).unwrap(),
            skipped: BTreeSet::new(),
            mode: Mode::Auto,
            task: Task::Apply,
        };
        assert_eq!(read(RedirectArgs::default()), Ok(expected.clone()));
        let variables =
            |name: &str| (name == "PORTCULLIS_SKIP_INBOUND_PORTS").then(|| "25, 3306-3307".into());
        let skipped = [25, 3306, 3307].map(port).into();
        assert_eq!(
            redirect(&RedirectArgs::default(), &variables),
            Ok(RedirectConfig { skipped, ..expected })
        );
    }

    #[test]
    fn errors_name_the_setting_its_value_and_what_is_allowed() {
        let args = RedirectArgs {
            inbound_port: typed("0"),
            admin_port: typed("4143"),
            proxy_uid: typed("0"),
            skip_inbound_ports: typed("80-"),
            mode: typed("ipvs"),
            ..RedirectArgs::default()
        };
        assert_eq!(
            read(args).unwrap_err().0,
            [
                "--inbound-port: `0`: expected a port from 1 to 65535",
                "--admin-port: `4143`: is the inbound port; expected another one",
                "--proxy-uid: `0`: expected a user id from 1 to 4294967294; the sidecar never runs as root",
                "--skip-inbound-ports: `80-`: expected ports and ranges such as 80,443-445",
                "--mode: `ipvs`: expected auto, nft or iptables",
            ]
        );
        let no_user = RedirectArgs { proxy_uid: typed("4294967295"), ..RedirectArgs::default() };
        assert!(read(no_user).is_err());
    }
}
