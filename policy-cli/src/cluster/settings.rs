//! Settings of the controller from its flags. Policies depend on them as much as on objects.

use super::controller::{ControllerPod, PodFlags, find};
use super::{Cluster, error_chain};
use anyhow::anyhow;
use clap::{Args, Parser};
use policy_controller::args;
use policy_controller::args::{Cli, Command, IssuerArgs, SourceSettings};
use policy_core::DefaultPolicy;
use policy_crds::{Kind, ObjectKey};
use policy_engine::ControllerConfig;
use policy_engine::compatibility::{DIFFERENCES, with_ours, with_preset};
use policy_kube::source::Scope;
use serde::Serialize;
use serde_json::Value;

/// Name of the source of default settings.
const DEFAULTS: &str = "the controller's defaults";

/// Flags that override the controller's settings.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SettingsFlags {
    /// Default policy of the cluster [default: that of the controller found there;
    /// all-unauthenticated]
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    default_policy: Option<DefaultPolicy>,

    /// Namespace of the control plane, which is part of every mesh identity [default: that of the
    /// controller found there; of manifests: portcullis]
    #[arg(long, value_name = "NAMESPACE")]
    control_plane_namespace: Option<String>,

    /// Trust domain that ends every mesh identity [default: that of the controller found there;
    /// cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    identity_domain: Option<String>,

    /// Set every difference from Linkerd to Linkerd's behaviour, also those that the controller's own
    /// flags set
    #[arg(long)]
    linkerd_compatible: bool,

    /// Differences from Linkerd to set to our behaviour (docs/compatible.md), separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = difference)]
    as_portcullis: Vec<String>,
}

/// Default namespace of the control plane.
pub(crate) const CONTROL_PLANE: &str = "portcullis";

/// Settings with the identities of an installation by the chart.
pub(crate) fn of_chart(mut config: ControllerConfig) -> ControllerConfig {
    config.control_plane_namespace = CONTROL_PLANE.into();
    config.shared_namespaces.insert(CONTROL_PLANE.into());
    config
}

fn policy(name: &str) -> Result<DefaultPolicy, String> {
    let names = DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", ");
    DefaultPolicy::parse(name).ok_or_else(|| format!("expected one of {names}"))
}

/// The name of a difference that has a flag.
fn difference(name: &str) -> Result<String, String> {
    let known = || DIFFERENCES.iter().filter(|it| it.flag().is_some()).map(|it| it.name);
    match known().any(|known| known == name) {
        true => Ok(name.to_owned()),
        false => Err(format!("expected names of {}", known().collect::<Vec<_>>().join(", "))),
    }
}

/// Settings that policies are compiled with.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    /// Source of the settings, in words.
    pub(crate) from: String,
    /// True if they are those of a controller, rather than assumed.
    pub(crate) known: bool,
    /// True if the suffix of this mesh's identities is known, from the controller or from a flag.
    #[serde(skip)]
    pub(crate) mesh_known: bool,
    /// The default policy of the cluster.
    pub(crate) default_policy: &'static str,
    /// The namespaces that the controller watches; absent: all. Objects elsewhere take no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) watched: Option<Vec<String>>,
    /// True if the controller forwards requests for outbound policy to Linkerd's.
    #[serde(skip)]
    pub(crate) outbound_by_linkerd: bool,
    /// True if `linkerd.io/inject` asks the injector, too.
    #[serde(skip)]
    pub(crate) reads_linkerd: bool,
    /// All of them.
    #[serde(skip)]
    pub(crate) config: ControllerConfig,
}

impl Settings {
    /// Settings of a directory. Identities are those of an installation by the chart, for every
    /// command, so that what one of them accepts another lets in.
    pub(crate) fn of_directory(flags: &SettingsFlags) -> Self {
        Self::new(of_chart(ControllerConfig::default()), DEFAULTS.to_owned(), true, flags)
    }

    /// These.
    pub(crate) fn from_config(config: ControllerConfig) -> Self {
        Self::new(config, DEFAULTS.to_owned(), true, &SettingsFlags::default())
    }

    /// Settings of the controller in a cluster, or the defaults if none is found.
    pub(crate) async fn of_cluster(
        cluster: &Cluster,
        pod: &PodFlags,
        flags: &SettingsFlags,
    ) -> Self {
        let found = find(cluster, pod).await;
        match found.and_then(|found| Ok((controller_settings(&found)?, found))) {
            Ok((settings, found)) => {
                let from = format!("pod {}/{}", found.namespace, found.name);
                let watched = watched(&settings);
                let outbound_by_linkerd = settings.outbound.is_some();
                let reads_linkerd = reads_linkerd(&settings);
                let own = Self::new(settings.controller, from, true, flags);
                Self { watched, outbound_by_linkerd, reads_linkerd, ..own }
            }
            Err(error) => {
                let from = format!("{DEFAULTS}, because {error:#}");
                Self::new(defaults(), from, false, flags)
            }
        }
    }

    fn new(mut config: ControllerConfig, from: String, known: bool, flags: &SettingsFlags) -> Self {
        let from = match flags.linkerd_compatible {
            true => {
                config = with_preset(config);
                format!("--linkerd-compatible, else {from}")
            }
            false => from,
        };
        let from = match flags.as_portcullis.is_empty() {
            true => from,
            false => format!("--as-portcullis, else {from}"),
        };
        for name in &flags.as_portcullis {
            config = with_ours(config.clone(), name).unwrap_or(config);
        }
        let from = match flags.default_policy {
            Some(policy) => {
                config.default_policy = policy;
                format!("--default-policy, else {from}")
            }
            None => from,
        };
        if let Some(namespace) = &flags.control_plane_namespace {
            config.control_plane_namespace = namespace.as_str().into();
            config.shared_namespaces = [config.control_plane_namespace.clone()].into();
        }
        if let Some(domain) = &flags.identity_domain {
            config.identity_domain = domain.as_str().into();
        }
        let default_policy = config.default_policy.as_str();
        let mesh_known = known || flags.control_plane_namespace.is_some();
        Self {
            from,
            known,
            mesh_known,
            default_policy,
            watched: None,
            outbound_by_linkerd: false,
            reads_linkerd: false,
            config,
        }
    }

    /// True if the controller watches an object.
    pub(crate) fn sees(&self, object: &ObjectKey) -> bool {
        let Some(watched) = &self.watched else { return true };
        let is_namespace = object.kind == Kind::Namespace;
        let namespace = if is_namespace { &object.name } else { &object.namespace };
        watched.iter().any(|watched| **watched == **namespace)
    }
}

/// The namespaces that a controller watches; `None`: all.
fn watched(settings: &args::Settings) -> Option<Vec<String>> {
    match &settings.source {
        SourceSettings::Cluster(cluster) => match &cluster.watches.scope {
            Scope::Namespaces(names) => Some(names.iter().map(ToString::to_string).collect()),
            Scope::Cluster => None,
        },
        SourceSettings::Directory(_) => None,
    }
}

/// True if `linkerd.io/inject` asks the injector of a controller, too.
fn reads_linkerd(settings: &args::Settings) -> bool {
    match &settings.source {
        SourceSettings::Cluster(cluster) => {
            cluster.injector.as_ref().is_some_and(|injector| injector.reads_linkerd)
        }
        SourceSettings::Directory(_) => false,
    }
}

/// Settings of a controller in a cluster without flags.
fn defaults() -> ControllerConfig {
    parse(&["run".to_owned()]).map(|settings| settings.controller).unwrap_or_default()
}

/// Reads the settings of the controller in a pod.
///
/// # Errors
/// No container runs the controller, or its flags cannot be parsed.
pub(crate) fn controller_settings(found: &ControllerPod) -> anyhow::Result<args::Settings> {
    parse_pod_args("run", &found.pod, parse)
}

/// Reads the flags of the issuer in a pod.
///
/// # Errors
/// No container runs the issuer, or its flags cannot be parsed.
pub(crate) fn issuer_args(pod: &Value) -> anyhow::Result<IssuerArgs> {
    parse_pod_args("issuer", pod, |arguments| match parsed(arguments)? {
        Command::Issuer(issuer) => Ok(*issuer),
        Command::Run(_) => Err(anyhow!("this is the controller, not the issuer")),
    })
}

/// Calls `read` with the arguments of the container that runs `subcommand`.
fn parse_pod_args<T>(
    subcommand: &str,
    pod: &Value,
    read: impl Fn(&[String]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let containers = pod.get("spec").and_then(|spec| spec.get("containers"));
    let containers = containers.and_then(Value::as_array);
    let mut wrong = None;
    for container in containers.into_iter().flatten() {
        let arguments = arguments(container, pod);
        if arguments.first().is_none_or(|first| first != subcommand) {
            continue;
        }
        // Only the container knows the value of a variable that is not expanded.
        let unknown = arguments.iter().find(|word| word.contains("$("));
        let unknown = unknown.map(|word| anyhow!("what `{word}` stands for is not in the pod"));
        match unknown.map_or_else(|| read(&arguments), Err) {
            Ok(settings) => return Ok(settings),
            Err(error) => wrong = Some(error),
        }
    }
    let metadata = |field: &str| pod.get("metadata")?.get(field)?.as_str();
    let name = metadata("name").unwrap_or_default();
    let pod = format!("{}/{name}", metadata("namespace").unwrap_or_default());
    match wrong {
        Some(error) => Err(error.context(format!("the flags of pod {pod} cannot be read here"))),
        None => anyhow::bail!("pod {pod} has no container with the subcommand `{subcommand}`"),
    }
}

/// Arguments of a container, with environment variables expanded as Kubernetes does.
fn arguments(container: &Value, pod: &Value) -> Vec<String> {
    let list = |field: &str| {
        let words = container.get(field).and_then(Value::as_array).into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let environment = container.get("env").and_then(Value::as_array);
    let variables: Vec<(String, String)> = environment
        .into_iter()
        .flatten()
        .filter_map(|variable| {
            let name = variable.get("name")?.as_str()?;
            let stated = variable.get("value").and_then(Value::as_str).map(str::to_owned);
            Some((format!("$({name})"), stated.or_else(|| downward_api_value(variable, pod))?))
        })
        .collect();
    // The first word of a command is the program.
    let words = list("command").into_iter().skip(1).chain(list("args"));
    words
        .map(|word| variables.iter().fold(word, |word, (name, value)| word.replace(name, value)))
        .collect()
}

/// Value of a variable from the downward API: a field of the pod, with lists joined by commas.
fn downward_api_value(variable: &Value, pod: &Value) -> Option<String> {
    let path = variable.get("valueFrom")?.get("fieldRef")?.get("fieldPath")?.as_str()?;
    match path.split('.').try_fold(pod, |value, field| value.get(field))? {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let text = |item: &Value| item.get("ip").and_then(Value::as_str).map(str::to_owned);
            Some(items.iter().filter_map(text).collect::<Vec<_>>().join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn parse(arguments: &[String]) -> anyhow::Result<args::Settings> {
    match parsed(arguments)? {
        Command::Run(run) => {
            args::Settings::try_from(*run).map_err(|error| anyhow!("{}", error_chain(&error)))
        }
        Command::Issuer(_) => Err(anyhow!("this is the issuer, not the controller")),
    }
}

fn parsed(arguments: &[String]) -> anyhow::Result<Command> {
    let words = std::iter::once("policy-controller").chain(arguments.iter().map(String::as_str));
    let cli = Cli::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        anyhow!("{}", first.trim_start_matches("error: "))
    })?;
    Ok(cli.command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(container: &Value) -> ControllerPod {
        ControllerPod {
            namespace: "linkerd".into(),
            name: "policy-controller-0".to_owned(),
            service_account: "policy-controller".to_owned(),
            pod: json!({
                "metadata": {"name": "policy-controller-0", "namespace": "linkerd"},
                "spec": {"containers": [{"name": "other"}, container]},
                "status": {"podIP": "10.0.0.1", "hostIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]},
            }),
        }
    }

    #[test]
    fn the_flags_of_the_controllers_pod_are_its_own() {
        let container = json!({
            "name": "c",
            "env": [{"name": "DOMAIN", "value": "example.org"}],
            "args": ["run", "--manifests=/m", "--default-policy=deny",
                     "--identity-domain=$(DOMAIN)"],
        });
        let config = controller_settings(&found(&container)).unwrap().controller;
        assert_eq!(config.default_policy, DefaultPolicy::Deny);
        assert_eq!(&*config.identity_domain, "example.org");
    }

    #[test]
    fn variables_are_what_the_pod_gives_them_or_the_settings_are_not_known() {
        let variable = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let container = |domain: &str| {
            json!({
                "name": "c",
                "env": [
                    variable("NAMESPACE", "metadata.namespace"),
                    variable("IP", "status.podIP"),
                    variable("HOSTS", "status.hostIPs"),
                    {"name": "DOMAIN", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "d"}}},
                ],
                "args": ["run", "--control-plane-namespace=$(NAMESPACE)", "--replica-address=$(IP)",
                         "--host-ips=$(HOSTS)", format!("--identity-domain={domain}")],
            })
        };
        let config = controller_settings(&found(&container("example.org"))).unwrap().controller;
        assert_eq!(&*config.control_plane_namespace, "linkerd");
        let error =
            format!("{:#}", controller_settings(&found(&container("$(DOMAIN)"))).unwrap_err());
        assert_eq!(
            error,
            "the flags of pod linkerd/policy-controller-0 cannot be read here: what \
             `--identity-domain=$(DOMAIN)` stands for is not in the pod"
        );
    }

    #[test]
    fn differences_from_linkerd_are_set_whole_and_taken_back_by_name() {
        let flags = SettingsFlags {
            linkerd_compatible: true,
            as_portcullis: vec!["invalid-routes".to_owned(), "probe-routes".to_owned()],
            ..SettingsFlags::default()
        };
        let settings = Settings::of_directory(&flags);
        let whole = with_preset(ControllerConfig::default());
        let expected =
            with_ours(with_ours(whole.clone(), "invalid-routes").unwrap(), "probe-routes");
        assert_eq!(settings.config, expected.map(of_chart).unwrap());
        assert_ne!(settings.config, whole);
        let from = "--as-portcullis, else --linkerd-compatible, else the controller's defaults";
        assert_eq!(settings.from, from);
        assert_eq!(difference("invalid-routes"), Ok("invalid-routes".to_owned()));
        let wrong = difference("paths").unwrap_err();
        assert!(wrong.starts_with("expected names of probe-networks, probe-routes"), "{wrong}");
    }

    #[test]
    fn a_controller_of_some_namespaces_is_known_to_be_one() {
        let container = json!({"name": "c", "args": ["run", "--watch-namespace=shop,bank"]});
        let settings = controller_settings(&found(&container)).unwrap();
        let names = ["bank", "shop"].map(str::to_owned).to_vec();
        assert_eq!(watched(&settings), Some(names));
        let container = json!({"name": "c", "args": ["run"]});
        assert_eq!(watched(&controller_settings(&found(&container)).unwrap()), None);
    }

    #[test]
    fn flags_that_cannot_be_read_are_reported() {
        let container = json!({"name": "c", "args": ["run", "--default-policy=denny"]});
        let error = format!("{:#}", controller_settings(&found(&container)).unwrap_err());
        assert!(error.contains("denny") || error.contains("--manifests"), "{error}");
        let error =
            format!("{:#}", controller_settings(&found(&json!({"name": "c"}))).unwrap_err());
        assert_eq!(
            error,
            "pod linkerd/policy-controller-0 has no container with the subcommand `run`"
        );
    }
}
