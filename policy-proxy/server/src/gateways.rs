//! The default gateways of the process's network namespace, as the kernel lists them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Maximum number of bytes read of a table. A process in the node's network may see a million
/// routes; default routes are among the first of a table.
const MAX_BYTES: u64 = 256 << 10;

/// Route flags of linux/route.h: the route is up, has a gateway, rejects packets (`RTF_UP`,
/// `RTF_GATEWAY` and `RTF_REJECT`).
const UP: u32 = 0x1;
const GATEWAY: u32 = 0x2;
const REJECT: u32 = 0x200;

/// Source of the default gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultGateways {
    /// The folder of the kernel's tables; `None` for no gateways.
    folder: Option<PathBuf>,
}

impl DefaultGateways {
    /// Returns the gateways of the process's network namespace.
    pub fn of_process() -> Self {
        Self::in_folder("/proc/self/net")
    }

    /// Returns the gateways of the files `route` and `ipv6_route` in a folder, in the format of
    /// Linux.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// Returns a source without gateways.
    pub fn none() -> Self {
        Self { folder: None }
    }

    /// Reads the gateways of all default routes. A missing or unreadable table has none; lines that
    /// are not routes are skipped.
    pub fn read(&self) -> BTreeSet<IpAddr> {
        let Some(folder) = &self.folder else { return BTreeSet::new() };
        let table = |name: &str| table(&folder.join(name)).unwrap_or_default();
        let (v4, v6) = (table("route"), table("ipv6_route"));
        let v4 = v4.lines().filter_map(gateway_v4).map(IpAddr::from);
        v4.chain(v6.lines().filter_map(gateway_v6).map(IpAddr::from)).collect()
    }
}

fn table(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses the gateway of an IPv4 default route. Columns of `/proc/net/route` (proc_pid_net(5)):
/// interface, destination, gateway, flags, references, uses, metric, mask. Addresses are in memory
/// order, printed as a native number.
fn gateway_v4(line: &str) -> Option<Ipv4Addr> {
    let mut columns = line.split_ascii_whitespace().skip(1);
    let (destination, gateway) = (number(columns.next()?)?, number(columns.next()?)?);
    let flags = short(columns.next()?)?;
    let mask = number(columns.nth(3)?)?;
    let gateway = Ipv4Addr::from(gateway.to_ne_bytes());
    (destination == 0 && mask == 0 && leads(flags) && !gateway.is_unspecified()).then_some(gateway)
}

/// Parses the gateway of an IPv6 default route. Columns of `/proc/net/ipv6_route`: destination and
/// its prefix length, source and its prefix length, gateway, metric, references, uses, flags. A
/// route for some sources only is no default route.
fn gateway_v6(line: &str) -> Option<Ipv6Addr> {
    let mut columns = line.split_ascii_whitespace();
    let (destination, length) = (address(columns.next()?)?, columns.next()?);
    let (source, from) = (address(columns.next()?)?, columns.next()?);
    let gateway = address(columns.next()?)?;
    let flags = number(columns.nth(3)?)?;
    let default = destination.is_unspecified() && source.is_unspecified();
    let default = default && length == "00" && from == "00";
    (default && leads(flags) && !gateway.is_unspecified()).then_some(gateway)
}

/// Returns true if a route with these flags goes through its gateway.
fn leads(flags: u32) -> bool {
    flags & (UP | GATEWAY | REJECT) == UP | GATEWAY
}

/// Parses a number of exactly eight hexadecimal digits.
fn number(text: &str) -> Option<u32> {
    (text.len() == 8).then(|| short(text)).flatten()
}

/// Parses a number of at most eight hexadecimal digits, without a sign.
fn short(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

/// Parses an address of exactly 32 hexadecimal digits.
fn address(text: &str) -> Option<Ipv6Addr> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(Ipv6Addr::from)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    /// Formats a line as the kernel of this machine would.
    fn v4(destination: [u8; 4], gateway: [u8; 4], flags: u32, mask: [u8; 4]) -> String {
        let [destination, gateway, mask] = [destination, gateway, mask].map(u32::from_ne_bytes);
        format!(
            "eth0\t{destination:08X}\t{gateway:08X}\t{flags:04X}\t0\t0\t0\t{mask:08X}\t0\t0\t0\n"
        )
    }

    fn v6(destination: &str, length: u8, source: u8, gateway: &str, flags: u32) -> String {
        let hex = |text: &str| u128::from(text.parse::<Ipv6Addr>().unwrap());
        format!(
            "{:032x} {length:02x} {:032x} {source:02x} {:032x} 00000400 00000001 00000000 {flags:08x}     eth0\n",
            hex(destination),
            0,
            hex(gateway),
        )
    }

    fn read(route: impl AsRef<[u8]>, ipv6_route: impl AsRef<[u8]>) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("route"), route).unwrap();
        std::fs::write(folder.path().join("ipv6_route"), ipv6_route).unwrap();
        let gateways = DefaultGateways::in_folder(folder.path()).read();
        gateways.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_gateways_of_default_routes_are_read_and_no_others() {
        let (any, bridge) = ([0; 4], [10, 42, 1, 1]);
        let route = [
            HEAD.to_owned(),
            v4(any, bridge, UP | GATEWAY, any),
            v4(any, [10, 42, 1, 2], UP, any),
            v4(any, [10, 42, 1, 3], GATEWAY, any),
            v4(any, [10, 42, 1, 4], UP | GATEWAY | REJECT, any),
            v4(any, any, UP | GATEWAY, any),
            // Half of all addresses, and a network.
            v4(any, [10, 42, 1, 5], UP | GATEWAY, [128, 0, 0, 0]),
            v4([10, 0, 0, 0], [10, 42, 1, 6], UP | GATEWAY, [255, 0, 0, 0]),
        ];
        let ipv6_route = [
            v6("::", 0, 0, "fd00::1", UP | GATEWAY),
            v6("::", 0, 0, "fd00::2", UP),
            v6("::", 0, 0, "fd00::3", UP | GATEWAY | REJECT),
            v6("::", 0, 0, "::", UP | GATEWAY),
            v6("::", 1, 0, "fd00::4", UP | GATEWAY),
            v6("::", 0, 64, "fd00::5", UP | GATEWAY),
            v6("2001:db8::", 32, 0, "fd00::6", UP | GATEWAY),
        ];
        assert_eq!(read(route.concat(), ipv6_route.concat()), ["10.42.1.1", "fd00::1"]);
    }

    #[test]
    fn a_network_without_tables_has_no_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let empty = BTreeSet::new();
        assert_eq!(DefaultGateways::none().read(), empty);
        assert_eq!(DefaultGateways::in_folder(folder.path()).read(), empty);
        std::fs::create_dir(folder.path().join("route")).unwrap();
        assert_eq!(DefaultGateways::in_folder(folder.path()).read(), empty, "a folder is no table");
    }

    #[test]
    fn lines_that_are_no_routes_are_passed_over() {
        let good = v4([0; 4], [10, 42, 1, 1], UP | GATEWAY, [0; 4]);
        let bad = [
            "\n",
            "eth0\n",
            "eth0\t00000000\t0102030\t0003\t0\t0\t0\t00000000\n",
            "eth0\t00000000\t010203040\t0003\t0\t0\t0\t00000000\n",
            "eth0\t00000000\t+1020304\t0003\t0\t0\t0\t00000000\n",
            "eth0\t00000000\t01020304\t+003\t0\t0\t0\t00000000\n",
            "eth0\t00000000\t01020304\t100000003\t0\t0\t0\t00000000\n",
            "eth0\t00000000\t01020304\t0003\t0\t0\t0\t0\n",
            "eth0\t00000000\t01020304\t0003\t0\t0\t0\n",
            "eth0\t0000000\u{0661}\t01020304\t0003\t0\t0\t0\t00000000\n",
        ];
        for bad in bad {
            assert_eq!(read(bad, bad), Vec::<String>::new(), "{bad:?}");
            let text = format!("{bad}{good}");
            assert_eq!(read(text, ""), ["10.42.1.1"], "{bad:?}");
        }
        let bytes = [b"\xff\xfe\0\n".as_slice(), good.as_bytes()].concat();
        assert_eq!(read(bytes, ""), ["10.42.1.1"]);
    }

    #[test]
    fn a_table_is_read_to_a_bound() {
        let other = v4([10, 0, 0, 0], [10, 42, 1, 2], UP | GATEWAY, [255, 0, 0, 0]);
        let many = other.repeat(10_000);
        let default = v4([0; 4], [10, 42, 1, 1], UP | GATEWAY, [0; 4]);
        assert_eq!(read(format!("{default}{many}"), ""), ["10.42.1.1"]);
        assert_eq!(read(format!("{many}{default}"), ""), Vec::<String>::new());
    }

    proptest! {
        /// Any bytes: no panic, and no gateway that is not in them.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = read(&bytes, &bytes);
        }

        #[test]
        fn a_changed_line_names_no_other_gateway_than_it_says(
            gateway in any::<[u8; 4]>(),
            at in 0_usize..60,
            byte in any::<u8>(),
        ) {
            let line = v4([0; 4], gateway, UP | GATEWAY, [0; 4]);
            let mut bytes = line.into_bytes();
            let at = at.min(bytes.len().saturating_sub(1));
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            // A byte may break the line in two.
            let third = |line: &str| Some(line.split_ascii_whitespace().nth(2)?.to_uppercase());
            let listed: Vec<String> = text.lines().filter_map(third).collect();
            for found in read(&bytes, "") {
                let found: Ipv4Addr = found.parse().unwrap();
                let number = u32::from_ne_bytes(found.octets());
                prop_assert!(listed.contains(&format!("{number:08X}")), "{found} in {text:?}");
            }
        }
    }
}
