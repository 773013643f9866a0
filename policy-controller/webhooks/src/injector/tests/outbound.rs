//! The outbound half: who has it, what contradicts it, and the mark by which others know.

mod hindrance;

use super::{asks, injected, refused, settings, shop, skipped, value};
use crate::injector::{
    Bypass, NamespaceContext, OutboundSettings, OutboundTransport, Outcome, PlaintextAllowed,
    Settings, SkipReason, Unanswered, inject,
};
use policy_crds::annotation::SIDECAR_MARK;
use policy_crds::{Capture, OutboundMode, SidecarMark, annotation};
use serde_json::{Value, json};

const INBOUND: &str = "portcullis.dev/inject: enabled";

fn web(annotations: &str) -> Value {
    value(&format!(
        "metadata: {{name: web, annotations: {annotations}}}\nspec: {{containers: [{{name: web}}]}}\n"
    ))
}

/// Namespace `shop` with an annotation.
fn with(annotations: &str) -> NamespaceContext {
    shop(&format!("{{{INBOUND}, {annotations}}}"))
}

fn defaults(settings: &mut Settings, preset: &str) {
    settings.defaults.set(preset.parse().unwrap());
}

/// Settings of an installation whose pods have the outbound half.
fn on(native: bool) -> Settings {
    let mut settings = settings(native);
    defaults(&mut settings, "outbound=enabled");
    settings
}

fn mark(pod: &Value) -> SidecarMark {
    let text = pod["metadata"]["annotations"][SIDECAR_MARK].as_str().unwrap();
    SidecarMark::parse(text).unwrap()
}

fn marked(outbound: OutboundMode) -> SidecarMark {
    SidecarMark {
        version: env!("CARGO_PKG_VERSION").into(),
        inbound_port: SidecarMark::INBOUND_PORT.try_into().unwrap(),
        skipped: annotation::numbered_ports(""),
        identity: Some("default.shop.serviceaccount.identity.portcullis.cluster.local".into()),
        server_name: None,
        outbound,
        capture: Capture::InitContainer,
    }
}

fn arguments(pod: &Value) -> Vec<&str> {
    let arguments = pod["spec"]["initContainers"][0]["args"].as_array().unwrap();
    arguments.iter().skip(4).filter_map(Value::as_str).collect()
}

/// The variables of the outbound half, without their prefix.
fn variables(pod: &Value) -> Vec<(&str, &str)> {
    let env = pod["spec"]["initContainers"][1]["env"].as_array().unwrap();
    let variables = env.iter().filter_map(|variable| {
        let name = variable["name"].as_str()?.strip_prefix("PORTCULLIS_")?;
        Some((name, variable["value"].as_str()?))
    });
    variables.filter(|(name, _)| name.starts_with("OUTBOUND") || *name == "CANARY").collect()
}

#[test]
fn pod_namespace_and_installation_say_who_has_the_outbound_half() {
    use OutboundMode::{MeshOnly, None, On};
    let says = |value: &str| format!("portcullis.dev/outbound: {value}");
    let (nothing, enabled, disabled, strict) =
        (String::new(), says("enabled"), says("disabled"), says("mesh-only"));
    for (installation, namespace, pod, mode) in [
        ("disabled", &nothing, &nothing, None),
        ("disabled", &nothing, &enabled, On),
        ("disabled", &enabled, &nothing, On),
        ("disabled", &enabled, &disabled, None),
        ("disabled", &disabled, &strict, MeshOnly),
        ("enabled", &nothing, &nothing, On),
        ("enabled", &nothing, &disabled, None),
        ("enabled", &disabled, &nothing, None),
        ("enabled", &strict, &nothing, MeshOnly),
        ("enabled", &strict, &strict, MeshOnly),
        ("mesh-only", &nothing, &nothing, MeshOnly),
        ("mesh-only", &enabled, &nothing, On),
    ] {
        let mut settings = settings(true);
        defaults(&mut settings, &format!("outbound={installation}"));
        let pod = web(&format!("{{{pod}}}"));
        let (pod, warnings) = injected(&pod, &with(namespace), &settings);
        let at = format!("{installation}, {namespace}");
        assert_eq!((mark(&pod), warnings), (marked(mode), Vec::new()), "{at}");
        let (mode, port) = match mode {
            None => (Option::None, 4191),
            On => (Some("on"), 4192),
            MeshOnly => (Some("mesh-only"), 4192),
        };
        let redirect = ["--outbound-port=4140", "--canary=127.0.0.127:4193"];
        assert_eq!(arguments(&pod), mode.map_or(&[][..], |_| &redirect), "{at}");
        let told = |mode| {
            vec![
                ("OUTBOUND_LISTEN", "127.0.0.1:4140,[::1]:4140"),
                ("OUTBOUND_MODE", mode),
                ("CANARY", "127.0.0.127:4193"),
            ]
        };
        assert_eq!(variables(&pod), mode.map_or(Vec::new(), told), "{at}");
        let proxy = &pod["spec"]["initContainers"][1];
        for (probe, port) in
            [("startupProbe", port), ("readinessProbe", port), ("livenessProbe", 4191)]
        {
            assert_eq!(proxy[probe]["httpGet"]["port"], port, "{at}: {probe}");
        }
    }
}

#[test]
fn a_pod_cannot_loosen_mesh_only() {
    let strict = with("portcullis.dev/outbound: mesh-only");
    for looser in ["enabled", "disabled"] {
        let pod = web(&format!("{{portcullis.dev/outbound: {looser}}}"));
        let field = "metadata.annotations[\"portcullis.dev/outbound\"]";
        let words = |of: &str| {
            vec![format!(
                "{field}: `{looser}` loosens `mesh-only` of {of}; a pod may only be stricter"
            )]
        };
        assert_eq!(refused(&pod, &strict), words(&format!("Namespace shop: {field}")));
        let mut settings = settings(true);
        defaults(&mut settings, "outbound=mesh-only");
        let Outcome::Refused(errors) = inject(&pod, &asks(), &settings) else {
            panic!("not refused")
        };
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, words("--injector-default=outbound"));
        // A pod that opts out has no sidecar, which nobody could hold to anything.
        let off = web("{portcullis.dev/inject: disabled}");
        assert_eq!(skipped(&off, &strict), (SkipReason::DisabledByPod, Vec::new()));
    }
    // Nor by a value that cannot be read, on the pod or on its namespace.
    let expected = "expected one of `enabled`, `disabled`, `mesh-only`";
    let words = refused(&web("{portcullis.dev/outbound: 'on'}"), &asks());
    assert_eq!(
        words,
        [format!(
            "metadata.annotations[\"portcullis.dev/outbound\"]: `on` is not allowed; {expected}"
        )]
    );
    let words = refused(
        &web("{portcullis.dev/outbound: disabled}"),
        &with("portcullis.dev/outbound: mesh_only"),
    );
    assert_eq!(
        words,
        [format!(
            "Namespace shop: metadata.annotations[\"portcullis.dev/outbound\"]: `mesh_only` is not allowed; {expected}"
        )]
    );
}

#[test]
fn ports_are_left_out_by_both_names_and_never_where_plaintext_is_refused() {
    for name in ["portcullis.dev", "config.linkerd.io"] {
        let skips = format!("{name}/skip-outbound-ports: '3306, 5000-5010'");
        let pod = web(&format!("{{{skips}}}"));
        let redirect = [
            "--outbound-port=4140",
            "--canary=127.0.0.127:4193",
            "--skip-outbound-ports=3306,5000-5010",
        ];
        let (by_pod, warnings) = injected(&pod, &asks(), &on(true));
        assert_eq!((arguments(&by_pod), warnings), (redirect.to_vec(), Vec::new()));
        let (by_namespace, warnings) = injected(&web("{}"), &with(&skips), &on(true));
        assert_eq!((arguments(&by_namespace), warnings), (redirect.to_vec(), Vec::new()));

        let field = format!("metadata.annotations[\"{name}/skip-outbound-ports\"]");
        let strict = "metadata.annotations[\"portcullis.dev/outbound\"]";
        let words = |place: &str| {
            vec![format!(
                "{place}{field}: `3306,5000-5010` would not be redirected, which `mesh-only` of \
                 Namespace shop: {strict} excludes"
            )]
        };
        let mesh_only = "portcullis.dev/outbound: mesh-only";
        assert_eq!(refused(&pod, &with(mesh_only)), words(""));
        let both = with(&format!("{mesh_only}, {skips}"));
        assert_eq!(refused(&web("{}"), &both), words("Namespace shop: "));

        let (_, warnings) = injected(&pod, &asks(), &settings(true));
        assert_eq!(
            warnings,
            [format!(
                "{field}: has no effect on this sidecar, which leaves what the pod sends alone without \
                 `portcullis.dev/outbound: enabled`"
            )]
        );
        let named = web(&format!("{{{name}/skip-outbound-ports: mysql}}"));
        assert!(refused(&named, &asks())[0].contains("`mysql` is a name; ports of destinations"));
    }
    // A default of the installation is no remark about each pod that has nothing to skip.
    let mut settings = settings(true);
    defaults(&mut settings, "skip-outbound-ports=25");
    assert_eq!(injected(&web("{}"), &asks(), &settings).1, Vec::<String>::new());
    defaults(&mut settings, "outbound=mesh-only");
    let Outcome::Refused(errors) = inject(&web("{}"), &asks(), &settings) else {
        panic!("not refused")
    };
    assert_eq!(errors[0].field, "--injector-default=skip-outbound-ports");
}

#[test]
fn what_the_installation_sets_reaches_the_sidecar() {
    let mut settings = on(true);
    let net = |text: &str| text.parse().unwrap();
    settings.outbound = OutboundSettings {
        transport: OutboundTransport::Header,
        networks: vec![net("10.0.0.0/8"), net("fd00::/8")],
        unanswered: Unanswered::Plaintext,
        plaintext_allowed: vec![
            PlaintextAllowed::Network(net("192.0.2.1/32")),
            PlaintextAllowed::Service { namespace: "db".to_owned(), name: "sql".to_owned() },
        ],
        is_unanswered: false,
    };
    let mut expected = vec![
        ("OUTBOUND_LISTEN", "127.0.0.1:4140,[::1]:4140"),
        ("OUTBOUND_MODE", "on"),
        ("CANARY", "127.0.0.127:4193"),
        ("OUTBOUND_TRANSPORT", "header"),
        ("OUTBOUND_UNANSWERED", "plaintext"),
        ("OUTBOUND_NETWORKS", "10.0.0.0/8,fd00::/8"),
    ];
    let (pod, _) = injected(&web("{}"), &asks(), &settings);
    assert_eq!(variables(&pod), expected);
    expected[1].1 = "mesh-only";
    expected.push(("OUTBOUND_PLAINTEXT_ALLOWED", "192.0.2.1/32,sql.db"));
    let (pod, _) = injected(&web("{portcullis.dev/outbound: mesh-only}"), &asks(), &settings);
    assert_eq!(variables(&pod), expected);
    let (pod, _) = injected(&web("{portcullis.dev/outbound: disabled}"), &asks(), &settings);
    assert_eq!(variables(&pod), []);
    settings.control_plane.ipv4_only = true;
    let (pod, _) = injected(&web("{}"), &asks(), &settings);
    assert_eq!(variables(&pod)[0], ("OUTBOUND_LISTEN", "127.0.0.1:4140"));
}

#[test]
fn the_sidecars_further_ports_are_taken_where_it_has_them() {
    for port in [4140, 4192] {
        let mut pod = web("{}");
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": port}]);
        let Outcome::Refused(errors) = inject(&pod, &asks(), &on(true)) else {
            panic!("not refused")
        };
        let words = format!(
            "spec.containers[0].ports: port `{port}` is one of the sidecar's own (4140, 4192, 4143 and \
             4191); give the application another one"
        );
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [words]);
        injected(&pod, &asks(), &settings(true));
    }
}

#[test]
fn the_mark_says_what_was_injected_whatever_annotations_say_later() {
    let before = web("{portcullis.dev/skip-inbound-ports: '25,8000-8010'}");
    let (mut pod, _) = injected(&before, &asks(), &on(true));
    let expected = SidecarMark {
        skipped: annotation::numbered_ports("25,8000-8010"),
        ..marked(OutboundMode::On)
    };
    assert_eq!(mark(&pod), expected);
    for (name, text) in [
        ("portcullis.dev/skip-inbound-ports", "1-65535"),
        ("portcullis.dev/outbound", "disabled"),
        ("portcullis.dev/proxy-version", "v0"),
        ("portcullis.dev/skipped-inbound-ports", "1-65535"),
    ] {
        pod["metadata"]["annotations"][name] = text.into();
        assert!(matches!(skipped(&pod, &asks()).0, SkipReason::AlreadyInjected { .. }), "{name}");
    }
    // A mark that is taken out or changed is written again.
    let replaced = format!(
        "{}: only the injector writes it, by what it injects, so that the value is replaced",
        annotation::field(SIDECAR_MARK)
    );
    let looser = SidecarMark { skipped: annotation::numbered_ports("1-65535"), ..expected.clone() };
    for forged in [Value::Null, "{}".into(), looser.to_json().into()] {
        pod["metadata"]["annotations"][SIDECAR_MARK] = forged;
        let (again, warnings) = injected(&pod, &asks(), &settings(true));
        assert_eq!((mark(&again), warnings), (expected.clone(), vec![replaced.clone()]));
    }
    pod["metadata"]["annotations"].as_object_mut().unwrap().remove(SIDECAR_MARK);
    let (again, warnings) = injected(&pod, &asks(), &settings(true));
    assert_eq!((mark(&again), warnings), (expected, Vec::new()));
}

#[test]
fn a_mark_that_the_author_wrote_counts_for_nothing() {
    let forged = marked(OutboundMode::MeshOnly).to_json();
    let written = |annotations: &str| {
        let mut pod = web(annotations);
        pod["metadata"]["annotations"][SIDECAR_MARK] = forged.clone().into();
        pod
    };
    let remark = |words: &str| {
        format!("{}: only the injector writes it, {words}", annotation::field(SIDECAR_MARK))
    };
    let (pod, warnings) = injected(&written("{}"), &asks(), &settings(true));
    assert_eq!(mark(&pod), marked(OutboundMode::None));
    assert_eq!(warnings, [remark("by what it injects, so that the value is replaced")]);

    // Nor on a pod that gets no sidecar, where it says so and is taken out.
    let taken_out = remark("on pods that have a sidecar, so that it is taken out");
    let mut on_the_node = written("{}");
    on_the_node["spec"]["hostNetwork"] = true.into();
    for (pod, context, why) in [
        (written("{}"), shop("{}"), SkipReason::NotRequested),
        (written("{portcullis.dev/inject: disabled}"), asks(), SkipReason::DisabledByPod),
        (on_the_node, asks(), SkipReason::HostNetwork),
    ] {
        let Outcome::Skipped { reason, warnings, unmarked: Some(unmarked) } =
            inject(&pod, &context, &settings(true))
        else {
            panic!("the mark stays");
        };
        assert_eq!((reason, warnings.last()), (why, Some(&taken_out)));
        let mut expected = pod.clone();
        expected["metadata"]["annotations"].as_object_mut().unwrap().remove(SIDECAR_MARK);
        assert_eq!(*unmarked, expected);
    }
}

#[test]
fn an_identity_is_marked_once_the_namespace_is_known() {
    let pod = value(
        "metadata: {name: web}\nspec: {serviceAccountName: cart, containers: [{name: web}]}\n",
    );
    let assumed = NamespaceContext { is_assumed: true, ..asks() };
    let (template, _) = injected(&pod, &assumed, &settings(true));
    assert_eq!(mark(&template).identity, None);
    let (pod, warnings) = injected(&template, &asks(), &settings(true));
    let identity = "cart.shop.serviceaccount.identity.portcullis.cluster.local";
    assert_eq!(mark(&pod).identity.as_deref(), Some(identity));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn what_another_webhook_puts_before_the_sidecar_comes_after_it() {
    let before = web("{}");
    for (settings, order) in [
        (on(true), ["portcullis-init", "portcullis-proxy", "first", "between"]),
        (settings(true), ["first", "portcullis-init", "between", "portcullis-proxy"]),
    ] {
        let (mut pod, _) = injected(&before, &asks(), &settings);
        let list = pod["spec"]["initContainers"].as_array_mut().unwrap();
        list.insert(1, json!({"name": "between"}));
        list.insert(0, json!({"name": "first"}));
        let again = match inject(&pod, &asks(), &settings) {
            Outcome::Injected { pod, warnings } => {
                assert_eq!(warnings, Vec::<String>::new());
                *pod
            }
            Outcome::Skipped { .. } => pod,
            Outcome::Refused(errors) => panic!("{errors:?}"),
        };
        let names = again["spec"]["initContainers"].as_array().unwrap().iter();
        assert_eq!(names.map(|container| &container["name"]).collect::<Vec<_>>(), order);
        let settled = inject(&again, &asks(), &settings);
        assert!(matches!(settled, Outcome::Skipped { .. }), "{settled:?}");
    }
}

#[test]
fn containers_that_a_pod_brings_itself_do_not_loosen_mesh_only() {
    let strict = with("portcullis.dev/outbound: mesh-only");
    let skips = web("{portcullis.dev/skip-outbound-ports: '25'}");
    for (pod, settings, what) in [
        (web("{}"), settings(true), "have another outbound mode"),
        (web("{}"), on(true), "have another outbound mode"),
        (skips, on(true), "have another outbound mode"),
    ] {
        let (mut own, _) = injected(&pod, &asks(), &settings);
        own["metadata"]["annotations"] = json!({});
        let words = refused(&own, &strict);
        assert_eq!(
            words,
            [format!(
                "spec.initContainers[0].args: the pod brings containers of the sidecar that {what}, and \
                 `mesh-only` is asked for; leave them out and they are added"
            )]
        );
    }
    let (own, _) = injected(&web("{}"), &strict, &settings(true));
    assert!(matches!(skipped(&own, &strict).0, SkipReason::AlreadyInjected { .. }));
    for skips in ["--skip-outbound-ports=25", "--skip-outbound-networks=0.0.0.0/0"] {
        let mut own = own.clone();
        own["spec"]["initContainers"][0]["args"].as_array_mut().unwrap().push(skips.into());
        assert!(refused(&own, &strict)[0].contains("that do not redirect everything"), "{skips}");
    }
    // Of two variables with one name the kubelet takes the last.
    let mut own = own;
    let env = own["spec"]["initContainers"][1]["env"].as_array_mut().unwrap();
    env.push(json!({"name": "PORTCULLIS_OUTBOUND_MODE", "value": "on"}));
    assert!(refused(&own, &strict)[0].contains("that have another outbound mode"));
}

#[test]
fn what_is_injected_is_taken_for_it_where_ways_around_are_refused() {
    for mut settings in [settings(true), on(true)] {
        settings.bypass = Bypass::Refuse;
        let pod = web("{portcullis.dev/skip-outbound-ports: '25'}");
        let (pod, _) = injected(&pod, &asks(), &settings);
        let again = inject(&pod, &asks(), &settings);
        assert!(
            matches!(again, Outcome::Skipped { reason: SkipReason::AlreadyInjected { .. }, .. }),
            "{again:?}"
        );
        let mut forged = pod;
        let list = forged["spec"]["initContainers"].as_array_mut().unwrap();
        list[0]["args"].as_array_mut().unwrap().push("--skip-outbound-ports=1-65535".into());
        let Outcome::Refused(errors) = inject(&forged, &asks(), &settings) else { panic!("taken") };
        assert_eq!(errors[0].field, "spec.initContainers[0].args");
    }
}
