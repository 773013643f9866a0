//! Networks: those of the cluster are left out of every CIDR, because Cilium's CIDRs are about clients outside.

use policy_crds::quote;
use std::net::IpAddr;

/// A network with the networks that are left out of it.
pub(super) type ListedNetwork = (String, Vec<String>);

/// The networks of pods and nodes.
#[derive(Debug, Default)]
pub(super) struct ClusterNetworks(Vec<(String, ParsedNetwork)>);

/// The first bits of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ParsedNetwork {
    is_v4: bool,
    bits: u128,
    length: u32,
}

impl ClusterNetworks {
    /// Reads the networks.
    ///
    /// # Errors
    /// One is no network.
    pub(super) fn read(texts: &[String]) -> Result<Self, String> {
        let network = |text: &String| match parsed(text) {
            Some(network) if text.contains('/') => Ok((text.clone(), network)),
            Some(_) | None => Err(format!("the network {} is no CIDR", quote(text))),
        };
        texts.iter().map(network).collect::<Result<_, _>>().map(Self)
    }

    /// A CIDR without its exceptions and without the cluster; or why it cannot be said.
    pub(super) fn outside(
        &self,
        cidr: &str,
        mut except: Vec<String>,
    ) -> Result<ListedNetwork, String> {
        if self.0.is_empty() {
            return Err(
                "a CIDR is about clients outside of the cluster: name the networks of pods and nodes with --cluster-network"
                    .to_owned(),
            );
        }
        let Some(own) = parsed(cidr) else {
            return Err(format!("{} is no CIDR", quote(cidr)));
        };
        if self.0.iter().any(|(_, it)| it.contains(own)) {
            return Err(format!("{} lies in the networks of the cluster", quote(cidr)));
        }
        except.extend(self.0.iter().filter(|(_, it)| own.contains(*it)).map(|(it, _)| it.clone()));
        Ok((with_length(cidr)?, except))
    }
}

impl ParsedNetwork {
    fn contains(self, other: Self) -> bool {
        let behind = 128_u32.saturating_sub(self.length);
        let differing = (self.bits ^ other.bits).checked_shr(behind).unwrap_or(0);
        self.is_v4 == other.is_v4 && self.length <= other.length && differing == 0
    }
}

/// A network, or one address as the network of it alone.
///
/// # Errors
/// It is none.
pub(super) fn with_length(cidr: &str) -> Result<String, String> {
    let own = parsed(cidr).ok_or_else(|| format!("{} is no CIDR", quote(cidr)))?;
    Ok(match (cidr.contains('/'), own.is_v4) {
        (true, _) => cidr.to_owned(),
        (false, true) => format!("{cidr}/32"),
        (false, false) => format!("{cidr}/128"),
    })
}

/// A network, or one address.
fn parsed(text: &str) -> Option<ParsedNetwork> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let (is_v4, bits, most) = match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(address) => (true, u128::from(address.to_bits()).checked_shl(96)?, 32),
        IpAddr::V6(address) => (false, address.to_bits(), 128),
    };
    let length = length.unwrap_or(most);
    (length <= most).then_some(ParsedNetwork { is_v4, bits, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_left_out_of_each_network() {
        let cluster = ["10.0.0.0/8".to_owned(), "fd00::/8".to_owned()];
        let cluster = ClusterNetworks::read(&cluster).unwrap();
        let outside = |cidr: &str| cluster.outside(cidr, Vec::new()).ok();
        let of = |cidr: &str, except: &[&str]| {
            Some((cidr.to_owned(), except.iter().map(|it| (*it).to_owned()).collect()))
        };
        assert_eq!(outside("0.0.0.0/0"), of("0.0.0.0/0", &["10.0.0.0/8"]));
        assert_eq!(outside("::/0"), of("::/0", &["fd00::/8"]));
        assert_eq!(outside("192.0.2.1"), of("192.0.2.1/32", &[]));
        assert_eq!(outside("10.0.0.0/8"), None);
        assert_eq!(outside("10.1.0.0/16"), None);
        assert_eq!(outside("192.0.2.0/33"), None);
        assert_eq!(ClusterNetworks::default().outside("192.0.2.0/24", Vec::new()).ok(), None);
        assert!(ClusterNetworks::read(&["10.0.0.1".to_owned()]).is_err());
    }
}
