//! Where no pod can have the outbound half.

use super::super::{asks, injected, settings};
use super::{arguments, mark, marked, on, web, with};
use crate::injector::{Outcome, inject};
use policy_crds::OutboundMode;

#[test]
fn an_ordinary_container_has_no_outbound_half_and_the_author_is_told() {
    let (pod, warnings) = injected(&web("{}"), &asks(), &on(false));
    assert_eq!(mark(&pod), marked(OutboundMode::None));
    assert_eq!(arguments(&pod), Vec::<&str>::new());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let words = "--injector-default=outbound: the outbound half needs a native sidecar, and this one is \
                 an ordinary container, so that what the pod sends is left alone";
    assert!(warnings[0].starts_with(words), "{warnings:?}");
    let (plain, _) = injected(&web("{}"), &asks(), &settings(false));
    assert_eq!(pod, plain);
    let strict = with("portcullis.dev/outbound: mesh-only");
    let Outcome::Refused(errors) = inject(&web("{}"), &strict, &settings(false)) else {
        panic!("not refused")
    };
    let words = "Namespace shop: metadata.annotations[\"portcullis.dev/outbound\"]: `mesh-only` needs a \
                 native sidecar (Kubernetes 1.29), and this one is an ordinary container; what the pod \
                 sends could not be held to it";
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [words]);
}

/// Every connection of such a pod would be refused.
#[test]
fn without_discovery_no_pod_has_the_outbound_half_and_the_author_is_told() {
    let mut unanswered = on(true);
    unanswered.outbound.is_unanswered = true;
    let (pod, warnings) = injected(&web("{}"), &asks(), &unanswered);
    let words = "--injector-default=outbound: the outbound half needs outbound discovery, which this \
                 controller has off (--outbound-discovery), so that what the pod sends is left alone: \
                 its connections would be refused";
    assert_eq!(warnings, [words]);
    let (plain, _) = injected(&web("{}"), &asks(), &settings(true));
    assert_eq!(pod, plain);
    let strict = with("portcullis.dev/outbound: mesh-only");
    let Outcome::Refused(errors) = inject(&web("{}"), &strict, &unanswered) else {
        panic!("not refused")
    };
    let words = "Namespace shop: metadata.annotations[\"portcullis.dev/outbound\"]: `mesh-only` needs \
                 outbound discovery, which this controller has off (--outbound-discovery); what the pod \
                 sends could not be held to it";
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [words]);
}
