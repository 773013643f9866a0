//! Flags about Linkerd's controller, which is asked for what we do not serve.

use super::error::ArgsError;
use clap::Args;
use policy_tls::control::ControllerAddress;

/// Where `OutboundPolicies` goes, as written.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Beside Linkerd")]
pub struct OutboundArgs {
    /// Linkerd's policy controller, host:port. Its proxies ask one address for inbound and outbound
    /// policy; what they ask about outbound is forwarded there as it comes. Without this,
    /// OutboundPolicies is unimplemented here.
    #[arg(long, value_name = "ADDR")]
    pub linkerd_policy_addr: Option<String>,

    /// The identity that Linkerd's policy controller must prove; needed unless the address is on
    /// loopback. Usually linkerd-destination.linkerd.serviceaccount.identity.linkerd.<trust domain>.
    #[arg(long, value_name = "IDENTITY")]
    pub linkerd_policy_name: Option<String>,
}

impl OutboundArgs {
    /// Where it goes; absent: nowhere.
    ///
    /// # Errors
    /// [`ArgsError`] names the flag, its value and what is allowed.
    pub(super) fn settings(&self) -> Result<Option<ControllerAddress>, ArgsError> {
        let name = self.linkerd_policy_name.as_deref();
        match self.linkerd_policy_addr.as_deref().filter(|address| !address.is_empty()) {
            Some(address) => Ok(Some(ControllerAddress::parse(address, name)?)),
            None if name.is_some_and(|name| !name.is_empty()) => Err(ArgsError::NoOutbound),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(address: Option<&str>, name: Option<&str>) -> Result<Option<String>, String> {
        let args = OutboundArgs {
            linkerd_policy_addr: address.map(str::to_owned),
            linkerd_policy_name: name.map(str::to_owned),
        };
        match args.settings() {
            Ok(address) => Ok(address.map(|address| address.to_string())),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn linkerds_controller_is_reached_under_tls_or_over_loopback() {
        let (service, name) = ("linkerd-policy.linkerd.svc:8090", "linkerd-destination.example");
        assert_eq!(settings(None, None), Ok(None));
        assert_eq!(settings(Some(""), Some("")), Ok(None));
        assert_eq!(settings(Some("127.0.0.1:8090"), None), Ok(Some("127.0.0.1:8090".into())));
        assert_eq!(settings(Some(service), Some(name)), Ok(Some(service.into())));
        let refused = settings(Some(service), None).unwrap_err();
        assert!(refused.starts_with("--linkerd-policy-addr, --linkerd-policy-name: "), "{refused}");
        assert!(refused.contains(service), "{refused}");
        let refused = settings(None, Some(name)).unwrap_err();
        assert_eq!(
            refused,
            "--linkerd-policy-addr: must be given, because --linkerd-policy-name is"
        );
    }
}
