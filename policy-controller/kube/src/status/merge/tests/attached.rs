//! The record of the hostnames that a route has on Servers of its namespace.

use super::*;
use policy_engine::conditions::AttachedHostname;

/// A route of the Gateway API on the Server `web` of its namespace.
fn with_hostnames(hostnames: &Value, generation: i64, status: Value) -> Item {
    let parent = json!({"group": "policy.linkerd.io", "kind": "Server", "name": "web"});
    let metadata = json!({"name": "r", "namespace": "ns", "generation": generation,
        "creationTimestamp": BEFORE});
    let spec = json!({"parentRefs": [parent], "hostnames": hostnames, "rules": []});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

/// The desired status of that route, which has these hostnames there, each behind a claim of this time.
fn attached(reason: &str, hostnames: &[(&str, Option<&str>)]) -> DesiredStatus {
    let status = if reason == "Accepted" { "True" } else { "False" };
    let conditions = vec![desired_condition("Accepted", status, reason)];
    let server = key(Kind::Server, "ns", "web");
    let held = |(host, after): &(&str, Option<&str>)| AttachedHostname {
        host: policy_crds::hostname(host).unwrap(),
        after: after.map(|time| time.parse::<jiff::Timestamp>().unwrap().as_second()),
    };
    let hostnames = hostnames.iter().map(held).collect();
    let (section, port) = (None, None);
    let parent = ParentStatus { server, section, port, conditions, keep: false, hostnames };
    desired(vec![], vec![parent])
}

/// The record of the hostnames in a status.
fn record_in(status: &Value) -> Option<String> {
    let conditions = array(&status["parents"][0], "conditions");
    let record = of_type(conditions, "HostnamesAttached")?;
    Some(record["message"].as_str().unwrap().to_owned())
}

#[test]
fn the_time_since_which_a_route_has_a_hostname_is_recorded_once_and_kept() {
    let (route, kind) = (with_hostnames, Kind::GatewayHttpRoute);
    let accepted = |hosts: [&str; 2]| attached("Accepted", &hosts.map(|host| (host, None)));
    let both = (json!(["a.io", "*.b.io"]), accepted(["a.io", "*.b.io"]));
    let first = written(kind, &route(&both.0, 1, Value::Null), &both.1).unwrap();
    let since = format!("a.io since {BEFORE}; *.b.io since {BEFORE}");
    assert_eq!(record_in(&first), Some(since), "it was never edited");
    assert_eq!(written(kind, &route(&both.0, 1, first.clone()), &both.1), None);

    // A hostname that is added later has the time of its record, and one that is given up has none.
    let other = (json!(["*.b.io", "c.io"]), accepted(["*.b.io", "c.io"]));
    let second = written(kind, &route(&other.0, 2, first.clone()), &other.1).unwrap();
    let kept = format!("c.io since {NOW}; *.b.io since {BEFORE}");
    assert_eq!(record_in(&second), Some(kept.clone()));
    let third = written(kind, &route(&both.0, 3, second.clone()), &both.1).unwrap();
    let again = format!("a.io since {NOW}; *.b.io since {BEFORE}");
    assert_eq!(record_in(&third), Some(again));

    // An invalid route keeps the record of what it may still have.
    let invalid = attached("Invalid", &[]);
    let broken = |hostnames: Value| {
        record_in(&written(kind, &route(&hostnames, 3, second.clone()), &invalid).unwrap())
    };
    assert_eq!(broken(json!(7)), Some(kept));
    assert_eq!(broken(json!(["c.io", "a.io"])), Some(format!("c.io since {NOW}")));
    assert_eq!(broken(Value::Null), None);
    // What is read back is what was written, by this controller alone.
    let mut object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "r", "namespace": "ns", "creationTimestamp": BEFORE, "generation": 2},
        "spec": route(&other.0, 2, Value::Null).spec, "status": second});
    let hosts = |object: &Value, controller: &str| -> Option<Vec<String>> {
        let read = policy_crds::parse(object).unwrap().meta.recorded.clone().unwrap();
        let times = read.attached(&controller.into(), &"web".into())?;
        Some(times.keys().map(ToString::to_string).collect())
    };
    let names = || Some(vec!["c.io".to_owned(), "*.b.io".to_owned()]);
    assert_eq!(hosts(&object, OURS), names());
    object["status"]["parents"][0]["controllerName"] = json!("other.dev/x");
    assert_eq!(hosts(&object, OURS), None);
    assert_eq!(hosts(&object, "other.dev/x"), names());
    // A time in the future is not one of ours.
    let mut forged = second.clone();
    let conditions = forged["parents"][0]["conditions"].as_array_mut().unwrap();
    let record_of = conditions.iter_mut().find(|one| one["type"] == "HostnamesAttached").unwrap();
    record_of["message"] =
        json!("*.b.io since 2030-01-01T00:00:00Z; c.io since 2030-01-01T00:00:00Z");
    let mended = written(kind, &route(&other.0, 2, forged), &other.1).unwrap();
    assert_eq!(record_in(&mended), Some(format!("c.io since {NOW}; *.b.io since {NOW}")));
    // A Server of another namespace has none.
    let elsewhere =
        json!({"group": "policy.linkerd.io", "kind": "Server", "name": "web", "namespace": "x"});
    let mut foreign = route(&both.0, 1, Value::Null);
    foreign.spec["parentRefs"] = json!([elsewhere]);
    let mut of_foreign = both.1;
    of_foreign.parents[0].server = key(Kind::Server, "x", "web");
    assert_eq!(record_in(&written(kind, &foreign, &of_foreign).unwrap()), None);
}

/// A route that lost its hostname to a claim would otherwise hold it against the next one.
#[test]
fn a_hostname_that_a_route_never_had_gets_no_time_and_later_none_before_it_had_it() {
    let (kind, hosts) = (Kind::GatewayHttpRoute, json!(["a.io", "*.b.io"]));
    let route = |status: Value| with_hostnames(&hosts, 1, status);
    let partly = attached("Accepted", &[("*.b.io", None)]);
    let first = written(kind, &route(Value::Null), &partly).unwrap();
    assert_eq!(record_in(&first), Some(format!("*.b.io since {BEFORE}")));
    let lost = attached("HostAlreadyClaimed", &[]);
    let second = written(kind, &route(first.clone()), &lost).unwrap();
    assert_eq!(record_in(&second), None);
    // The clock of this leader is behind that of the one which recorded the claim.
    let later = "2099-01-01T00:00:00Z";
    let again = attached("Accepted", &[("a.io", None), ("*.b.io", Some(later))]);
    let third = written(kind, &route(second), &again).unwrap();
    assert_eq!(record_in(&third), Some(format!("a.io since {NOW}; *.b.io since {later}")));
}
