//! Port names in a Namespace's annotations that no workload of it has. They may be mistyped, and
//! the intended ports are then not covered.

use super::context::CheckContext;
use super::finding::{Finding, Undetermined};
use crate::cluster::undetermined;
use policy_crds::annotation::{self, OPAQUE_PORTS, REQUIRE_IDENTITY};
use policy_crds::{Body, Kind, Object, Resource, nearest};
use std::collections::BTreeSet;
use std::sync::Arc;

const WORKLOADS: [Kind; 2] = [Kind::Pod, Kind::ExternalWorkload];

pub(super) fn findings(
    context: &CheckContext<'_>,
    undetermined: &mut Vec<Undetermined>,
) -> Vec<Finding> {
    let objects = context.compiled.objects.iter();
    let namespaces = objects.filter(|o| matches!(o.body, Body::Valid(Resource::Namespace)));
    let mut findings = Vec::new();
    for namespace in namespaces {
        let lists = [OPAQUE_PORTS, REQUIRE_IDENTITY].into_iter();
        let named =
            lists.map(|list| (list, annotation::shared_names(&namespace.meta.annotations, list)));
        let named: Vec<_> = named.filter(|(_, names)| !names.is_empty()).collect();
        if named.is_empty() {
            continue;
        }
        let key = &namespace.meta.key;
        if let Some(missing) =
            undetermined::of_kinds(&WORKLOADS, &key.name, context.permissions).first()
        {
            let message = format!(
                "whether its workloads have ports of the names that it lists is not known, because \
                 {missing} may not be listed"
            );
            undetermined.push(Undetermined { object: key.clone(), message, decides: true });
            continue;
        }
        let Some(ports) = port_names(context, &key.name) else { continue };
        for (list, names) in named {
            let strange = names.into_iter().filter(|name| !ports.contains(*name));
            let message = |name: &str| without_port(name, &ports);
            let field = annotation::field(list);
            let warning = |name: &str| Finding::warning(key, field.clone(), message(name));
            findings.extend(strange.map(warning));
        }
    }
    findings
}

fn without_port(name: &str, ports: &BTreeSet<Arc<str>>) -> String {
    let ports: Vec<&str> = ports.iter().map(|port| &**port).collect();
    let hint = nearest(name, &ports).map(|near| format!("; did you mean `{near}`?"));
    format!("`{name}` is the name of no port of a workload here{}", hint.unwrap_or_default())
}

/// Port names of a namespace's workloads; `None` if there are no workloads.
fn port_names(context: &CheckContext<'_>, namespace: &str) -> Option<BTreeSet<Arc<str>>> {
    let inside = |object: &&Arc<Object>| {
        let key = &object.meta.key;
        WORKLOADS.contains(&key.kind) && &*key.namespace == namespace
    };
    let mut workloads = context.compiled.objects.iter().filter(inside).peekable();
    workloads.peek()?;
    let mut names = BTreeSet::new();
    for workload in workloads {
        match &workload.body {
            Body::Valid(Resource::Pod(pod)) => {
                names.extend(pod.ports.iter().filter_map(|port| port.name.clone()));
            }
            Body::Valid(Resource::ExternalWorkload(workload)) => {
                names.extend(workload.named_ports.keys().cloned());
            }
            // Its ports are unknown, and may have any name.
            Body::Valid(_) | Body::Invalid(_) => return None,
        }
    }
    Some(names)
}
