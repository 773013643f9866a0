//! Ways around the sidecar: of a pod that is injected, and of one that brings the containers itself.

use super::asks;
use super::refusals::{none, plain};
use crate::injector::inject::review_update;
use crate::injector::{Bypass, Outcome, Settings, SkipReason, inject};
use policy_crds::annotation::SIDECAR_MARK;
use serde_json::{Value, json};

#[test]
fn ways_around_the_sidecar_are_told_and_refused_where_that_is_asked_for() {
    let pod = json!({"metadata": {"annotations": {"portcullis.dev/init-image": "mine/init"}},
        "spec": {"containers": [
            {"name": "a", "securityContext": {"privileged": true}},
            {"name": "b", "securityContext": {"capabilities": {"add": ["CAP_NET_ADMIN", "CHOWN"]}}},
            {"name": "c", "securityContext": {"capabilities": {"drop": ["ALL"]}}}]}});
    let (_, warnings) = super::injected(&pod, &asks(), &super::settings(true));
    let fields = [
        "spec.containers[0].securityContext.privileged: a privileged container can change the rules",
        "spec.containers[1].securityContext.capabilities.add: `CAP_NET_ADMIN` can change the rules",
        "metadata.annotations[\"portcullis.dev/init-image\"]: selects the image that protects the pod",
    ];
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    for (warning, field) in warnings.iter().zip(fields) {
        // The capability in the spelling of Kubernetes.
        assert!(warning.starts_with(field) || warning.contains("NET_ADMIN"), "{warning}");
    }
    let strict = Settings { bypass: Bypass::Refuse, ..super::settings(true) };
    let Outcome::Refused(errors) = inject(&pod, &asks(), &strict) else { panic!("not refused") };
    let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(words, warnings);
    let off = json!({"metadata": {"annotations": {"portcullis.dev/inject": "disabled"}},
        "spec": pod["spec"]});
    assert!(matches!(inject(&off, &asks(), &strict), Outcome::Skipped { .. }));
}

/// An injected pod, with the field of its sidecar, if bypasses are refused.
struct Own {
    native: bool,
    pod: Value,
    list: &'static str,
    at: usize,
}

impl Own {
    fn new(native: bool) -> Self {
        let given =
            plain("{portcullis.dev/skip-inbound-ports: '25', portcullis.dev/access-log: json}");
        let (pod, _) = super::injected(&given, &asks(), &Self::strict(native));
        let (list, at) = if native { ("initContainers", 1) } else { ("containers", 0) };
        Self { native, pod, list, at }
    }

    fn strict(native: bool) -> Settings {
        Settings { bypass: Bypass::Refuse, ..super::settings(native) }
    }

    fn is_taken(&self, pod: &Value) {
        let again = inject(pod, &asks(), &Self::strict(self.native));
        assert!(
            matches!(again, Outcome::Skipped { reason: SkipReason::AlreadyInjected { .. }, .. }),
            "{again:?}"
        );
    }

    fn is_refused(&self, change: &dyn Fn(&mut Value), field: &str) {
        let mut pod = self.pod.clone();
        change(&mut pod);
        match inject(&pod, &asks(), &Self::strict(self.native)) {
            Outcome::Refused(errors) => assert_eq!(errors[0].field, field, "{errors:?}"),
            other @ (Outcome::Injected { .. } | Outcome::Skipped { .. }) => panic!("{other:?}"),
        }
        // Other pods only get a warning, and a mark that says what they have.
        match inject(&pod, &asks(), &super::settings(self.native)) {
            Outcome::Skipped { .. } => {}
            Outcome::Injected { pod: mut taken, .. } => {
                let mark = pod["metadata"]["annotations"][SIDECAR_MARK].clone();
                taken["metadata"]["annotations"][SIDECAR_MARK] = mark;
                assert_eq!(*taken, pod);
            }
            Outcome::Refused(errors) => panic!("{errors:?}"),
        }
    }
}

#[test]
fn containers_that_somebody_wrote_by_hand_are_no_way_around_where_ways_are_refused() {
    for own in [true, false].map(Own::new) {
        own.is_taken(&own.pod);
        let (list, at) = (own.list, own.at);
        let proxy = format!("spec.{list}[{at}]");
        let image = |pod: &mut Value| pod["spec"][list][at]["image"] = json!("mine:1");
        own.is_refused(&image, &format!("{proxy}.image"));
        let address = |pod: &mut Value| pod["spec"][list][at]["env"][7]["value"] = json!("mine:1");
        own.is_refused(&address, &format!("{proxy}.env"));
        let from = |pod: &mut Value| pod["spec"][list][at]["envFrom"] = json!([{"prefix": "A"}]);
        own.is_refused(&from, &format!("{proxy}.envFrom"));
        let init = |pod: &mut Value| pod["spec"]["initContainers"][0]["image"] = json!("mine:1");
        own.is_refused(&init, "spec.initContainers[0].image");
        let skips = |pod: &mut Value| {
            pod["spec"]["initContainers"][0]["args"][4] = json!("--skip-inbound-ports=1-65535");
        };
        own.is_refused(&skips, "spec.initContainers[0].args");
        let beside = |pod: &mut Value| {
            let more = json!({"name": "more", "securityContext": {"privileged": true}});
            pod["spec"]["initContainers"].as_array_mut().unwrap().push(more);
        };
        let place = if own.native { 2 } else { 1 };
        own.is_refused(
            &beside,
            &format!("spec.initContainers[{place}].securityContext.privileged"),
        );
    }
}

#[test]
fn a_sidecar_that_loads_or_runs_something_else_is_refused_where_ways_are_refused() {
    for own in [true, false].map(Own::new) {
        let (list, at) = (own.list, own.at);
        let proxy = format!("spec.{list}[{at}]");
        for name in ["LD_PRELOAD", "LINKERD2_PROXY_LOG", "GLIBC_TUNABLES"] {
            let variable = |pod: &mut Value| {
                let env = pod["spec"][list][at]["env"].as_array_mut().unwrap();
                env.push(json!({"name": name, "value": "mine"}));
            };
            own.is_refused(&variable, &format!("{proxy}.env"));
        }
        let path = |pod: &mut Value| {
            pod["spec"]["initContainers"][0]["env"] = json!([{"name": "PATH", "value": "/mine"}]);
        };
        own.is_refused(&path, "spec.initContainers[0].env");
        let mount = |pod: &mut Value| {
            let more = json!({"name": "mine", "mountPath": "/lib"});
            pod["spec"][list][at]["volumeMounts"].as_array_mut().unwrap().push(more);
        };
        own.is_refused(&mount, &format!("{proxy}.volumeMounts"));
        let hook = json!({"postStart": {"exec": {"command": ["sh"]}}});
        for (field, value) in
            [("lifecycle", hook.clone()), ("livenessProbe", hook["postStart"].clone())]
        {
            let change = |pod: &mut Value| pod["spec"][list][at][field] = value.clone();
            own.is_refused(&change, &format!("{proxy}.{field}"));
        }
        for (field, value) in
            [("allowPrivilegeEscalation", json!(true)), ("procMount", json!("Unmasked"))]
        {
            let change = |pod: &mut Value| {
                pod["spec"][list][at]["securityContext"][field] = value.clone();
            };
            own.is_refused(&change, &format!("{proxy}.securityContext"));
        }
    }
}

#[test]
fn an_image_of_the_sidecar_that_is_changed_later_is_refused_where_ways_are_refused() {
    for own in [true, false].map(Own::new) {
        let strict = Own::strict(own.native);
        let review = |changed: &Value, settings: &Settings| {
            review_update((&own.pod, changed), &asks(), settings)
        };
        let taken = |outcome: &Outcome| match outcome {
            Outcome::Skipped { warnings, unmarked: None, .. } => warnings.clone(),
            other @ (Outcome::Skipped { .. } | Outcome::Injected { .. } | Outcome::Refused(_)) => {
                panic!("{other:?}")
            }
        };
        assert_eq!(taken(&review(&own.pod, &strict)), none());
        for (list, at) in [(own.list, own.at), ("initContainers", 0)] {
            let mut changed = own.pod.clone();
            changed["spec"][list][at]["image"] = json!("mine:1");
            let injected = own.pod["spec"][list][at]["image"].as_str().unwrap();
            let words =
                format!("spec.{list}[{at}].image: differs from what is injected, `{injected}`");
            assert_eq!(taken(&review(&changed, &super::settings(own.native))), [&*words]);
            let Outcome::Refused(errors) = review(&changed, &strict) else { panic!("taken") };
            assert_eq!(errors[0].to_string(), words);
            // Back to what is injected, and a change of anything else beside a former one.
            let back = review_update((&changed, &own.pod), &asks(), &strict);
            assert_eq!(taken(&back), none());
            let mut finalized = changed.clone();
            finalized["metadata"]["finalizers"] = json!([]);
            let kept = review_update((&changed, &finalized), &asks(), &strict);
            assert_eq!(taken(&kept), none());
        }
        let mut other = own.pod.clone();
        other["spec"]["containers"][usize::from(!own.native)]["image"] = json!("web:2");
        assert_eq!(taken(&review(&other, &strict)), none());
    }
}

#[test]
fn what_somebody_mounts_by_hand_is_no_way_around_where_ways_are_refused() {
    const VOLUMES: [&str; 3] =
        ["portcullis-identity-token", "portcullis-trust-roots", "portcullis-init-run"];
    for own in [true, false].map(Own::new) {
        let volumes = own.pod["spec"]["volumes"].as_array().unwrap();
        let place = |name| volumes.iter().position(|volume| volume["name"] == name).unwrap();
        let [token, roots, lock] = VOLUMES.map(place);
        for (at, source) in [
            (lock, json!({"hostPath": {"path": "/run"}})),
            (roots, json!({"configMap": {"name": "mine"}})),
            (token, json!({"secret": {"secretName": "a-token-of-others"}})),
        ] {
            let change = |pod: &mut Value| {
                let name = pod["spec"]["volumes"][at]["name"].clone();
                pod["spec"]["volumes"][at] = source.clone();
                pod["spec"]["volumes"][at]["name"] = name;
            };
            own.is_refused(&change, &format!("spec.volumes[{at}]"));
        }
        let mount = |pod: &mut Value, path: &str| {
            let mounts = &mut pod["spec"][own.list][own.at]["volumeMounts"];
            let more = json!({"name": "mine", "mountPath": path, "readOnly": true});
            mounts.as_array_mut().unwrap().push(more);
        };
        for path in ["/", "/var/run/secrets/portcullis", "/var/run/secrets/../x", "/usr/bin"] {
            let field = format!("spec.{}[{}].volumeMounts", own.list, own.at);
            own.is_refused(&|pod: &mut Value| mount(pod, path), &field);
        }
        // Fields that the API server adds or defaults.
        let mut completed = own.pod.clone();
        for (at, source) in [(token, "projected"), (roots, "configMap")] {
            completed["spec"]["volumes"][at][source]["defaultMode"] = json!(420);
        }
        mount(&mut completed, "/var/run/secrets/kubernetes.io/serviceaccount");
        own.is_taken(&completed);
    }
}
