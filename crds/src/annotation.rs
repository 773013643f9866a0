//! Annotations that policy depends on. Each function returns the value in force and the errors: a
//! value that cannot be read never widens access, unless it is read as Linkerd does
//! ([`AnnotationReading`]).

pub use crate::annotation_reading::{AnnotationReading, DefaultPolicyNames};
use crate::field::join_key;
pub use crate::injected::{
    INIT_CONTAINER, PROXY_CONTAINER, PROXY_INJECTED, PROXY_LABEL, SERVICE_NAME, SIDECAR_MARK,
    SKIP_ARGUMENT, SKIPPED_PORTS,
};
use crate::object::FieldError;
pub use crate::ports::PortSet;
use crate::reader::{one_of, quote};
use policy_core::suggest::nearest;
use policy_core::{AccessLogs, DefaultPolicy, Logs, UndeclaredPorts};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Default policy, in Linkerd's spelling.
pub const DEFAULT_INBOUND_POLICY: &str = "config.linkerd.io/default-inbound-policy";
/// Every annotation that sets the default policy; they mean the same.
pub const DEFAULT_POLICY: [&str; 4] = [
    DEFAULT_INBOUND_POLICY,
    "portcullis.dev/default-allow",
    "polixy.linkerd.io/default-allow",
    "inbound.linkerd.io/default-allow",
];
/// Those without the names of Linkerd's first versions, which its controller no longer reads.
const CURRENT_DEFAULT_POLICY: [&str; 2] = [DEFAULT_POLICY[0], DEFAULT_POLICY[1]];
/// Ours alone.
const OWN_DEFAULT_POLICY: [&str; 1] = [DEFAULT_POLICY[1]];
/// Ports that are opaque where no Server owns them.
pub const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";
/// Ports whose clients must have an identity, where no Server owns them.
pub const REQUIRE_IDENTITY: &str = "config.linkerd.io/proxy-require-identity-inbound-ports";
/// Policy of ports that nothing declares.
pub const UNDECLARED_PORTS: &str = "portcullis.dev/undeclared-ports";
/// The port of the proxy's own `/ready` and `/metrics`.
pub const ADMIN_PORT: &str = "config.linkerd.io/admin-port";
/// The log filter of the workload's proxy. Both mean the same, and ours takes precedence over
/// Linkerd's; the same holds for [`ACCESS_LOG`].
pub const LOG_LEVEL: [&str; 2] =
    ["portcullis.dev/proxy-log-level", "config.linkerd.io/proxy-log-level"];
/// The access log of the workload's proxy.
pub const ACCESS_LOG: [&str; 2] = ["portcullis.dev/access-log", "config.linkerd.io/access-log"];
/// On a Server: the handling of ambiguous paths.
pub const PATH_NORMALIZATION: &str = "portcullis.dev/path-normalization";
/// On a Namespace: a new value ends its kept objects; on the control plane's, those of all namespaces.
pub const END_KEPT_OBJECTS: &str = "portcullis.dev/end-kept-objects";

/// On a Server: `disabled` if requests shall not carry headers that name the client. Both mean the
/// same.
pub const INFORMATIONAL_HEADERS: [&str; 2] =
    ["portcullis.dev/http-informational-headers", "polixy.linkerd.io/http-informational-headers"];

/// On a Server: the requests after which a connection to the application is used again.
pub const UPSTREAM_REUSE: &str = "portcullis.dev/upstream-reuse";

/// The annotations of a Server that policy depends on.
pub const OF_SERVERS: [&str; 4] =
    [PATH_NORMALIZATION, INFORMATIONAL_HEADERS[0], INFORMATIONAL_HEADERS[1], UPSTREAM_REUSE];
/// The annotations of a workload that policy, or what its proxy logs, depends on.
pub const OF_WORKLOADS: [&str; 12] = [
    DEFAULT_POLICY[0],
    DEFAULT_POLICY[1],
    DEFAULT_POLICY[2],
    DEFAULT_POLICY[3],
    UNDECLARED_PORTS,
    ADMIN_PORT,
    OPAQUE_PORTS,
    REQUIRE_IDENTITY,
    LOG_LEVEL[0],
    LOG_LEVEL[1],
    ACCESS_LOG[0],
    ACCESS_LOG[1],
];
/// The annotations of a namespace that policy depends on.
pub const OF_NAMESPACES: [&str; 7] = [
    DEFAULT_POLICY[0],
    DEFAULT_POLICY[1],
    DEFAULT_POLICY[2],
    DEFAULT_POLICY[3],
    UNDECLARED_PORTS,
    OPAQUE_PORTS,
    REQUIRE_IDENTITY,
];
/// The annotations of a route for outbound traffic, checked where a route is for both directions.
pub const OF_ROUTES: [&str; 7] = [
    "retry.linkerd.io/limit",
    "retry.linkerd.io/timeout",
    "retry.linkerd.io/http",
    "retry.linkerd.io/grpc",
    "timeout.linkerd.io/response",
    "timeout.linkerd.io/request",
    "timeout.linkerd.io/idle",
];

/// The annotations of policy that can admit what is refused without them, each with the value that
/// admits nothing. Messages never suggest one of them to an author who wrote another name and
/// another value.
pub const OPENING: [(&str, &str); 7] = [
    (DEFAULT_POLICY[0], "deny"),
    (DEFAULT_POLICY[1], "deny"),
    (DEFAULT_POLICY[2], "deny"),
    (DEFAULT_POLICY[3], "deny"),
    (UNDECLARED_PORTS, "deny"),
    (ADMIN_PORT, ""),
    (PATH_NORMALIZATION, "canonical"),
];

/// Annotations as metadata holds them.
pub type Annotations = BTreeMap<Arc<str>, Arc<str>>;

/// The numbers of a port name in a list of ports, or why the item cannot be read.
pub type PortsByName<'a> = dyn Fn(&str) -> Result<Vec<NonZeroU16>, &'static str> + 'a;

/// The value of an annotation, and its errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Reading<T> {
    /// The value in force, with or without errors.
    pub value: T,
    /// Everything that is wrong; the fields begin with `metadata.annotations`.
    pub errors: Vec<FieldError>,
}

/// The default policy that an object states; `None` if it states none.
///
/// If several annotations have different values, the policy in force admits only clients that all
/// of them admit. A value that names no policy denies, unless it is ignored.
pub fn default_policy(
    annotations: &Annotations,
    reading: AnnotationReading,
) -> Reading<Option<DefaultPolicy>> {
    let (consequence, unreadable) = match reading.ignores_unknown {
        true => (AS_NOT_THERE, None),
        false => ("denies until it is corrected", Some(DefaultPolicy::Deny)),
    };
    let mut errors = Vec::new();
    let mut met: Option<DefaultPolicy> = None;
    let names: &[&str] = match reading.default_policy {
        DefaultPolicyNames::All => &DEFAULT_POLICY,
        DefaultPolicyNames::Current => &CURRENT_DEFAULT_POLICY,
        DefaultPolicyNames::Own => &OWN_DEFAULT_POLICY,
    };
    for name in names {
        let Some(text) = annotations.get(*name) else { continue };
        let policy = DefaultPolicy::parse(text).or_else(|| {
            let known = DefaultPolicy::ALL.map(DefaultPolicy::as_str);
            errors.push(unknown(name, text, &known, consequence));
            unreadable
        });
        let Some(policy) = policy else { continue };
        met = Some(met.map_or(policy, |other| meet(other, policy)));
    }
    Reading { value: met, errors }
}

/// The policy that admits whom both admit. `deny` is below all, `audit` is the widest.
pub fn meet(a: DefaultPolicy, b: DefaultPolicy) -> DefaultPolicy {
    use DefaultPolicy as P;
    match (a, b) {
        (P::Deny, _) | (_, P::Deny) => P::Deny,
        (P::Audit, other) | (other, P::Audit) => other,
        (a, b) => {
            let cluster = |p| matches!(p, P::ClusterAuthenticated | P::ClusterUnauthenticated);
            let authenticated = |p| matches!(p, P::AllAuthenticated | P::ClusterAuthenticated);
            match (cluster(a) || cluster(b), authenticated(a) || authenticated(b)) {
                (false, false) => P::AllUnauthenticated,
                (false, true) => P::AllAuthenticated,
                (true, false) => P::ClusterUnauthenticated,
                (true, true) => P::ClusterAuthenticated,
            }
        }
    }
}

/// The opaque ports. `named` gives the numbers of a named port of the workload.
///
/// An item that cannot be read is reported and the rest is kept: whether a port without a Server
/// is opaque changes how its bytes are read, never whom its default policy admits.
pub fn opaque_ports(annotations: &Annotations, named: &PortsByName<'_>) -> Reading<PortSet> {
    ports(annotations, OPAQUE_PORTS, named, "is left out")
}

/// The ports of a list of numbers and ranges, separated by commas. Items that cannot be read are
/// left out.
pub fn numbered_ports(list: &str) -> PortSet {
    let read = |item: &str| item_ranges(item.trim(), &|_| own_name(None)).unwrap_or_default();
    PortSet::of(list.split(',').flat_map(read))
}

/// The ports of such a list, all of whose items must be readable.
pub(crate) fn strictly_numbered_ports(list: &str) -> Result<PortSet, String> {
    let mut set = PortSet::default();
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let ranges = item_ranges(item, &|_| Err("is no number"));
        set.add(ranges.map_err(|reason| format!("{} {reason}", quote(item)))?);
    }
    Ok(set)
}

/// The ports whose clients must have an identity. `named` gives the numbers of a named port.
///
/// If an item cannot be read, every port requires an identity: the item may have meant any of
/// them, and leaving it out would admit clients without one.
pub fn require_identity_ports(
    annotations: &Annotations,
    named: &PortsByName<'_>,
) -> Reading<PortSet> {
    let consequence = "every port requires an identity until it is corrected";
    let reading = ports(annotations, REQUIRE_IDENTITY, named, consequence);
    if reading.errors.is_empty() {
        return reading;
    }
    Reading { value: PortSet::all(), errors: reading.errors }
}

/// The ports of a list as Linkerd's controller reads it: an item that is neither a number nor a
/// range voids the whole list.
pub fn ports_as_linkerd(annotations: &Annotations, name: &str) -> Reading<PortSet> {
    let Reading { value, errors } =
        ports(annotations, name, &|_| Err("is not a number"), "voids the whole list");
    let value = if errors.is_empty() { value } else { PortSet::default() };
    Reading { value, errors }
}

/// The numbers of a port name in a workload's own list; `known` are those of its ports.
///
/// # Errors
/// No port of the workload has the name.
pub fn own_name(known: Option<Vec<NonZeroU16>>) -> Result<Vec<NonZeroU16>, &'static str> {
    known.ok_or("is not the name of a port of this workload")
}

/// The numbers of a port name in a list that the workloads of a namespace share; `known` are those
/// of one workload. A name that only other workloads have means no port of this one.
///
/// # Errors
/// No port of the workload has the name, and it does not begin with a letter or is no port name at
/// all: `8o80` is more likely a mistyped number than the name of a port elsewhere, and reading it
/// as a name would leave out the port that was meant.
pub fn shared_name(
    name: &str,
    known: Option<Vec<NonZeroU16>>,
) -> Result<Vec<NonZeroU16>, &'static str> {
    let begins_with_a_letter = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    match known {
        Some(numbers) => Ok(numbers),
        None if begins_with_a_letter && is_port_name(name) => Ok(Vec::new()),
        None => {
            Err("is neither a port from 1 to 65535, nor a range of them, nor the name of a port")
        }
    }
}

/// The names in a list of ports that workloads share, including those that only some of them have.
/// Items that cannot be read are left out.
pub fn shared_names<'a>(annotations: &'a Annotations, list: &str) -> Vec<&'a str> {
    let is_name = |item: &&str| {
        item.bytes().any(|b| b.is_ascii_alphabetic()) && shared_name(item, None).is_ok()
    };
    items(annotations, list).filter(is_name).collect()
}

fn items<'a>(annotations: &'a Annotations, list: &str) -> impl Iterator<Item = &'a str> {
    let text = annotations.get(list).map(|text| &**text).unwrap_or_default();
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The syntax of port names in Kubernetes (IANA service names, RFC 6335 section 5.1).
pub(crate) fn is_port_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let hyphens = text.starts_with('-') || text.ends_with('-') || text.contains("--");
    let letters = text.bytes().any(|b| b.is_ascii_lowercase());
    text.len() <= 15 && text.bytes().all(allowed) && letters && !hyphens
}

/// The policy of undeclared ports; `None` if the object does not say. A value that cannot be read
/// denies.
pub fn undeclared_ports(annotations: &Annotations) -> Reading<Option<UndeclaredPorts>> {
    let Some(text) = annotations.get(UNDECLARED_PORTS) else {
        return Reading { value: None, errors: Vec::new() };
    };
    let (value, errors) = match &**text {
        "deny" => (UndeclaredPorts::Deny, Vec::new()),
        "default" => (UndeclaredPorts::Default, Vec::new()),
        text => {
            let consequence = "denies until it is corrected";
            let error = unknown(UNDECLARED_PORTS, text, &["deny", "default"], consequence);
            (UndeclaredPorts::Deny, vec![error])
        }
    };
    Reading { value: Some(value), errors }
}

/// The proxy's admin port; `None`, which means the default, if the object does not state one or it
/// cannot be read.
pub fn admin_port(annotations: &Annotations) -> Reading<Option<NonZeroU16>> {
    let Some(text) = annotations.get(ADMIN_PORT) else {
        return Reading { value: None, errors: Vec::new() };
    };
    match text.parse() {
        Ok(port) => Reading { value: Some(port), errors: Vec::new() },
        Err(_) => {
            let message = format!("{} is not a port from 1 to 65535", quote(text));
            let errors = vec![FieldError { field: field(ADMIN_PORT), message }];
            Reading { value: None, errors }
        }
    }
}

/// The log settings of the workload's proxy. A value that cannot be read counts as absent: the
/// proxy logs as it was started.
pub fn logs(annotations: &Annotations) -> Reading<Logs> {
    let mut errors = Vec::new();
    let given = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| Some((name, annotations.get(name)?)))
    };
    let filter = given(LOG_LEVEL).and_then(|(name, text)| {
        if is_log_filter(text) {
            return Some(text.clone());
        }
        let message = format!(
            "{} is no log filter such as `info` or `warn,policy_proxy=debug`, of at most \
             {MAX_FILTER} bytes; {AS_STARTED}",
            quote(text)
        );
        errors.push(FieldError { field: field(name), message });
        None
    });
    let access_log = given(ACCESS_LOG).and_then(|(name, text)| {
        let read = AccessLogs::parse(text);
        if read.is_none() {
            let known = AccessLogs::ALL.map(AccessLogs::as_str);
            errors.push(unknown(name, text, &known, AS_NOT_THERE));
        }
        read
    });
    Reading { value: Logs { filter, access_log }, errors }
}

/// True if the proxy can parse `text` as a log filter. Values of fields are not read as regular
/// expressions, whose automata can take any amount of memory. Only ASCII is accepted: the library
/// cuts the text at offsets that it counts after trimming white space, and panics where these lie
/// inside a character (tracing-subscriber 0.3.23).
pub fn is_log_filter(text: &str) -> bool {
    let parse = || EnvFilter::builder().with_regex(false).parse(text);
    let readable = text.is_ascii() && !text.trim().is_empty() && text.len() <= MAX_FILTER;
    readable && parse().is_ok()
}

/// The longest filter of log lines.
const MAX_FILTER: usize = 1024;
const AS_STARTED: &str = "the proxy logs as it was started until it is corrected";
const AS_NOT_THERE: &str = "is as if it were not there";

/// The path of an annotation in its object.
pub fn field(name: &str) -> String {
    join_key("metadata.annotations", name)
}

/// The error about a value that is none of those that are known.
pub(crate) fn unknown(name: &str, text: &str, known: &[&str], consequence: &str) -> FieldError {
    let expected = match nearest(text, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected {}", one_of(known)),
    };
    let message = format!("unknown value {}, which {consequence}; {expected}", quote(text));
    FieldError { field: field(name), message }
}

fn ports(
    annotations: &Annotations,
    name: &str,
    named: &PortsByName<'_>,
    consequence: &str,
) -> Reading<PortSet> {
    let (mut set, mut errors) = (PortSet::default(), Vec::new());
    for item in items(annotations, name) {
        match item_ranges(item, named) {
            Ok(ranges) => set.add(ranges),
            Err(reason) => {
                let message = format!("{} {reason}, {consequence}", quote(item));
                errors.push(FieldError { field: field(name), message });
            }
        }
    }
    Reading { value: set, errors }
}

/// One item: `80`, `8000-8080` or the name of a port.
fn item_ranges(
    item: &str,
    named: &PortsByName<'_>,
) -> Result<Vec<RangeInclusive<u16>>, &'static str> {
    const FORM: &str = "is neither a port from 1 to 65535 nor a range of them";
    if item.bytes().any(|b| b.is_ascii_alphabetic()) {
        return Ok(named(item)?.iter().map(|n| n.get()..=n.get()).collect());
    }
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let number = |text: &str| {
        let text = text.trim();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<NonZeroU16>().ok().filter(|_| digits).map(NonZeroU16::get)
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok(vec![first..=last]),
        (Some(_), Some(_)) => Err("is a range whose end is below its beginning"),
        (Some(_) | None, None) | (None, Some(_)) => Err(FORM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(annotations: &[(&str, &str)]) -> Reading<Logs> {
        logs(&annotations.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect())
    }

    #[test]
    fn what_a_proxy_is_to_log_is_read_or_is_as_if_it_were_not_there() {
        let [own, linkerds] = LOG_LEVEL;
        let filter = |text: &str| Some(Arc::from(text));
        assert_eq!(of(&[]), Reading { value: Logs::default(), errors: Vec::new() });
        assert_eq!(
            of(&[(linkerds, "warn,linkerd=info")]).value.filter,
            filter("warn,linkerd=info")
        );
        assert_eq!(of(&[(linkerds, "warn"), (own, "info")]).value.filter, filter("info"));
        for access_log in AccessLogs::ALL {
            let read = of(&[(ACCESS_LOG[1], access_log.as_str())]);
            assert_eq!(read.value.access_log, Some(access_log));
        }
        let long = "a".repeat(MAX_FILTER.saturating_add(1));
        for (name, text, words) in [
            (own, "a=loud", "`a=loud` is no log filter such as `info`"),
            (own, " ", "is no log filter"),
            (linkerds, long.as_str(), "of at most 1024 bytes"),
            (ACCESS_LOG[0], "jsno", "did you mean `json`?"),
            (ACCESS_LOG[1], "yes", "which is as if it were not there; expected"),
        ] {
            let read = of(&[(name, text)]);
            assert_eq!(read.value, Logs::default(), "{text}");
            let [error] = read.errors.as_slice() else { panic!("{text}: {:?}", read.errors) };
            assert!(error.message.contains(words), "{words} in {}", error.message);
            assert_eq!(error.field, field(name));
        }
    }

    /// White space of several bytes before a directive makes the library panic.
    #[test]
    fn a_filter_that_the_library_cannot_cut_is_refused() {
        for text in ["\u{a0}a=info", "\u{a0}[x]", "warn,\u{3000}a=info", "gr\u{fc}n=info"] {
            assert!(!is_log_filter(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_filter_panics(text in "[\\[\\]{}=,:a\"/. \u{a0}\u{3000}*(|-]{0,24}", any: String) {
            is_log_filter(&text);
            is_log_filter(&any);
        }
    }

    /// The automaton of this regular expression would have some 2^25 states.
    #[test]
    fn a_filter_is_no_regular_expression() {
        let value = format!("(a|b)*a{}", "(a|b)".repeat(24));
        assert!(is_log_filter(&format!("[span{{field={value}}}]=debug")));
    }
}
