//! The effective value of each setting for a pod: its own, its namespace's or the installation's.

use super::element::texts;
use super::opt_in::{NamespaceContext, StringMap};
use super::outbound::{self, Outbound};
use super::outbound_settings::Hindrance;
use super::ports::{NamedPorts, PortList, named};
use super::resources::{self, PAIRS};
use super::setting::{MESH_ONLY, Setting};
use super::sidecar::{ADMIN_PORT, INBOUND_PORT};
use super::value::Stated;
use policy_crds::{FieldError, annotation};
use serde_json::Value;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Default values of settings that neither pod nor namespace specifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults(BTreeMap<Setting, String>);

impl Default for Defaults {
    fn default() -> Self {
        let values = [
            (Setting::ProxyImage, "ghcr.io/portcullis/proxy"),
            (Setting::ProxyVersion, env!("CARGO_PKG_VERSION")),
            (Setting::InitImage, "ghcr.io/portcullis/init"),
            (Setting::ImagePullPolicy, "IfNotPresent"),
            (Setting::ProxyLogLevel, "info"),
            (Setting::ProxyLogFormat, "plain"),
            (Setting::ProxyCpuRequest, "10m"),
            (Setting::ProxyMemoryRequest, "16Mi"),
            (Setting::InitCpu, "100m"),
            (Setting::InitMemory, "32Mi"),
        ];
        Self(values.into_iter().map(|(setting, text)| (setting, text.to_owned())).collect())
    }
}

impl Defaults {
    /// Replaces a default.
    pub fn set(&mut self, Preset(setting, text): Preset) {
        match text.is_empty() {
            true => self.0.remove(&setting),
            false => self.0.insert(setting, text),
        };
    }
}

/// A default of an installation, `SETTING=VALUE`; an empty value removes the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset(Setting, String);

impl FromStr for Preset {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let (name, text) = given.split_once('=').ok_or("expected SETTING=VALUE")?;
        let Some(setting) = Setting::find(name) else {
            let known = Setting::ALL.map(Setting::name);
            let opens = |near: &&str| {
                let harmless = Setting::find(near).and_then(Setting::harmless_value);
                harmless.is_some_and(|harmless| harmless != text)
            };
            return Err(match policy_crds::nearest(name, &known).filter(|near| !opens(near)) {
                Some(near) => format!("there is no setting `{name}`; did you mean `{near}`?"),
                None => format!("there is no setting `{name}`; there are {}", known.join(", ")),
            });
        };
        let needed = [Setting::ProxyImage, Setting::ProxyVersion, Setting::InitImage];
        if !text.is_empty() || needed.contains(&setting) {
            // Named ports exist only in a pod, not cluster-wide.
            setting
                .read(text, &NamedPorts::new())
                .map_err(|error| format!("{setting}: {error}"))?;
        }
        Ok(Self(setting, text.to_owned()))
    }
}

/// The effective configuration of a pod.
#[derive(Clone, Debug)]
pub(super) struct EffectiveConfig {
    values: BTreeMap<Setting, Stated>,
    /// Ports that are not redirected.
    pub(super) skipped: PortList,
    /// The outbound half.
    pub(super) outbound: Outbound,
    /// Warnings for the pod's author.
    pub(super) warnings: Vec<String>,
}

impl EffectiveConfig {
    /// Determines the settings of a pod. `hindrance`: the reason why none can have the outbound half.
    ///
    /// # Errors
    /// Every annotation with an invalid value.
    pub(super) fn of(
        pod: &Value,
        annotations: &StringMap,
        context: &NamespaceContext,
        defaults: &Defaults,
        hindrance: Option<Hindrance>,
    ) -> Result<Self, Vec<FieldError>> {
        let named = named(pod);
        let (mut values, mut errors) = (BTreeMap::new(), Vec::new());
        for setting in Setting::ALL {
            match stated(setting, annotations, context, defaults, &named) {
                Ok(stated) => values.extend(stated.map(|stated| (setting, stated))),
                Err(more) => errors.extend(more),
            }
        }
        // Requests beside those of the pod as a whole would exceed them, and an API server refuse the pod.
        values.retain(|setting, stated: &mut Stated| {
            !(stated.is_default && resources::is_of_whole_pod(*setting, pod))
        });
        let open = values.get(&Setting::PendingPolicy).is_some_and(|said| said.value == "default");
        if open && !values.contains_key(&Setting::PendingDefaultPolicy) {
            let (setting, needed) = (Setting::PendingPolicy, Setting::PendingDefaultPolicy);
            let field = annotation::field(&setting.annotations().concat());
            let message = format!("`default` needs {needed}, which says which one");
            errors.push(FieldError { field, message });
        }
        for (request, limit) in PAIRS {
            let (Some(request), Some(limit)) = (values.get(&request), values.get(&limit)) else {
                continue;
            };
            let stated = if request.is_default { limit } else { request };
            if let Some(message) = resources::message(&request.value, &limit.value) {
                errors.push(FieldError { field: stated.field.clone(), message });
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let value = |setting| values.get(&setting);
        let skipped = value(Setting::SkipOutboundPorts);
        let (outbound, warnings) = Outbound::of(value(Setting::Outbound), skipped, hindrance)?;
        let list = value(Setting::SkipInboundPorts).map_or("", |stated| &stated.value);
        // A list such as `1-8887,8889-65535` means the application's ports. If it took the sidecar's
        // own ones out of the redirection, its probes would go unanswered and the pod never start.
        let own = [&[INBOUND_PORT, ADMIN_PORT], outbound.taken_ports()].concat();
        let skipped = PortList::read(list, &named).unwrap_or_default().without(&own);
        Ok(Self { values, skipped, outbound, warnings })
    }

    /// True if connections to this port of others are said to go around the sidecar.
    pub(super) fn skips_call(&self, port: u16) -> bool {
        let list = self.get(Setting::SkipOutboundPorts).unwrap_or_default();
        PortList::numbers(list).is_ok_and(|list| list.contains(port))
    }

    /// Returns the value of a setting, if it has one.
    pub(super) fn get(&self, setting: Setting) -> Option<&str> {
        let value = self.values.get(&setting).map(|stated| stated.value.as_str());
        value.filter(|value| !value.is_empty())
    }
}

/// True if a pod has to have `mesh-only`.
///
/// # Errors
/// The values cannot be read, or contradict each other.
pub(super) fn is_mesh_only(
    annotations: &StringMap,
    context: &NamespaceContext,
    defaults: &Defaults,
) -> Result<bool, Vec<FieldError>> {
    let none = NamedPorts::new();
    let mode = stated(Setting::Outbound, annotations, context, defaults, &none)?;
    Ok(mode.is_some_and(|mode| mode.value == MESH_ONLY))
}

/// Returns the value of a setting: the pod's own, its namespace's or the installation's.
fn stated(
    setting: Setting,
    annotations: &StringMap,
    context: &NamespaceContext,
    defaults: &Defaults,
    named: &NamedPorts,
) -> Result<Option<Stated>, Vec<FieldError>> {
    let around = || {
        let place = context.place();
        let shared = annotated_value(setting, &context.annotations, &place, named, true)?;
        Ok(shared.or_else(|| default_value(setting, defaults, named)))
    };
    match annotated_value(setting, annotations, "", named, false)? {
        None => around(),
        Some(own) if setting == Setting::Outbound => outbound::not_loosened(own, around()?),
        own => Ok(own),
    }
}

/// True if the pod or its namespace states a setting, so that no default counts.
pub(super) fn is_annotated(setting: Setting, pod: &Value, context: &NamespaceContext) -> bool {
    let own = texts(pod.pointer("/metadata/annotations"));
    let names = setting.annotations();
    names.iter().any(|name| own.contains_key(name) || context.annotations.contains_key(name))
}

/// Returns the installation's default of a setting.
fn default_value(setting: Setting, defaults: &Defaults, named: &NamedPorts) -> Option<Stated> {
    let value = setting.read(defaults.0.get(&setting)?, named).ok()?;
    Some(Stated { field: format!("--injector-default={setting}"), value, is_default: true })
}

/// Returns the value in the annotations of one object. In annotations `shared` by pods, a list of
/// ports may name some that this pod lacks.
fn annotated_value(
    setting: Setting,
    annotations: &StringMap,
    place: &str,
    named: &NamedPorts,
    shared: bool,
) -> Result<Option<Stated>, Vec<FieldError>> {
    let (mut stated, mut errors): (Option<(String, Stated)>, _) = (None, Vec::new());
    for name in setting.annotations() {
        let Some(text) = annotations.get(&name) else { continue };
        let field = format!("{place}{}", annotation::field(&name));
        let text = if shared { setting.of_this_pod(text, named) } else { text.clone() };
        match (setting.read(&text, named), &stated) {
            (Err(message), _) => errors.push(FieldError { field, message }),
            (Ok(read), Some((other, before))) if before.value != read => {
                let message = format!(
                    "`{text}` differs from `{other}` on the same object: give one of them, or both \
                     the same value"
                );
                errors.push(FieldError { field, message });
            }
            (Ok(_), Some(_)) => {}
            (Ok(value), None) => stated = Some((name, Stated { field, value, is_default: false })),
        }
    }
    if errors.is_empty() { Ok(stated.map(|(_, stated)| stated)) } else { Err(errors) }
}
