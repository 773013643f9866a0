//! What the controller is told by its flags, which policies depend on as much as on objects.

use super::controller::{Found, PodFlags, find};
use super::{Cluster, chain};
use clap::{Args, Parser};
use policy_controller::ControllerConfig;
use policy_controller::args::{self, Cli, Command};
use policy_core::DefaultPolicy;
use serde::Serialize;
use serde_json::Value;

/// Where settings come from that nobody states.
const DEFAULTS: &str = "the controller's defaults";

/// Flags that replace what the controller is told.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SettingsFlags {
    /// Default policy of the cluster [default: that of the controller found there;
    /// all-unauthenticated]
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    default_policy: Option<DefaultPolicy>,
}

fn policy(name: &str) -> Result<DefaultPolicy, String> {
    let names = DefaultPolicy::ALL.map(DefaultPolicy::as_str).join(", ");
    DefaultPolicy::parse(name).ok_or_else(|| format!("expected one of {names}"))
}

/// What policies are compiled with.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    /// Where they come from, in words.
    pub(crate) from: String,
    /// Whether they are known to be those of a controller, rather than assumed.
    pub(crate) known: bool,
    /// The default policy of the cluster.
    pub(crate) default_policy: &'static str,
    /// All of them.
    #[serde(skip)]
    pub(crate) config: ControllerConfig,
}

impl Settings {
    /// Those of a directory.
    pub(crate) fn of_directory(flags: &SettingsFlags) -> Self {
        Self::new(ControllerConfig::default(), DEFAULTS.to_owned(), true, flags)
    }

    /// These.
    pub(crate) fn given(config: ControllerConfig) -> Self {
        Self::new(config, DEFAULTS.to_owned(), true, &SettingsFlags::default())
    }

    /// Those of the controller in a cluster; its defaults where there is none to be found.
    pub(crate) async fn of_cluster(
        cluster: &Cluster,
        pod: &PodFlags,
        flags: &SettingsFlags,
    ) -> Self {
        let found = find(cluster, pod).await;
        match found.and_then(|found| Ok((told(&found)?.controller, found))) {
            Ok((config, found)) => {
                let from = format!("pod {}/{}", found.namespace, found.name);
                Self::new(config, from, true, flags)
            }
            Err(error) => {
                let from = format!("{DEFAULTS}, because {error:#}");
                Self::new(defaults(), from, false, flags)
            }
        }
    }

    fn new(mut config: ControllerConfig, from: String, known: bool, flags: &SettingsFlags) -> Self {
        let from = match flags.default_policy {
            Some(policy) => {
                config.default_policy = policy;
                format!("--default-policy, else {from}")
            }
            None => from,
        };
        let default_policy = config.default_policy.as_str();
        Self { from, known, default_policy, config }
    }
}

/// What a controller in a cluster does without flags.
fn defaults() -> ControllerConfig {
    parse(&["run".to_owned()]).map(|settings| settings.controller).unwrap_or_default()
}

/// What the controller of a pod is told.
///
/// # Errors
/// No container of it is told to run a controller, or its flags cannot be read.
pub(crate) fn told(found: &Found) -> anyhow::Result<args::Settings> {
    let containers = found.spec.get("containers").and_then(Value::as_array);
    let mut wrong = None;
    for container in containers.into_iter().flatten() {
        let arguments = arguments(container);
        if arguments.first().is_none_or(|first| first != "run") {
            continue;
        }
        match parse(&arguments) {
            Ok(settings) => return Ok(settings),
            Err(error) => wrong = Some(error),
        }
    }
    let pod = format!("{}/{}", found.namespace, found.name);
    match wrong {
        Some(error) => Err(error.context(format!("the flags of pod {pod} cannot be read here"))),
        None => anyhow::bail!("pod {pod} has no container that is told `run`"),
    }
}

/// What a container is told, with its environment put in place as Kubernetes does.
fn arguments(container: &Value) -> Vec<String> {
    let list = |field: &str| {
        let words = container.get(field).and_then(Value::as_array).into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let environment = container.get("env").and_then(Value::as_array);
    let variables: Vec<(String, &str)> = environment
        .into_iter()
        .flatten()
        .filter_map(|variable| {
            let name = variable.get("name")?.as_str()?;
            Some((format!("$({name})"), variable.get("value")?.as_str()?))
        })
        .collect();
    // The first word of a command is the program.
    let words = list("command").into_iter().skip(1).chain(list("args"));
    words
        .map(|word| variables.iter().fold(word, |word, (name, value)| word.replace(name, value)))
        .collect()
}

fn parse(arguments: &[String]) -> anyhow::Result<args::Settings> {
    let words = std::iter::once("policy-controller").chain(arguments.iter().map(String::as_str));
    let cli = Cli::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        anyhow::anyhow!("{}", first.trim_start_matches("error: "))
    })?;
    let Command::Run(run) = cli.command;
    args::Settings::try_from(*run).map_err(|error| anyhow::anyhow!("{}", chain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(container: &Value) -> Found {
        Found {
            namespace: "linkerd".into(),
            name: "policy-controller-0".to_owned(),
            service_account: "policy-controller".to_owned(),
            spec: json!({"containers": [{"name": "other"}, container]}),
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
        let config = told(&found(&container)).unwrap().controller;
        assert_eq!(config.default_policy, DefaultPolicy::Deny);
        assert_eq!(&*config.identity_domain, "example.org");
    }

    #[test]
    fn flags_that_cannot_be_read_are_told() {
        let container = json!({"name": "c", "args": ["run", "--default-policy=denny"]});
        let error = format!("{:#}", told(&found(&container)).unwrap_err());
        assert!(error.contains("denny") || error.contains("--manifests"), "{error}");
        let error = format!("{:#}", told(&found(&json!({"name": "c"}))).unwrap_err());
        assert_eq!(error, "pod linkerd/policy-controller-0 has no container that is told `run`");
    }
}
