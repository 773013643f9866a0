//! The definition of ExternalWorkload (docs/spec/controller.md 1.8).

use crate::kind::Kind;
use crate::render::definition::{Definition, Status, Version};
use crate::render::profile::Profile;
use crate::render::schema::{
    integer, list, list_of, object, one_of, or, port, set, text, text_up_to, time,
};
use serde_json::{Value, json};

const OLD_IDENTITY: (&str, &str, &str) = ("Identity", "string", ".spec.meshTls.identity");
const IDENTITY: (&str, &str, &str) = ("Identity", "string", ".spec.meshTLS.identity");
const AGE: (&str, &str, &str) = ("Age", "date", ".metadata.creationTimestamp");

pub(crate) fn definition(profile: Profile) -> Definition {
    let old = Version {
        name: "v1alpha1",
        storage: false,
        deprecated: None,
        columns: &[OLD_IDENTITY, AGE],
        spec: external_workload("meshTls", 1),
        status: Status::Inline(workload_status(profile)),
    };
    let new = Version {
        name: "v1beta1",
        storage: true,
        deprecated: None,
        columns: &[IDENTITY, AGE],
        spec: external_workload("meshTLS", 2),
        status: Status::Always(workload_status(profile)),
    };
    Definition {
        kind: Kind::ExternalWorkload,
        short_names: &[],
        categories: &["external"],
        versions: vec![old, new],
    }
}

fn external_workload(mesh: &str, addresses: u32) -> Value {
    let identity = object(
        "How the workload proves who it is.",
        &[
            ("identity", text_up_to("Its identity.", 253)),
            ("serverName", text_up_to("Its name in TLS.", 253)),
        ],
        &["identity", "serverName"],
    );
    let one_port = object(
        "A port.",
        &[
            ("name", text("Its name.")),
            ("port", port("Its number.")),
            ("protocol", or(text("Its protocol."), json!("TCP"))),
        ],
        &["port"],
    );
    let address = object("An address.", &[("ip", text("IPv4 or IPv6."))], &["ip"]);
    object(
        "A workload outside the cluster.",
        &[
            (mesh, identity),
            ("ports", list("Its ports.", one_port)),
            ("workloadIPs", list_of("Its addresses.", address, None, Some(addresses))),
        ],
        &[mesh],
    )
}

/// Linkerd's conditions do not say which generation they are about, and are one list for all.
fn workload_status(profile: Profile) -> Value {
    let mut fields = vec![
        ("type", text("Type of the condition.")),
        ("status", one_of("Status of the condition.", &["True", "False", "Unknown"])),
        ("reason", text("Reason, in one word for programs.")),
        ("message", text("Message for people.")),
        ("lastProbeTime", time("When it was last looked at.")),
        ("lastTransitionTime", time("Time of the last change of the status.")),
    ];
    if profile == Profile::Portcullis {
        let about = "The generation of the workload that this is about.";
        fields.push(("observedGeneration", integer(about, "int64", Some(0), None)));
    }
    let condition = object("One statement about the workload.", &fields, &["type", "status"]);
    let mut conditions = list("Statements about the workload.", condition);
    if profile == Profile::Portcullis {
        set(&mut conditions, "x-kubernetes-list-type", json!("map"));
        set(&mut conditions, "x-kubernetes-list-map-keys", json!(["type"]));
    }
    object("Status of this object.", &[("conditions", conditions)], &[])
}
