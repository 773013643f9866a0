//! `portcullis import`.

mod input;
pub(super) mod print;

use anyhow::Context;
use clap::{Args, Subcommand};
use input::read;
use policy_crds::{is_dns_label, is_dns_name};
use policy_import::{GroupChoice, GrpcChoice, ImportFile, Imported, IstioMesh};
use print::{ManifestFormat, failed, print};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write manifests from descriptions of APIs and from other formats
///
/// Reads files, or standard input with `-`, and writes manifests to standard output, ready for
/// `kubectl apply`. A table on standard error says of each part of the source, with its line, what was
/// translated exactly, what narrower, and what not at all. Nothing becomes wider than in the source.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  protoc --descriptor_set_out=books.binpb books.proto
  portcullis import grpc -n shop books.binpb | kubectl apply -f -
  portcullis import openapi -n shop --name books openapi.yaml > books.yaml"
)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    Grpc(GrpcArgs),
    #[command(name = "openapi")]
    OpenApi(OpenApiArgs),
    #[command(name = "serviceprofile")]
    ServiceProfile(ServiceProfileArgs),
    /// Write Servers, routes and grants from the Service Mesh Interface
    ///
    /// Reads TrafficTargets (v1alpha1 to v1alpha4) with the HTTPRouteGroups, TCPRoutes and IdentityBindings
    /// that they name. Each port of the pods of a destination gets a Server, which nobody may use but the
    /// sources. The files need the workloads, too (Deployments, Pods and others), because a Server selects
    /// pods by labels. Their namespaces deny what no Server grants, as SMI does.
    ///
    /// An invalid TrafficTarget grants nothing and closes its destination. One whose destination is in
    /// another namespace is left out: policies live with the server.
    ///
    /// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
    /// use.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  portcullis import smi targets.yaml workloads.yaml > policies.yaml
  kubectl get -A -o yaml traffictargets,httproutegroups,tcproutes,deployments,statefulsets \\
    | portcullis import smi - > policies.yaml"
    )]
    Smi(PolicyFiles),
    Istio(IstioArgs),
    /// Write Servers and grants from the ingress rules of Kubernetes' NetworkPolicies
    ///
    /// Each port of the pods that a policy selects gets a Server. `ipBlock` becomes a NetworkAuthentication. A
    /// namespace that is named by kubernetes.io/metadata.name becomes the identities of its ServiceAccounts,
    /// labels of pods the ServiceAccounts that they have alone in the files. Egress is not translated. The
    /// files need the workloads, too.
    ///
    /// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
    /// use.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  portcullis import networkpolicy policies.yaml workloads.yaml > portcullis.yaml
  kubectl get -n shop -o yaml networkpolicies,deployments,statefulsets \\
    | portcullis import networkpolicy - > portcullis.yaml"
    )]
    #[command(name = "networkpolicy")]
    NetworkPolicy(PolicyFiles),
    Cilium(CiliumArgs),
    /// Write Servers, routes and grants from Consul's intentions
    ///
    /// Reads ServiceIntentions. A service is the ServiceAccount of its name, as Consul requires where it
    /// verifies services. Of several intentions the most specific counts, of permissions the first that
    /// matches. What has no intention is denied. The files need the workloads, those of the sources too.
    ///
    /// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
    /// use.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  portcullis import consul intentions.yaml workloads.yaml > portcullis.yaml
  kubectl get -A -o yaml serviceintentions,deployments,statefulsets \\
    | portcullis import consul - > portcullis.yaml"
    )]
    Consul(PolicyFiles),
}

/// Write a GrpcService for each service of compiled .proto files
///
/// Reads a FileDescriptorSet, as protoc and buf write it, and writes a GrpcService with the methods of
/// each service. Methods whose `idempotency_level` is NO_SIDE_EFFECTS or IDEMPOTENT get the label
/// http.linkerd.io/idempotent: "true". Services of imported files are written too if the set has
/// them: leave out --include_imports of protoc, give buf --exclude-imports, or choose with --service.
///
/// An object is called as its service, in lower case and with `-` for `_`: books.v1.Books becomes
/// books.v1.books. Two services that would get one name are an error; --name gives another.
///
/// A GrpcService without methods is for every method of its service. Nothing that is imported becomes
/// that: a service that declares no methods is left out, and the table says so.
///
/// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
/// use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  protoc --descriptor_set_out=books.binpb books.proto
  portcullis import grpc books.binpb > books.yaml
  buf build --exclude-imports -o - | portcullis import grpc -n shop - | kubectl apply -f -
  portcullis import grpc --service books.v1.Books --name books books.binpb
  portcullis import grpc -o json books.binpb | jq -r '.items[].spec.methods[].name'"
)]
struct GrpcArgs {
    /// FileDescriptorSet in binary form; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// Only this service, by its name with its package; may be repeated
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,

    /// Name of the object, where one service is imported
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    name: Option<String>,

    #[command(flatten)]
    manifests: ManifestFlags,
}

/// Write HttpRouteGroups from OpenAPI 3.0, 3.1 or Swagger 2.0
///
/// Each operation becomes a route: `{id}` in its path is the parameter `:id`, `operationId` the label
/// `operation`, each tag a label `tag.NAME`. The paths of `servers`, or `basePath`, come before it. A
/// parameter with a few values is each of them. What no group says, such as `{id}.json`, is left out.
/// References inside the document are followed, and no others: nothing is fetched.
///
/// A group describes and decides nothing before a binding puts it on a Server. --server writes that
/// binding too, and a TimeoutPolicy for each `x-linkerd-timeout`.
///
/// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
/// use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis import openapi openapi.yaml > books.yaml
  portcullis import openapi -n shop --name books --server web openapi.json | kubectl apply -f -
  portcullis import openapi --name books --previous books.yaml openapi.yaml > new.yaml"
)]
struct OpenApiArgs {
    /// Document in YAML or JSON; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,

    #[command(flatten)]
    group: GroupFlags,

    #[command(flatten)]
    manifests: ManifestFlags,
}

/// Write HttpRouteGroups and TimeoutPolicies from Linkerd's ServiceProfiles
///
/// `pathRegex` becomes a path where it says no more than one does: `/books/[^/]+` is /books/:p1. With
/// --server other regular expressions are kept, in HTTPRoutes, and each `timeout` becomes a TimeoutPolicy.
/// `not`, `responseClasses`, `retryBudget` and `dstOverrides` are not translated.
///
/// A group describes and decides nothing before a binding puts it on a Server. --server writes that
/// binding too.
///
/// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
/// use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis import serviceprofile profiles.yaml > groups.yaml
  kubectl get serviceprofile -n shop web.shop.svc.cluster.local -o yaml \\
    | portcullis import serviceprofile --server web - | kubectl apply -f -"
)]
struct ServiceProfileArgs {
    /// ServiceProfiles in YAML or JSON; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,

    #[command(flatten)]
    group: GroupFlags,

    #[command(flatten)]
    manifests: ManifestFlags,
}

/// Write Servers, routes and grants from Istio's policies
///
/// Reads AuthorizationPolicies and PeerAuthentications of security.istio.io. Each port of the workloads
/// that they close gets a Server. ALLOW rules become routes and grants. DENY rules and STRICT are taken
/// out of these: what cannot be taken out exactly is refused as a whole. CUSTOM and RequestAuthentication
/// are not translated, and nothing is granted on their workloads. Policies of the root namespace are about
/// all namespaces. The files need the workloads, too.
///
/// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
/// use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis import istio policies.yaml workloads.yaml > portcullis.yaml
  kubectl get -A -o yaml \\
    authorizationpolicies.security.istio.io,peerauthentications,requestauthentications,deployments \\
    | portcullis import istio - > portcullis.yaml"
)]
struct IstioArgs {
    /// Trust domain of Istio's mesh; principals of others name nobody
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    trust_domain: String,

    /// Namespace whose policies are about all namespaces
    #[arg(long, value_name = "NAMESPACE", default_value = "istio-system")]
    root_namespace: String,

    #[command(flatten)]
    policies: PolicyFiles,
}

/// Write Servers, routes and grants from the ingress rules of Cilium's policies
///
/// Reads CiliumNetworkPolicies and CiliumClusterwideNetworkPolicies of cilium.io/v2. Each port of the pods
/// that a policy selects gets a Server. A CIDR is about clients outside of the cluster there, so that the
/// networks of pods and nodes are left out of it: name them all with --cluster-network. Without one nothing
/// is granted to a CIDR. Labels of pods become the ServiceAccounts that they have alone in the files.
/// `ingressDeny` is taken out of what is allowed. Egress is not translated. The files need the workloads, too.
///
/// Exit codes: 0 done, 1 something is refused or cannot be read (nothing is written then), 2 wrong
/// use.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis import cilium --cluster-network 10.0.0.0/8 policies.yaml workloads.yaml > portcullis.yaml
  kubectl get -n shop -o yaml ciliumnetworkpolicies,deployments,statefulsets \\
    | portcullis import cilium --cluster-network 10.0.0.0/8 - > portcullis.yaml"
)]
struct CiliumArgs {
    /// Network of pods or nodes; may be repeated
    #[arg(long = "cluster-network", value_name = "CIDR")]
    cluster_networks: Vec<String>,

    #[command(flatten)]
    policies: PolicyFiles,
}

/// The files of imports of policies, and the flags of every import.
#[derive(Debug, Args)]
struct PolicyFiles {
    /// Policies and workloads in YAML or JSON; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,

    #[command(flatten)]
    manifests: ManifestFlags,
}

/// The flags of imports that write groups.
#[derive(Debug, Args)]
struct GroupFlags {
    /// Name of the group; without it, it is called as its source
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    name: Option<String>,

    /// Server that the routes are put on
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    server: Option<String>,
}

/// The flags of every import.
#[derive(Debug, Args)]
struct ManifestFlags {
    /// Namespace of the objects. Without it they name none, and `kubectl apply` decides
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: Option<String>,

    /// Output format: YAML documents, or a List in JSON
    #[arg(short, long, value_enum, default_value_t)]
    output: ManifestFormat,

    /// Manifests of a former import: what is added and removed since is listed on standard error
    #[arg(long, value_name = "FILE")]
    previous: Option<PathBuf>,
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    match &args.source {
        ImportSource::Grpc(args) => {
            let GrpcArgs { file, services, name, manifests } = args;
            let (name, namespace) = (name.as_deref(), manifests.namespace.as_deref());
            let choice = GrpcChoice { services, name, namespace };
            let imported = policy_import::grpc_services(&read(file)?, &choice);
            let place = place(file);
            let named = |errors: Vec<String>| {
                errors.iter().map(|error| format!("{place}: {error}")).collect()
            };
            finish(imported.map_err(named), manifests)
        }
        ImportSource::OpenApi(OpenApiArgs { file, group, manifests }) => {
            let choice = group.choice(manifests);
            finish(import_file(file, |file| policy_import::open_api(file, &choice))?, manifests)
        }
        ImportSource::ServiceProfile(ServiceProfileArgs { file, group, manifests }) => {
            let choice = group.choice(manifests);
            finish(
                import_file(file, |file| policy_import::service_profiles(file, &choice))?,
                manifests,
            )
        }
        ImportSource::Smi(policies) => policies.import(policy_import::smi),
        ImportSource::Istio(IstioArgs { trust_domain, root_namespace, policies }) => {
            let mesh = IstioMesh { trust_domain, root_namespace };
            policies.import(|files, namespace| policy_import::istio(files, namespace, &mesh))
        }
        ImportSource::NetworkPolicy(policies) => policies.import(policy_import::network_policies),
        ImportSource::Cilium(CiliumArgs { cluster_networks, policies }) => policies
            .import(|files, namespace| policy_import::cilium(files, namespace, cluster_networks)),
        ImportSource::Consul(policies) => policies.import(policy_import::consul),
    }
}

impl PolicyFiles {
    /// Imports the files into the namespace of the flags.
    fn import(
        &self,
        import: impl FnOnce(&[ImportFile], Option<&str>) -> ImportResult,
    ) -> anyhow::Result<ExitCode> {
        let (mut files, mut errors) = (Vec::new(), Vec::new());
        for file in &self.files {
            match ImportFile::read(name_of(file), &read(file)?) {
                Ok(file) => files.push(file),
                Err(found) => errors.extend(found),
            }
        }
        let namespace = self.manifests.namespace.as_deref();
        let imported = if errors.is_empty() { import(&files, namespace) } else { Err(errors) };
        finish(imported, &self.manifests)
    }
}

impl GroupFlags {
    fn choice<'a>(&'a self, manifests: &'a ManifestFlags) -> GroupChoice<'a> {
        let (name, server) = (self.name.as_deref(), self.server.as_deref());
        GroupChoice { name, namespace: manifests.namespace.as_deref(), server }
    }
}

/// The result of an import, or every error.
type ImportResult = Result<Imported, Vec<String>>;

fn import_file(
    file: &str,
    import: impl FnOnce(&ImportFile) -> ImportResult,
) -> anyhow::Result<ImportResult> {
    Ok(ImportFile::read(name_of(file), &read(file)?).and_then(|file| import(&file)))
}

/// Prints what an import makes of its files: all of it, or nothing but what is wrong.
fn finish(imported: ImportResult, flags: &ManifestFlags) -> anyhow::Result<ExitCode> {
    let imported = imported.map_err(|errors| failed(&errors))?;
    let former = match &flags.previous {
        Some(path) => {
            let name = path.display().to_string();
            let bytes = std::fs::read(path).with_context(|| format!("cannot read `{name}`"))?;
            Some(ImportFile::read(&name, &bytes).map_err(|errors| failed(&errors))?)
        }
        None => None,
    };
    print(&imported, former.as_ref(), flags.output)
}

/// The name of a file in messages.
fn name_of(file: &str) -> &str {
    if file == "-" { "standard input" } else { file }
}

fn place(file: &str) -> String {
    if file == "-" { "standard input".to_owned() } else { format!("`{file}`") }
}

fn namespace(text: &str) -> Result<String, String> {
    let rule = "expected up to 63 lower-case letters, digits and `-`";
    is_dns_label(text).then(|| text.to_owned()).ok_or_else(|| rule.to_owned())
}

fn object_name(text: &str) -> Result<String, String> {
    let rule = "expected lower-case letters, digits, `-` and `.`";
    is_dns_name(text).then(|| text.to_owned()).ok_or_else(|| rule.to_owned())
}
