//! Classes: the routes that they select, and the conditions under which they do.

use super::binding::{BindingOutcome, bindings_of, includers, is_binding, outcome, server_of};
use crate::incremental::{Context, query};
use crate::index::Edge;
use crate::query::grant::CreationOrder;
use crate::query::requests::{ClassSelection, ClassSelectionOf, DescribedRoute, DescribedRoutes};
use policy_crds::resource::{RouteSelector, Selection};
use policy_crds::{Body, Kind, Object, ObjectKey, Resource};
use std::collections::BTreeSet;
use std::sync::Arc;

query!(ClassSelectionOf, Arc<ClassSelection>, selection);

/// A class, and the object among whose routes it selects.
pub(super) struct Class<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) rank: CreationOrder,
    selector: &'a RouteSelector,
}

/// The valid classes of a Server or of a service, oldest first.
pub(super) fn classes_of<'a>(cx: &mut Context<'a>, target: &ObjectKey) -> Vec<Class<'a>> {
    let naming = cx.edge(Edge::Target(target.clone()));
    let objects: Vec<&'a Arc<Object>> =
        naming.into_iter().filter_map(|key| cx.object(key)).collect();
    let mut classes: Vec<Class<'a>> =
        objects.into_iter().filter_map(|object| class(object)).collect();
    classes.retain(|class| class.key.namespace == target.namespace);
    classes.sort_by(|one, other| one.rank.cmp(&other.rank));
    classes
}

fn class(object: &Object) -> Option<Class<'_>> {
    let selector = match &object.body {
        Body::Valid(Resource::HttpRouteClass(class)) => &class.selector,
        Body::Valid(Resource::GrpcServiceClass(class)) => &class.selector,
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    Some(Class { key: &object.meta.key, rank: CreationOrder::of(&object.meta), selector })
}

impl Class<'_> {
    /// The requests of a route that it selects.
    pub(super) fn selects(&self, route: &DescribedRoute) -> Selection {
        self.selector.select(&route.selectable())
    }
}

fn selection(query: &ClassSelectionOf, cx: &mut Context<'_>) -> Arc<ClassSelection> {
    let mut found = ClassSelection::default();
    let Some(object) = cx.object(&query.0) else { return Arc::new(found) };
    let (Some(class), Some(bindings)) = (class(object), bindings(cx, object)) else {
        return Arc::new(found);
    };
    for binding in bindings {
        let Some(binding) = cx.object(binding) else { continue };
        let Some(BindingOutcome::Effective(effective)) = outcome(cx, binding) else { continue };
        // A broken binding permits nothing.
        if !effective.permits() {
            continue;
        }
        if class.is_met(&effective.routes, service_of(object).as_ref(), &mut found) {
            found.servers.extend(server_of(binding));
        }
    }
    Arc::new(found)
}

impl Class<'_> {
    /// True if it selects one of these routes, of this service where it names one.
    fn is_met(
        &self,
        routes: &DescribedRoutes,
        service: Option<&ObjectKey>,
        found: &mut ClassSelection,
    ) -> bool {
        let mut met = false;
        let of_service =
            |route: &DescribedRoute| service.is_none_or(|service| route.holder == *service);
        for route in routes.each().filter(of_service) {
            match self.selector.select(&route.selectable()) {
                Selection::Always | Selection::When(_) => met = true,
                Selection::Never => {}
                Selection::Inexpressible(reason) => {
                    let path = || (Arc::from(route.path.as_str()), reason);
                    found.inexpressible.get_or_insert_with(path);
                }
            }
        }
        met
    }
}

/// The service of a GrpcServiceClass.
fn service_of(class: &Object) -> Option<ObjectKey> {
    match &class.body {
        Body::Valid(Resource::GrpcServiceClass(own)) => {
            Some(class.meta.key.beside(Kind::GrpcService, &own.service))
        }
        Body::Valid(_) | Body::Invalid(_) => None,
    }
}

/// The bindings among whose routes a class selects: those of its Server, or those of its namespace that
/// name its service.
fn bindings<'a>(cx: &mut Context<'a>, class: &Object) -> Option<BTreeSet<&'a ObjectKey>> {
    let key = &class.meta.key;
    let found = match &class.body {
        Body::Valid(Resource::HttpRouteClass(own)) => {
            let server = key.beside(Kind::Server, &own.server);
            let mut all = bindings_of(cx, &server);
            all.retain(|binding| binding.kind == Kind::HttpRouteBinding);
            all
        }
        Body::Valid(Resource::GrpcServiceClass(_)) => {
            let mut all = includers(cx, &service_of(class)?);
            all.retain(|binding| is_binding(binding.kind) && binding.namespace == key.namespace);
            all
        }
        Body::Valid(_) | Body::Invalid(_) => return None,
    };
    Some(found.into_iter().collect())
}
