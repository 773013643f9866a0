//! Addresses and blocks, in both directions.

use crate::error::{At, DecodeError, each, required};
use crate::linkerd::inbound::Network;
use crate::linkerd::net::{IPv6, IpAddress, IpNetwork, ip_address::Ip};
use crate::native::prefix;
use ipnet::IpNet;
use policy_core::network::{NetworkMatch, NetworkTerm};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn address(address: IpAddr) -> IpAddress {
    let ip = match address {
        IpAddr::V4(v4) => Ip::Ipv4(v4.to_bits()),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default();
            Ip::Ipv6(IPv6 { first: half(bits >> 64), last: half(bits) })
        }
    };
    IpAddress { ip: Some(ip) }
}

pub(super) fn read_address(address: &IpAddress) -> Result<IpAddr, DecodeError> {
    Ok(match address.ip.as_ref().ok_or_else(DecodeError::missing)? {
        Ip::Ipv4(bits) => Ipv4Addr::from_bits(*bits).into(),
        Ip::Ipv6(IPv6 { first, last }) => {
            Ipv6Addr::from_bits((u128::from(*first) << 64) | u128::from(*last)).into()
        }
    })
}

pub(super) fn net(net: &IpNet) -> IpNetwork {
    IpNetwork { ip: Some(address(net.addr())), prefix_len: u32::from(net.prefix_len()) }
}

fn read_net(net: &IpNetwork) -> Result<IpNet, DecodeError> {
    let address = required("ip", net.ip.as_ref(), read_address)?;
    prefix(address, net.prefix_len).at("prefix_len")
}

pub(super) fn read_network(network: &Network) -> Result<NetworkMatch, DecodeError> {
    Ok(NetworkMatch {
        term: NetworkTerm::Net(required("net", network.net.as_ref(), read_net)?),
        except: each("except", &network.except, read_net)?,
    })
}
