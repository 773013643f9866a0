//! Flags about Linkerd's controller, to which services that we do not implement are forwarded.

use super::error::ArgsError;
use super::value::{host_port, server_identity};
use clap::Args;
use policy_tls::control::ControllerAddress;

/// Destination of `OutboundPolicies`, as written.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Beside Linkerd")]
pub struct OutboundArgs {
    /// Linkerd's policy controller, host:port. Its proxies use one address for inbound and outbound
    /// policy; requests for outbound policy are forwarded there unchanged. Without this, they are
    /// answered here.
    #[arg(long, value_name = "ADDR", value_parser = host_port)]
    pub linkerd_policy_addr: Option<String>,

    /// The identity that Linkerd's policy controller must prove; needed unless the address is on
    /// loopback. Usually linkerd-destination.linkerd.serviceaccount.identity.linkerd.<trust domain>.
    #[arg(long, value_name = "IDENTITY", requires = "linkerd_policy_addr", value_parser = server_identity)]
    pub linkerd_policy_name: Option<String>,
}

impl OutboundArgs {
    /// Returns the destination; absent: none.
    ///
    /// # Errors
    /// [`ArgsError`] names the flag, its value and what is allowed.
    pub(super) fn settings(&self) -> Result<Option<ControllerAddress>, ArgsError> {
        let Some(address) = &self.linkerd_policy_addr else { return Ok(None) };
        let flags = ("linkerd-policy-addr", "linkerd-policy-name");
        ArgsError::server(flags, address, self.linkerd_policy_name.as_deref()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::parsed;

    fn settings(flags: &[&str]) -> Result<Option<String>, String> {
        let address = parsed::<OutboundArgs>(flags)?.settings();
        Ok(address.map_err(|error| error.to_string())?.map(|address| address.to_string()))
    }

    #[test]
    fn linkerds_controller_is_reached_under_tls_or_over_loopback() {
        let service = "linkerd-policy.linkerd.svc:8090";
        let address = &format!("--linkerd-policy-addr={service}");
        let name = "--linkerd-policy-name=linkerd-destination.example";
        assert_eq!(settings(&[]), Ok(None));
        let local = settings(&["--linkerd-policy-addr=127.0.0.1:8090"]);
        assert_eq!(local, Ok(Some("127.0.0.1:8090".into())));
        assert_eq!(settings(&[address, name]), Ok(Some(service.into())));
        let refused = settings(&[address]).unwrap_err();
        assert!(refused.starts_with("--linkerd-policy-addr, --linkerd-policy-name: "), "{refused}");
        assert!(refused.contains(service), "{refused}");
        let refused = settings(&[name]).unwrap_err();
        assert!(refused.contains("not provided:\n  --linkerd-policy-addr <ADDR>"), "{refused}");
        let refused = settings(&["--linkerd-policy-addr=a", name]).unwrap_err();
        assert!(refused.contains("'--linkerd-policy-addr <ADDR>': `a` is not an"), "{refused}");
    }
}
