//! Annotations that policy depends on.

use policy_core::{
    DefaultPolicy, InformationalHeaders, PathHandling, UndeclaredPorts, UpstreamReuse,
};
use policy_crds::annotation::{
    self, AnnotationReading, Annotations, DEFAULT_POLICY, DefaultPolicyNames,
    INFORMATIONAL_HEADERS, OPAQUE_PORTS, PATH_NORMALIZATION, REQUIRE_IDENTITY, Reading,
    UNDECLARED_PORTS, UPSTREAM_REUSE, meet, opaque_ports, own_name, ports_as_linkerd,
    require_identity_ports, shared_name, undeclared_ports,
};
use policy_crds::server_annotation::{informational_headers, path_normalization, upstream_reuse};
use std::num::NonZeroU16;

fn annotations(pairs: &[(&str, &str)]) -> Annotations {
    pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
}

/// The default policy as we read it.
fn default_policy(annotations: &Annotations) -> Reading<Option<DefaultPolicy>> {
    annotation::default_policy(annotations, AnnotationReading::default())
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn known(name: &str) -> Option<Vec<NonZeroU16>> {
    (name == "http").then(|| vec![port(8080), port(8081)])
}

fn named(name: &str) -> Result<Vec<NonZeroU16>, &'static str> {
    own_name(known(name))
}

#[test]
fn every_spelling_of_the_default_policy_means_the_same() {
    for name in DEFAULT_POLICY {
        let reading = default_policy(&annotations(&[(name, "cluster-authenticated")]));
        assert_eq!(reading.value, Some(DefaultPolicy::ClusterAuthenticated), "{name}");
        assert!(reading.errors.is_empty());
    }
    assert_eq!(default_policy(&annotations(&[])).value, None);
}

#[test]
fn several_default_policies_are_met() {
    use DefaultPolicy as P;
    let table = [
        (P::AllUnauthenticated, P::AllAuthenticated, P::AllAuthenticated),
        (P::AllAuthenticated, P::ClusterUnauthenticated, P::ClusterAuthenticated),
        (P::ClusterUnauthenticated, P::AllUnauthenticated, P::ClusterUnauthenticated),
        (P::Audit, P::AllUnauthenticated, P::AllUnauthenticated),
        (P::Audit, P::Audit, P::Audit),
        (P::Deny, P::Audit, P::Deny),
    ];
    for (a, b, expected) in table {
        assert_eq!(meet(a, b), expected);
        assert_eq!(meet(b, a), expected);
        let both = annotations(&[(DEFAULT_POLICY[1], a.as_str()), (DEFAULT_POLICY[3], b.as_str())]);
        assert_eq!(default_policy(&both).value, Some(expected));
    }
}

#[test]
fn meeting_is_associative_and_never_wider_than_either() {
    for a in DefaultPolicy::ALL {
        assert_eq!(meet(a, a), a);
        for b in DefaultPolicy::ALL {
            assert_eq!(meet(meet(a, b), b), meet(a, b));
            for c in DefaultPolicy::ALL {
                assert_eq!(meet(meet(a, b), c), meet(a, meet(b, c)));
            }
        }
    }
}

#[test]
fn an_unknown_default_policy_denies_and_says_so() {
    let reading = default_policy(&annotations(&[
        (DEFAULT_POLICY[0], "all-unauthenticated"),
        (DEFAULT_POLICY[1], "All-Authenticated"),
    ]));
    assert_eq!(reading.value, Some(DefaultPolicy::Deny));
    assert_eq!(
        reading.errors[0].to_string(),
        "metadata.annotations[\"portcullis.dev/default-allow\"]: unknown value \
         `All-Authenticated`, which denies until it is corrected; did you mean `all-authenticated`?"
    );
    let empty = default_policy(&annotations(&[(DEFAULT_POLICY[0], "")]));
    assert_eq!(empty.value, Some(DefaultPolicy::Deny));
}

#[test]
fn linkerds_reading_ignores_former_names_and_unknown_values_and_voids_lists() {
    let linkerds = AnnotationReading {
        default_policy: DefaultPolicyNames::Current,
        ignores_unknown: true,
        voids_lists: true,
    };
    let [current, _, former, _] = DEFAULT_POLICY;
    let read = annotation::default_policy(&annotations(&[(former, "deny")]), linkerds);
    assert_eq!(read, Reading { value: None, errors: Vec::new() });
    let read = annotation::default_policy(&annotations(&[(current, "denny")]), linkerds);
    assert_eq!(read.value, None);
    let words = "unknown value `denny`, which is as if it were not there; did you mean `deny`?";
    assert!(read.errors[0].message.contains(words), "{}", read.errors[0].message);
    let list = |text| ports_as_linkerd(&annotations(&[(OPAQUE_PORTS, text)]), OPAQUE_PORTS);
    let numbers = list(" 25, 3306-3308,, ");
    assert_eq!((numbers.value.ranges().len(), numbers.errors.len()), (2, 0));
    for text in ["25,http", "25,0", "25,9-8"] {
        let void = list(text);
        assert!(void.value.ranges().is_empty(), "{text}");
        assert!(void.errors[0].message.contains("voids the whole list"), "{text}");
    }
}

#[test]
fn opaque_ports_keep_what_can_be_read() {
    let reading = opaque_ports(
        &annotations(&[(OPAQUE_PORTS, "25, 3306-3310 ,http,, nope, 0, 70000, 9-8, -5, 1-")]),
        &named,
    );
    for (number, expected) in [(25, true), (26, false), (3308, true), (8080, true), (8081, true)] {
        assert_eq!(reading.value.contains(port(number)), expected, "{number}");
    }
    let reasons: Vec<String> = reading.errors.iter().map(|e| e.message.clone()).collect();
    let neither = "is neither a port from 1 to 65535 nor a range of them, is left out";
    assert_eq!(
        reasons,
        [
            "`nope` is not the name of a port of this workload, is left out".to_owned(),
            format!("`0` {neither}"),
            format!("`70000` {neither}"),
            "`9-8` is a range whose end is below its beginning, is left out".to_owned(),
            format!("`-5` {neither}"),
            format!("`1-` {neither}"),
        ]
    );
    assert!(opaque_ports(&annotations(&[]), &named).value.is_empty());
}

#[test]
fn a_range_of_every_port_stays_a_range() {
    let reading = opaque_ports(&annotations(&[(OPAQUE_PORTS, "1-65535")]), &named);
    assert_eq!(reading.value.ranges(), [1..=65535]);
}

#[test]
fn one_unreadable_item_makes_every_port_require_identity() {
    let good = require_identity_ports(&annotations(&[(REQUIRE_IDENTITY, "80,http")]), &named);
    assert!(good.value.contains(port(8081)) && !good.value.contains(port(81)));
    let bad = require_identity_ports(&annotations(&[(REQUIRE_IDENTITY, "80,8o81")]), &named);
    assert!(bad.value.contains(port(1)) && bad.value.contains(port(65535)));
    assert_eq!(
        bad.errors[0].message,
        "`8o81` is not the name of a port of this workload, every port requires an identity until \
         it is corrected"
    );
}

#[test]
fn a_shared_list_names_ports_of_other_workloads_and_an_unreadable_item_still_means_every_port() {
    let of = |text: &str| {
        let list = annotations(&[(REQUIRE_IDENTITY, text)]);
        require_identity_ports(&list, &|name| shared_name(name, known(name)))
    };
    for text in ["90,http", "90,http,metrics", "90,http,a-name-of-15-ch,h2"] {
        let reading = of(text);
        let asks = [90, 8080, 8081, 1].map(|number| reading.value.contains(port(number)));
        assert_eq!((asks, reading.errors), ([true, true, true, false], Vec::new()), "{text}");
    }
    for item in ["8o81", "HTTP", "http/2", "-a", "a-", "a--b", "sixteen-letters-", "70000", "9-8"] {
        let reading = of(&format!("90,{item}"));
        assert!(reading.value.contains(port(1)) && reading.value.contains(port(65535)), "{item}");
        assert_eq!(reading.errors.len(), 1, "{item}");
    }
    assert_eq!(
        of("8o81").errors[0].message,
        "`8o81` is neither a port from 1 to 65535, nor a range of them, nor the name of a port, \
         every port requires an identity until it is corrected"
    );
}

#[test]
fn undeclared_ports_deny_unless_they_clearly_do_not() {
    let of = |text: &str| undeclared_ports(&annotations(&[(UNDECLARED_PORTS, text)]));
    assert_eq!(of("deny").value, Some(UndeclaredPorts::Deny));
    assert_eq!(of("default").value, Some(UndeclaredPorts::Default));
    assert_eq!(undeclared_ports(&annotations(&[])).value, None);
    let bad = of("allow");
    assert_eq!(bad.value, Some(UndeclaredPorts::Deny));
    assert_eq!(
        bad.errors[0].message,
        "unknown value `allow`, which denies until it is corrected; expected one of `deny`, `default`"
    );
}

#[test]
fn informational_headers_are_set_unless_an_annotation_says_exactly_disabled() {
    for name in INFORMATIONAL_HEADERS {
        let of = |text: &str| informational_headers(&annotations(&[(name, text)]));
        assert_eq!(of("disabled").value, InformationalHeaders::Disabled);
        assert!(of("disabled").errors.is_empty() && of("enabled").errors.is_empty());
        for other in ["Disabled", "false", ""] {
            let reading = of(other);
            assert_eq!(reading.value, InformationalHeaders::Enabled, "{other}");
            assert_eq!(reading.errors.len(), 1, "{other}");
        }
        assert_eq!(
            of("Disabled").errors[0].message,
            "unknown value `Disabled`, which is read as `enabled`; did you mean `disabled`?"
        );
    }
    assert_eq!(informational_headers(&annotations(&[])).value, InformationalHeaders::Enabled);
    let both = [(INFORMATIONAL_HEADERS[0], "enabled"), (INFORMATIONAL_HEADERS[1], "disabled")];
    assert_eq!(informational_headers(&annotations(&both)).value, InformationalHeaders::Disabled);
}

#[test]
fn paths_are_canonical_unless_raw_is_asked_for() {
    let of = |text: &str| path_normalization(&annotations(&[(PATH_NORMALIZATION, text)]));
    assert_eq!(of("raw").value, PathHandling::Raw);
    assert_eq!(of("canonical").value, PathHandling::Canonical);
    assert_eq!(of("off").value, PathHandling::Canonical);
    assert_eq!(of("off").errors.len(), 1);
    assert_eq!(path_normalization(&annotations(&[])).value, PathHandling::Canonical);
}

#[test]
fn connections_are_reused_as_usual_unless_an_annotation_says_otherwise() {
    let of = |text: &str| upstream_reuse(&annotations(&[(UPSTREAM_REUSE, text)]));
    assert_eq!(of("usual"), Reading { value: UpstreamReuse::Usual, errors: Vec::new() });
    assert_eq!(of("without-body").value, UpstreamReuse::WithoutBody);
    // What cannot be read reuses less.
    assert_eq!(of("never").value, UpstreamReuse::WithoutBody);
    assert_eq!(of("never").errors.len(), 1);
    assert_eq!(upstream_reuse(&annotations(&[])).value, UpstreamReuse::Usual);
}
