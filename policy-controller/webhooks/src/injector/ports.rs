//! Ports of a pod: those that its containers declare, and the port lists of settings.

use super::element::{containers, text};
use super::sidecar::PORT_NAMES;
use policy_crds::FieldError;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// A list of ports and port ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortList(Vec<RangeInclusive<u16>>);

impl PartialOrd for PortList {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PortList {
    fn cmp(&self, other: &Self) -> Ordering {
        let bounds = |list: &Self| -> Vec<(u16, u16)> {
            list.0.iter().map(|range| (*range.start(), *range.end())).collect()
        };
        bounds(self).cmp(&bounds(other))
    }
}

/// Port numbers by name; several containers may use the same name.
pub(super) type NamedPorts = BTreeMap<String, BTreeSet<u16>>;

impl PortList {
    /// Reads `80,8000-8080,http`. Blanks around items and empty items are allowed, as by Linkerd.
    ///
    /// # Errors
    /// The invalid item and the reason.
    pub(super) fn read(list: &str, named: &NamedPorts) -> Result<Self, String> {
        let mut ranges = Vec::new();
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if item.bytes().any(|byte| byte.is_ascii_alphabetic()) {
                let numbers = named.get(item);
                let numbers = numbers.ok_or_else(|| {
                    format!("`{}` is not the name of a TCP port of this pod", shown(item))
                })?;
                ranges.extend(numbers.iter().map(|number| *number..=*number));
                continue;
            }
            let wrong =
                || format!("`{}` is neither a port from 1 to 65535 nor a range", shown(item));
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (first, last) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
            if first > last {
                return Err(format!(
                    "`{}` is a range whose end is below its beginning",
                    shown(item)
                ));
            }
            ranges.push(first..=last);
        }
        Ok(Self(ranges))
    }

    /// Reads `80,8000-8080`: ports of others, whose names the pod does not know.
    ///
    /// # Errors
    /// The invalid item and the reason.
    pub(super) fn numbers(list: &str) -> Result<Self, String> {
        let is_name = |item: &&str| item.bytes().any(|byte| byte.is_ascii_alphabetic());
        if let Some(name) = list.split(',').map(str::trim).find(is_name) {
            let name = shown(name);
            return Err(format!(
                "`{name}` is a name; ports of destinations are numbers, because a pod's port names are its \
                 own"
            ));
        }
        Self::read(list, &NamedPorts::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(&port))
    }

    /// Returns the list without some ports: a range that holds one becomes the ranges beside it.
    pub(super) fn without(&self, ports: &[u16]) -> Self {
        let mut ranges = self.0.clone();
        for port in ports {
            let split = |range: RangeInclusive<u16>| {
                if !range.contains(port) {
                    return [Some(range), None];
                }
                let before = port.checked_sub(1).map(|last| *range.start()..=last);
                let after = port.checked_add(1).map(|first| first..=*range.end());
                [before, after].map(|part| part.filter(|part| !part.is_empty()))
            };
            ranges = ranges.into_iter().flat_map(split).flatten().collect();
        }
        Self(ranges)
    }

    /// Formats the list for a flag: `80,8000-8080`.
    pub(super) fn text(&self) -> String {
        let items = self.0.iter().map(|range| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        });
        items.collect::<Vec<_>>().join(",")
    }
}

fn number(text: &str) -> Option<u16> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Formats port numbers for a flag.
pub(super) fn joined(ports: &BTreeSet<u16>) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the TCP ports that a container declares, with their names.
pub(super) fn of_container(container: &Value) -> Vec<(u16, Option<&str>)> {
    let all = declared(container).filter(|(_, entry)| is_tcp(entry));
    all.map(|(number, entry)| (number, text(entry, "name"))).collect()
}

/// Returns the ports that a pod declares for UDP or SCTP and not for TCP.
pub(super) fn without_tcp(pod: &Value) -> BTreeSet<u16> {
    let (mut tcp, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (_, container) in containers(pod) {
        for (number, entry) in declared(container) {
            let known = if is_tcp(entry) { &mut tcp } else { &mut others };
            known.insert(number);
        }
    }
    others.difference(&tcp).copied().collect()
}

/// The ports that a container declares, of every protocol.
fn declared(container: &Value) -> impl Iterator<Item = (u16, &Value)> {
    let list = container.get("ports").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|entry| {
        let number = u16::try_from(entry.get("containerPort")?.as_u64()?).ok()?;
        (number > 0).then_some((number, entry))
    })
}

fn is_tcp(port: &Value) -> bool {
    text(port, "protocol").unwrap_or("TCP").eq_ignore_ascii_case("tcp")
}

/// Returns the named TCP ports of a pod.
pub(super) fn named(pod: &Value) -> NamedPorts {
    let mut named = NamedPorts::new();
    for (_, container) in containers(pod) {
        for (number, name) in of_container(container) {
            let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
            named.entry(name.to_owned()).or_default().insert(number);
        }
    }
    named
}

/// Returns the declared ports of a pod's own containers that have the name of a port of the sidecar's:
/// whatever selects by the name selects the sidecar's port as well.
pub(super) fn shared_names(pod: &Value) -> Vec<FieldError> {
    let mut found = Vec::new();
    for (place, container) in containers(pod) {
        let list = container.get("ports").and_then(Value::as_array);
        for (at, port) in list.into_iter().flatten().enumerate() {
            let own = PORT_NAMES.iter().find(|(name, _)| text(port, "name") == Some(name));
            let Some((name, number)) = own else { continue };
            let message = format!(
                "`{name}` is the name of the sidecar's port {number} as well, so that a Server that names it \
                 decides about both; give this port another name"
            );
            found.push(FieldError { field: format!("{place}.ports[{at}].name"), message });
        }
    }
    found
}

/// Resolves the port of a probe: a number, a name in the same container (case-insensitive), or a
/// numeric string.
pub(super) fn resolve(port: &Value, container: &Value) -> Option<u16> {
    let name = match port {
        Value::Number(given) => return u16::try_from(given.as_u64()?).ok().filter(|n| *n > 0),
        Value::String(name) => name,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let ports = of_container(container);
    let same = |own: &str| own.eq_ignore_ascii_case(name);
    let found = ports.iter().find(|(_, own)| own.is_some_and(same));
    found.map(|(number, _)| *number).or_else(|| number(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_have_ports_ranges_and_names() {
        let pod = json!({"spec": {"containers": [
            {"ports": [{"containerPort": 80, "name": "http"}]},
            {"ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}]},
        ]}});
        let read = |list| PortList::read(list, &named(&pod)).map(|list| list.text());
        assert_eq!(read(" 25, 8000-8010,,http "), Ok("25,8000-8010,80,8080".to_owned()));
        assert_eq!(read(""), Ok(String::new()));
        for (list, reason) in [
            ("dns", "`dns` is not the name of a TCP port of this pod"),
            ("0", "`0` is neither a port from 1 to 65535 nor a range"),
            ("80,65536", "`65536` is neither a port from 1 to 65535 nor a range"),
            ("1-2-3", "`1-2-3` is neither a port from 1 to 65535 nor a range"),
            ("90-80", "`90-80` is a range whose end is below its beginning"),
        ] {
            assert_eq!(read(list), Err(reason.to_owned()), "{list}");
        }
        let numbers = |list| PortList::numbers(list).map(|list| list.text());
        assert_eq!(numbers(" 25, 8000-8010,"), Ok("25,8000-8010".to_owned()));
        let reason = "`http` is a name; ports of destinations are numbers, because a pod's port names \
                      are its own";
        assert_eq!(numbers("25,http"), Err(reason.to_owned()));
        let reason = "`0` is neither a port from 1 to 65535 nor a range";
        assert_eq!(numbers("0"), Err(reason.to_owned()));
    }

    #[test]
    fn a_port_taken_out_of_a_range_leaves_the_ports_beside_it() {
        let without = |list, ports: &[u16]| {
            PortList::read(list, &NamedPorts::new()).unwrap().without(ports).text()
        };
        assert_eq!(
            without("1-8887,8889-65535", &[4143, 4191, 4192]),
            "1-4142,4144-4190,4193-8887,8889-65535"
        );
        assert_eq!(without("1-2,65535", &[1, 65535]), "2");
        assert_eq!(without("4143,4143-4143,80", &[4143]), "80");
        assert_eq!(without("80", &[4143]), "80");
    }

    #[test]
    fn probes_name_ports_of_their_own_container() {
        let container = json!({"ports": [{"containerPort": 80, "name": "http"}]});
        for (port, number) in [
            (json!(81), Some(81)),
            (json!("HTTP"), Some(80)),
            (json!("82"), Some(82)),
            (json!("grpc"), None),
            (json!(0), None),
            (json!(65536), None),
            (json!(null), None),
        ] {
            assert_eq!(resolve(&port, &container), number, "{port}");
        }
    }
}
