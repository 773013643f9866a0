//! The MutatingWebhookConfiguration.

use crate::admission::{Installation, Target};
use crate::injector::injector_configuration;

#[test]
fn the_documented_configuration_is_the_one_that_is_made() {
    let installation = Installation {
        name: "portcullis-injector".to_owned(),
        namespace: "portcullis".to_owned(),
        target: Target::Service { name: "policy-admission".to_owned(), port: 443 },
        ca_bundle: None,
    };
    let made = serde_json::to_value(injector_configuration(&installation, false)).unwrap();
    let text = format!(
        "# Written by `PORTCULLIS_WRITE_DOCS=1 cargo test -p policy-controller --lib injector`: which\n\
         # pods the API server asks the injector about. The controller fills in caBundle where it\n\
         # makes its certificate itself; with certificates of your own, write caBundle here.\n{}",
        policy_crds::render::yaml(&made)
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/injector-webhook.yaml");
    if std::env::var_os("PORTCULLIS_WRITE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let documented = std::fs::read_to_string(path).unwrap();
    assert_eq!(documented, text, "run the test with PORTCULLIS_WRITE_DOCS=1");
}

#[test]
fn nobody_is_asked_about_the_control_plane_or_the_system() {
    let installation = Installation {
        name: "i".to_owned(),
        namespace: "mesh".to_owned(),
        target: Target::Url("https://a/inject".to_owned()),
        ca_bundle: None,
    };
    for webhook in injector_configuration(&installation, false).webhooks.unwrap() {
        let expressions = webhook.namespace_selector.unwrap().match_expressions.unwrap();
        let excluded = expressions
            .iter()
            .find(|e| e.key == "kubernetes.io/metadata.name" && e.operator == "NotIn");
        let excluded = excluded.unwrap();
        assert_eq!(excluded.values, Some(vec!["kube-system".to_owned(), "mesh".to_owned()]));
        assert_eq!(webhook.client_config.url.as_deref(), Some("https://a/inject"));
    }
}

#[test]
fn pods_that_ask_linkerds_injector_alone_are_not_sent_unless_its_annotation_asks_ours() {
    let installation = Installation {
        name: "i".to_owned(),
        namespace: "mesh".to_owned(),
        target: Target::Url("https://a/inject".to_owned()),
        ca_bundle: None,
    };
    let condition = |reads_linkerd: bool| {
        let webhooks = injector_configuration(&installation, reads_linkerd).webhooks.unwrap();
        let mut all = webhooks.into_iter().flat_map(|webhook| webhook.match_conditions.unwrap());
        all.find(|condition| condition.name == "asks").unwrap().expression
    };
    let expected = |names: &str| {
        format!(
            "has(object.metadata.annotations) && object.metadata.annotations.exists(a, \
             a in [{names}] || a.startsWith('portcullis.dev/'))"
        )
    };
    assert_eq!(condition(false), expected("'portcullis.dev/inject'"));
    assert_eq!(condition(true), expected("'portcullis.dev/inject', 'linkerd.io/inject'"));
}
