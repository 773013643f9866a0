//! Mistakes in annotations that policy depends on.

use crate::config::ControllerConfig;
use policy_crds::annotation::{self, AnnotationReading, Annotations, PortsByName};
use policy_crds::resource::{ContainerPort, Pod, PodSidecar};
use policy_crds::{
    Body, Capture, FieldError, Kind, Object, ObjectMeta, Resource, SidecarMark, server_annotation,
};
use std::num::NonZeroU16;

/// Errors in the annotations of a valid object. They never make it invalid: each error says what
/// holds until the annotation is corrected.
pub fn annotation_errors(object: &Object) -> Vec<FieldError> {
    annotation_errors_in(object, AnnotationReading::default())
}

/// Returns the errors where annotations are read in this way.
pub(crate) fn annotation_errors_in(object: &Object, reading: AnnotationReading) -> Vec<FieldError> {
    let ObjectMeta { key, annotations, .. } = &object.meta;
    match &object.body {
        Body::Valid(Resource::Pod(pod)) => {
            let mut errors = workload_annotations(annotations, &ports(pod), "", reading);
            errors.extend(mark_error(pod, &key.namespace, annotations));
            errors
        }
        Body::Valid(Resource::Workload(workload)) => {
            let path = if key.kind == Kind::CronJob {
                "spec.jobTemplate.spec.template."
            } else {
                "spec.template."
            };
            workload_annotations(&workload.annotations, &ports(&workload.pod), path, reading)
        }
        Body::Valid(Resource::ExternalWorkload(workload)) => {
            let ports = |name: &str| {
                annotation::own_name(workload.named_ports.get(name).map(|number| vec![*number]))
            };
            workload_annotations(annotations, &ports, "", reading)
        }
        Body::Valid(Resource::Namespace) => {
            let mut errors = annotation::default_policy(annotations, reading).errors;
            errors.extend(annotation::undeclared_ports(annotations).errors);
            // Which names there are, its workloads decide.
            let any = |name: &str| annotation::shared_name(name, None);
            errors.extend(port_lists(annotations, &any, reading));
            errors
        }
        Body::Valid(Resource::Server(_)) => {
            let mut errors = server_annotation::path_normalization(annotations).errors;
            errors.extend(server_annotation::informational_headers(annotations).errors);
            errors.extend(server_annotation::upstream_reuse(annotations).errors);
            errors
        }
        Body::Valid(_) | Body::Invalid(_) => Vec::new(),
    }
}

/// The consequence of a mark that does not count.
const UNREACHED: &str = "clients in the mesh cannot reach the pod until it is created anew";

/// The fault of a mark that names another.
const NOT_ITS_OWN: &str = "is not that of the pod's ServiceAccount";

/// The mark of a sidecar that cannot be read. Marks are of pods, whose injector wrote them.
fn mark_error(pod: &Pod, namespace: &str, annotations: &Annotations) -> Option<FieldError> {
    let text = annotations.get(annotation::SIDECAR_MARK);
    let text = text.filter(|_| pod.sidecar == PodSidecar::Unreadable)?;
    let FieldError { field, message } = match SidecarMark::parse(text) {
        Err(error) => error,
        Ok(mark) => contradiction(&mark, pod, namespace),
    };
    Some(FieldError { field, message: format!("{message}; {UNREACHED}") })
}

/// The mark of a sidecar that names another, which parsing cannot see: it does not know the trust domains.
pub(crate) fn foreign_mark(object: &Object, config: &ControllerConfig) -> Option<FieldError> {
    let Body::Valid(Resource::Pod(pod)) = &object.body else { return None };
    let PodSidecar::Marked(mark) = &pod.sidecar else { return None };
    names_another(config, object, pod, mark).then(|| FieldError {
        field: format!("{}.identity", annotation::field(annotation::SIDECAR_MARK)),
        message: format!(
            "{NOT_ITS_OWN} in a trust domain of this mesh or of its peers; {UNREACHED}"
        ),
    })
}

/// True if a mark states an identity that is not that of the pod's ServiceAccount, in this mesh or in one
/// that pods may come from. It is forged: by it the bytes of clients could reach another, under its name.
pub(crate) fn names_another(
    config: &ControllerConfig,
    object: &Object,
    pod: &Pod,
    mark: &SidecarMark,
) -> bool {
    let namespace = &object.meta.key.namespace;
    let is_own =
        |identity: &str| config.may_be_identity_of(identity, namespace, &pod.service_account);
    mark.identity.as_deref().is_some_and(|identity| !is_own(identity))
}

/// What the rest of the pod says otherwise than its mark.
fn contradiction(mark: &SidecarMark, pod: &Pod, namespace: &str) -> FieldError {
    let (name, message) = match mark.capture {
        _ if !mark.is_of(namespace, &pod.service_account) => ("identity", NOT_ITS_OWN),
        Capture::InitContainer => {
            ("skippedInboundPorts", "differ from the ports that the init container leaves out")
        }
        Capture::Plugin => ("capture", "is by the init container, which the pod has"),
    };
    let field = format!("{}.{name}", annotation::field(annotation::SIDECAR_MARK));
    FieldError { field, message: message.to_owned() }
}

fn ports(pod: &Pod) -> impl Fn(&str) -> Result<Vec<NonZeroU16>, &'static str> {
    |name: &str| {
        let named = |port: &&ContainerPort| port.name.as_deref() == Some(name);
        let numbers: Vec<_> = pod.ports.iter().filter(named).map(|port| port.number).collect();
        annotation::own_name(Some(numbers).filter(|numbers| !numbers.is_empty()))
    }
}

fn workload_annotations(
    annotations: &Annotations,
    named: &PortsByName<'_>,
    path: &str,
    reading: AnnotationReading,
) -> Vec<FieldError> {
    let mut errors = annotation::default_policy(annotations, reading).errors;
    errors.extend(annotation::undeclared_ports(annotations).errors);
    errors.extend(annotation::admin_port(annotations).errors);
    errors.extend(port_lists(annotations, named, reading));
    errors.extend(annotation::logs(annotations).errors);
    for error in &mut errors {
        error.field = format!("{path}{}", error.field);
    }
    errors
}

fn port_lists(
    annotations: &Annotations,
    named: &PortsByName<'_>,
    reading: AnnotationReading,
) -> Vec<FieldError> {
    let (opaque, identity) = if reading.voids_lists {
        let list = |name| annotation::ports_as_linkerd(annotations, name);
        (list(annotation::OPAQUE_PORTS), list(annotation::REQUIRE_IDENTITY))
    } else {
        let opaque = annotation::opaque_ports(annotations, named);
        (opaque, annotation::require_identity_ports(annotations, named))
    };
    [opaque.errors, identity.errors].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_mark_that_cannot_be_read_is_reported_on_the_pod_whose_sidecar_it_is_about() {
        let of = |label: &str, mark: &str| {
            let pod = testing::object(&format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: web, namespace: shop, labels: \
                 {{portcullis.dev/proxy: {label}}}, annotations: {{portcullis.dev/sidecar: \
                 '{mark}'}}}}, spec: {{containers: [{{name: web}}]}}}}"
            ));
            let errors = annotation_errors(&pod);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let mark = r#"{"version":"1","inboundPort":4143,"outbound":"on","capture":"cni-plugin"}"#;
        assert_eq!(of("injected", mark), [""; 0]);
        assert_eq!(of("other", "{}"), [""; 0]);
        let foreign = mark.replace("{", r#"{"identity":"db.bank.serviceaccount.identity.x.y","#);
        assert_eq!(
            of("injected", &foreign),
            [
                "metadata.annotations[\"portcullis.dev/sidecar\"].identity: is not that of the pod's \
              ServiceAccount; clients in the mesh cannot reach the pod until it is created anew"
            ]
        );
        assert_eq!(
            of("injected", "{}"),
            [
                "metadata.annotations[\"portcullis.dev/sidecar\"].inboundPort: is required; clients in \
              the mesh cannot reach the pod until it is created anew"
            ]
        );
    }
}
