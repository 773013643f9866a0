//! Pods that are not injected, and pods that are refused.

use super::{asks, refused, shop, skipped, value};
use crate::injector::inject::review_update;
use crate::injector::{
    Bypass, MissingSidecar, Outcome, PodFacts, Settings, SkipReason, Trust, inject, missing_sidecar,
};
use policy_crds::annotation::SIDECAR_MARK;
use serde_json::{Value, json};

fn pod(metadata: &str, spec: &str) -> Value {
    value(&format!("metadata: {metadata}\nspec: {spec}\n"))
}

fn plain(annotations: &str) -> Value {
    pod(&format!("{{name: web, annotations: {annotations}}}"), "{containers: [{name: web}]}")
}

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn who_does_not_ask_gets_none_and_is_told_nothing() {
    assert_eq!(skipped(&plain("{}"), &shop("{}")), (SkipReason::NotRequested, none()));
    let off = plain("{portcullis.dev/inject: disabled}");
    assert_eq!(skipped(&off, &asks()), (SkipReason::DisabledByPod, none()));
    let no = SkipReason::DisabledByNamespace("shop".to_owned());
    assert_eq!(skipped(&plain("{}"), &shop("{linkerd.io/inject: disabled}")), (no, none()));
}

#[test]
fn what_cannot_have_a_sidecar_is_left_as_it_is_with_a_warning() {
    let container = "containers: [{name: web}]";
    for (spec, reason, words) in [
        (
            format!("{{{container}, hostNetwork: true}}"),
            SkipReason::HostNetwork,
            "the pod has hostNetwork: true; its connections cannot be distinguished from its node's",
        ),
        (
            format!("{{{container}, os: {{name: windows}}}}"),
            SkipReason::Windows,
            "the pod's os is windows, the sidecar runs on Linux",
        ),
        (
            "{containers: [{name: web}, {name: linkerd-proxy}]}".to_owned(),
            SkipReason::OtherMesh("linkerd-proxy"),
            "the pod has the sidecar of another mesh, container `linkerd-proxy`",
        ),
        (
            format!("{{{container}, initContainers: [{{name: istio-proxy}}]}}"),
            SkipReason::OtherMesh("istio-proxy"),
            "the pod has the sidecar of another mesh, container `istio-proxy`",
        ),
    ] {
        let warning = format!("no sidecar was injected: {words}");
        assert_eq!(skipped(&pod("{name: web}", &spec), &asks()), (reason, vec![warning]), "{spec}");
    }
    let mirror = plain("{kubernetes.io/config.mirror: x}");
    assert_eq!(skipped(&mirror, &asks()).0, SkipReason::Static);
}

#[test]
fn what_is_no_pod_is_left_to_the_api_server() {
    for broken in [
        json!(null),
        json!({}),
        json!({"spec": {}}),
        json!({"spec": {"containers": []}}),
        json!({"spec": {"containers": {"name": "web"}}}),
        json!({"spec": {"containers": [1]}}),
        json!({"spec": {"containers": [{"name": "web"}], "initContainers": "none"}}),
        json!({"metadata": 1, "spec": {"containers": [{"name": "web"}]}}),
    ] {
        assert_eq!(skipped(&broken, &asks()).0, SkipReason::Unreadable, "{broken}");
    }
}

#[test]
fn a_label_alone_is_no_sidecar() {
    let marked =
        pod("{name: web, labels: {portcullis.dev/proxy: injected}}", "{containers: [{name: web}]}");
    let (pod, _) = super::injected(&marked, &asks(), &super::settings(true));
    assert_eq!(pod["spec"]["initContainers"][1]["name"], "portcullis-proxy");
}

#[test]
fn a_container_that_borrows_the_name_of_the_sidecar_is_refused_rather_than_taken_for_one() {
    for list in ["containers", "initContainers"] {
        let mut borrowed = json!({"spec": {"containers": [{"name": "web"}]}});
        borrowed["spec"][list] = json!([{"name": "portcullis-proxy", "image": "web"}]);
        let words = format!(
            "spec.{list}[0].name: `portcullis-proxy` is the name of a container that is injected"
        );
        assert_eq!(refused(&borrowed, &asks()), [words]);
        assert_eq!(skipped(&borrowed, &shop("{}")), (SkipReason::NotRequested, none()));
    }
}

#[test]
fn two_containers_that_borrow_the_names_of_the_sidecar_are_not_taken_for_one() {
    let mut fake = json!({"metadata": {"annotations": {"portcullis.dev/proxy-version": "1"}},
        "spec": {"initContainers": [{"name": "portcullis-init", "args": ["redirect"]}],
                 "containers": [{"name": "web"}, {"name": "portcullis-proxy", "args": ["run"]}]},
        "status": {"phase": "Running"}});
    let words = refused(&fake, &asks());
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[0].starts_with("spec.initContainers[0].name: `portcullis-init` is the name"));
    let lacks = |pod: &Value| missing_sidecar(&PodFacts::of(pod), &asks(), "portcullis");
    assert_eq!(lacks(&fake), Some(MissingSidecar::ByNamespace));
    // An injected pod is recognized, with a native sidecar and without.
    for native in [true, false] {
        fake["spec"] = json!({"containers": [{"name": "web"}]});
        let (mut pod, _) = super::injected(&fake, &asks(), &super::settings(native));
        assert!(matches!(skipped(&pod, &asks()).0, SkipReason::AlreadyInjected { .. }));
        assert_eq!(lacks(&pod), None);
        // Another command than the image's runs another program.
        let list = if native { "initContainers" } else { "containers" };
        let at = usize::from(native);
        pod["spec"][list][at]["command"] = json!(["sleep"]);
        assert_eq!(lacks(&pod), Some(MissingSidecar::ByNamespace));
        let words = refused(&pod, &asks());
        assert!(
            words.iter().any(|one| one.contains("`portcullis-proxy` is the name")),
            "{words:?}"
        );
    }
}

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

#[test]
fn an_annotation_of_a_later_version_does_not_keep_pods_from_starting() {
    let later = plain("{portcullis.dev/proxy-of-next-year: many}");
    let (_, warnings) = super::injected(&later, &asks(), &super::settings(true));
    assert!(warnings[0].contains("has no effect: this version ("), "{warnings:?}");
    let context = shop("{portcullis.dev/inject: enabled, portcullis.dev/proxy-of-next-year: many}");
    let (_, warnings) = super::injected(&plain("{}"), &context, &super::settings(true));
    assert!(warnings[0].starts_with("Namespace shop: metadata.annotations"), "{warnings:?}");
    // A known name with a value of a later version is different, because its setting would not take
    // effect.
    let value = plain("{portcullis.dev/access-log: of-next-year}");
    assert_eq!(refused(&value, &asks()).len(), 1);
}

#[test]
fn whoever_wants_no_sidecar_gets_the_pod_whatever_else_is_mistyped() {
    let off = plain("{portcullis.dev/inject: disabled, portcullis.dev/proxy-loglevel: info}");
    let (reason, warnings) = skipped(&off, &asks());
    assert_eq!(reason, SkipReason::DisabledByPod);
    assert!(warnings[0].contains("did you mean `portcullis.dev/proxy-log-level`?"), "{warnings:?}");
}

#[test]
fn every_setting_that_is_advised_reaches_the_sidecar() {
    let pod = plain(
        "{portcullis.dev/maximum-policy-age: 1h, portcullis.dev/pending-policy: default, \
          portcullis.dev/pending-default-policy: deny, portcullis.dev/max-connections: '100', \
          portcullis.dev/idle-timeout: 5m, portcullis.dev/proxy-admin-log-level: enabled}",
    );
    let (pod, _) = super::injected(&pod, &asks(), &super::settings(true));
    let env = pod["spec"]["initContainers"][1]["env"].as_array().unwrap().clone();
    for (name, value) in [
        ("MAXIMUM_POLICY_AGE", "1h"),
        ("PENDING_POLICY", "default"),
        ("DEFAULT_POLICY", "deny"),
        ("MAX_CONNECTIONS", "100"),
        ("IDLE_TIMEOUT", "5m"),
        ("ADMIN_LOG_LEVEL", "true"),
    ] {
        let wanted = json!({"name": format!("PORTCULLIS_{name}"), "value": value});
        assert!(env.contains(&wanted), "{name}");
    }
    let alone = plain("{portcullis.dev/pending-policy: default}");
    assert_eq!(
        refused(&alone, &asks()),
        ["metadata.annotations[\"portcullis.dev/pending-policy\"]: `default` needs \
          pending-default-policy, which says which one"]
    );
}

#[test]
fn roots_that_sidecars_begin_with_are_in_the_pod_where_nobody_can_change_them() {
    let env = |trust: Trust| {
        let settings = Settings { trust, ..super::settings(true) };
        let (pod, _) = super::injected(&plain("{}"), &asks(), &settings);
        let mounts = pod["spec"]["volumes"].as_array().unwrap().len();
        let env = pod["spec"]["initContainers"][1]["env"].as_array().unwrap().clone();
        let roots = |env: &Value| {
            let name = env["name"].as_str().unwrap().strip_prefix("PORTCULLIS_IDENTITY_")?;
            ["ROOTS", "ANCHORS", "SIGNED_ROOTS"].contains(&name).then(|| env.clone())
        };
        (env.iter().filter_map(roots).collect::<Vec<_>>(), mounts)
    };
    let folder = "/var/run/portcullis/roots";
    let plain = |name: &str, value: &str| json!({"name": format!("PORTCULLIS_IDENTITY_{name}"), "value": value});
    let file = plain("ROOTS", &format!("{folder}/ca-bundle.crt"));
    assert_eq!(env(Trust::ConfigMap), (vec![file], 3));
    let signed = plain("SIGNED_ROOTS", &format!("{folder}/ca-bundle.signed"));
    assert_eq!(env(Trust::Followed("PEM".to_owned())), (vec![plain("ANCHORS", "PEM"), signed], 3));
    assert_eq!(env(Trust::Fixed("PEM".to_owned())), (vec![plain("ANCHORS", "PEM")], 2));
}

#[test]
fn a_mistyped_annotation_is_refused_whether_or_not_the_pod_asks() {
    let mistyped = plain("{portcullis.dev/injcet: enabled}");
    let words = "metadata.annotations[\"portcullis.dev/injcet\"]: there is no such annotation; did \
                 you mean `portcullis.dev/inject`?";
    assert_eq!(refused(&mistyped, &shop("{}")), [words]);
    assert_eq!(refused(&mistyped, &asks()), [words]);
}

#[test]
fn a_mistyped_annotation_of_the_namespace_is_refused_where_a_pod_is_to_have_a_sidecar() {
    let context = shop("{linkerd.io/inject: enabled, portcullis.dev/default-alow: deny}");
    let words = "Namespace shop: metadata.annotations[\"portcullis.dev/default-alow\"]: there is \
                 no such annotation; did you mean `portcullis.dev/default-allow`?";
    assert_eq!(refused(&plain("{}"), &context), [words]);
    let off = plain("{portcullis.dev/inject: disabled}");
    assert_eq!(skipped(&off, &context), (SkipReason::DisabledByPod, none()));
}

#[test]
fn values_that_are_not_allowed_are_refused_all_at_once_with_where_they_stand() {
    let wrong = plain(
        "{config.linkerd.io/skip-inbound-ports: '80,smtp', portcullis.dev/proxy-workers: '0'}",
    );
    let context = shop("{linkerd.io/inject: enabled, config.linkerd.io/proxy-cpu-limit: lots}");
    assert_eq!(
        refused(&wrong, &context),
        [
            "Namespace shop: metadata.annotations[\"config.linkerd.io/proxy-cpu-limit\"]: `lots` is \
             not allowed; expected a quantity such as `100m` or `64Mi`",
            "metadata.annotations[\"config.linkerd.io/skip-inbound-ports\"]: `smtp` is not the name \
             of a TCP port of this pod",
            "metadata.annotations[\"portcullis.dev/proxy-workers\"]: `0` is not allowed; expected a \
             number from 1 to 64",
        ]
    );
}

#[test]
fn a_namespace_may_name_ports_that_only_other_pods_have() {
    let context =
        shop("{linkerd.io/inject: enabled, config.linkerd.io/skip-inbound-ports: '25,smtp'}");
    let (pod, _) = super::injected(&plain("{}"), &context, &super::settings(true));
    let arguments = pod["spec"]["initContainers"][0]["args"].as_array().unwrap();
    assert_eq!(arguments.last().unwrap(), "--skip-inbound-ports=25");
}

#[test]
fn both_names_of_a_setting_may_not_differ() {
    let both =
        plain("{config.linkerd.io/proxy-log-level: info, portcullis.dev/proxy-log-level: warn}");
    assert_eq!(
        refused(&both, &asks()),
        ["metadata.annotations[\"config.linkerd.io/proxy-log-level\"]: `info` differs from \
          `portcullis.dev/proxy-log-level` on the same object: give one of them, or both the same value"]
    );
}

#[test]
fn what_the_sidecar_would_clash_with_is_refused_by_its_field() {
    let clashes = pod(
        "{name: web}",
        "{securityContext: {runAsUser: 2102}, initContainers: [{name: portcullis-init}], \
          containers: [{name: web, securityContext: {runAsUser: 2102}, ports: [{containerPort: 4191}]}], \
          volumes: [{name: portcullis-trust-roots, emptyDir: {}}]}",
    );
    let user = "`2102` is the user of the sidecar, whose traffic is not redirected; give the \
                application another one";
    assert_eq!(
        refused(&clashes, &asks()),
        [
            format!("spec.securityContext.runAsUser: {user}"),
            format!("spec.containers[0].securityContext.runAsUser: {user}"),
            "spec.initContainers[0].name: `portcullis-init` is the name of a container that is \
             injected"
                .to_owned(),
            "spec.containers[0].ports: port `4191` is one of the sidecar's own (4143 and 4191); give \
             the application another one"
                .to_owned(),
            "spec.volumes[0].name: `portcullis-trust-roots` is the name of a volume that is injected"
                .to_owned(),
        ]
    );
}

#[test]
fn a_job_on_an_old_api_server_is_told_what_ends_its_sidecar() {
    let owner = json!([{"kind": "Job", "name": "once"}]);
    let mut job = plain("{}");
    job["metadata"]["ownerReferences"] = owner;
    let warnings = |native| super::injected(&job, &asks(), &super::settings(native)).1;
    assert_eq!(warnings(true), none());
    assert_eq!(warnings(false).len(), 1);
}
