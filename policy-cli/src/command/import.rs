//! `portcullis import`.

use crate::import::{GrpcChoice, Imported, ManifestFormat, grpc_services, read};
use crate::output::{self, Paint};
use anyhow::bail;
use clap::{Args, Subcommand};
use policy_crds::{is_dns_label, is_dns_name};
use std::io::Write;
use std::process::ExitCode;

/// Write manifests from descriptions of APIs
///
/// Reads one file, or standard input with `-`, and writes manifests to standard output, ready for
/// `kubectl apply`. They take no effect before something binds them to a Server.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  protoc --descriptor_set_out=books.binpb books.proto
  portcullis import grpc -n shop books.binpb | kubectl apply -f -"
)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    Grpc(GrpcArgs),
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
/// that: a service that declares no methods is left out, with a note on standard error.
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

/// What every import takes.
#[derive(Debug, Args)]
struct ManifestFlags {
    /// Namespace of the objects. Without it they name none, and `kubectl apply` decides
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: Option<String>,

    /// Output format: YAML documents, or a List in JSON
    #[arg(short, long, value_enum, default_value_t)]
    output: ManifestFormat,
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let ImportSource::Grpc(args) = &args.source;
    let GrpcArgs { file, services, name, manifests } = args;
    let ManifestFlags { namespace, output } = manifests;
    let (name, namespace) = (name.as_deref(), namespace.as_deref());
    let choice = GrpcChoice { services, name, namespace };
    print(file, grpc_services(&read(file)?, &choice), *output)
}

/// The most errors that are printed.
const MAX_ERRORS: usize = 20;

/// Prints what an import makes of a file: all of it, or nothing but what is wrong.
fn print(
    file: &str,
    imported: Result<Imported, Vec<String>>,
    format: ManifestFormat,
) -> anyhow::Result<ExitCode> {
    let place = if file == "-" { "standard input".to_owned() } else { format!("`{file}`") };
    let imported = match imported {
        Ok(imported) => imported,
        Err(errors) => {
            let shown = errors.iter().take(MAX_ERRORS).map(|error| format!("{place}: {error}"));
            let shown = shown.collect::<Vec<_>>().join("\n");
            let more = match errors.len().saturating_sub(MAX_ERRORS) {
                0 => String::new(),
                more => format!("\nand {more} more errors"),
            };
            bail!("nothing was written:\n{shown}{more}");
        }
    };
    let (paint, mut err) = (Paint::stderr(), std::io::stderr());
    for note in &imported.notes {
        // Nothing more can be reported if standard error is closed.
        let _ = writeln!(err, "{}", paint.dim(&format!("{place}: {note}")));
    }
    output::text(&imported.text(format))?;
    Ok(ExitCode::SUCCESS)
}

fn namespace(text: &str) -> Result<String, String> {
    let rule = "expected up to 63 lower-case letters, digits and `-`";
    is_dns_label(text).then(|| text.to_owned()).ok_or_else(|| rule.to_owned())
}

fn object_name(text: &str) -> Result<String, String> {
    let rule = "expected lower-case letters, digits, `-` and `.`";
    is_dns_name(text).then(|| text.to_owned()).ok_or_else(|| rule.to_owned())
}
