//! The services of a file that are imported.

use super::descriptor::Declared;
use policy_crds::{nearest, quote};
use std::collections::BTreeMap;

/// The services and names that a user chooses.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcChoice<'a> {
    /// Names of services, with their packages; empty: every service that has methods.
    pub services: &'a [String],
    /// Name of the object, if it is not derived from that of the service.
    pub name: Option<&'a str>,
    /// Namespace of the objects.
    pub namespace: Option<&'a str>,
}

/// The services that are imported, and those that are left out because they have no methods.
#[derive(Debug)]
pub(super) struct Chosen<'a, 'b> {
    pub(super) services: Vec<&'a Declared<'b>>,
    pub(super) empty: Vec<&'a Declared<'b>>,
}

impl GrpcChoice<'_> {
    /// The services to describe.
    ///
    /// # Errors
    /// One is not there, is declared twice or has no methods; none is left; or a name is for several.
    pub(super) fn of<'a, 'b>(
        &self,
        all: &'a [Declared<'b>],
    ) -> Result<Chosen<'a, 'b>, Vec<String>> {
        let absent = self.services.iter().filter(|name| !all.iter().any(|one| one.name == **name));
        let mut errors: Vec<String> = absent.map(|name| no_such_service(name, all)).collect();
        let wanted = |one: &&Declared<'_>| self.services.contains(&one.name);
        let wanted: Vec<&Declared<'_>> =
            all.iter().filter(|one| self.services.is_empty() || wanted(one)).collect();
        errors.extend(declared_twice(&wanted));
        let (services, empty): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|one| !one.methods.is_empty());
        let place = |one: &&Declared<'_>| one.place();
        if !self.services.is_empty() {
            errors.extend(empty.iter().map(place).map(|place| {
                format!("{place}: it has no methods, and a GrpcService without methods is for all")
            }));
        } else if services.is_empty() {
            errors.push("declares no service that has methods".to_owned());
        }
        if self.name.is_some() && services.len() > 1 {
            let count = services.len();
            errors.push(format!("--name is for one service of {count}: choose it with --service"));
        }
        if errors.is_empty() { Ok(Chosen { services, empty }) } else { Err(errors) }
    }
}

/// Services that are declared more than once, as in two sets one behind the other.
fn declared_twice(services: &[&Declared<'_>]) -> Vec<String> {
    let mut first: BTreeMap<&str, &Declared<'_>> = BTreeMap::new();
    let mut errors = Vec::new();
    for one in services {
        if let Some(other) = first.insert(&one.name, one) {
            let file = quote(other.file);
            errors.push(format!("{}: it is declared in {file} already", one.place()));
        }
    }
    errors
}

/// The most names in a message.
const MAX_NAMES: usize = 10;

fn no_such_service(name: &str, all: &[Declared<'_>]) -> String {
    let names: Vec<&str> = all.iter().map(|one| &*one.name).collect();
    // The package is what people leave out.
    let without_package = names
        .iter()
        .copied()
        .find(|full| full.strip_suffix(name).is_some_and(|package| package.ends_with('.')));
    let declared = match without_package.or_else(|| nearest(name, &names)) {
        Some(meant) => format!("did you mean {}?", quote(meant)),
        None if names.is_empty() => "it declares none".to_owned(),
        None => {
            let listed = names.iter().take(MAX_NAMES).map(|name| quote(name));
            let listed = listed.collect::<Vec<_>>().join(", ");
            let more = if names.len() > MAX_NAMES { " and others" } else { "" };
            format!("it declares {listed}{more}")
        }
    };
    format!("declares no service {}; {declared}", quote(name))
}
