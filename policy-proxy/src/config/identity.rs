//! Where our identity comes from.

use super::reader::Reader;
use crate::args::RunArgs;
use std::path::PathBuf;
use std::sync::Arc;

/// Where an identity on disk is found. Files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// PEM with our certificate, leaf first.
    pub certificate: PathBuf,
    /// PEM with its private key.
    pub key: PathBuf,
    /// The mesh's roots.
    pub roots: Roots,
    /// The name that clients ask for in SNI.
    pub name: Arc<str>,
}

/// The mesh's roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// A PEM file.
    File(PathBuf),
    /// PEM text from the environment, fixed for the life of the process.
    Text(String),
}

pub(super) fn identity(args: &RunArgs, reader: &mut Reader<'_>) -> Option<IdentityFiles> {
    let given = reader.given("identity", args.identity.identity.as_ref(), &[]);
    let wanted = reader.read(given, true, |text| match text {
        "files" => Ok(true),
        "none" => Ok(false),
        _ => Err("expected files or none"),
    });
    if !wanted {
        return None;
    }
    let file = |reader: &mut Reader<'_>, flag: &str, typed| {
        let given = reader.given(flag, typed, &[]);
        if given.is_none() {
            reader.fail(format!("--{flag}: must be given, or --identity=none"));
        }
        PathBuf::from(given.map(|given| given.value).unwrap_or_default())
    };
    let certificate = file(reader, "identity-cert", args.identity.identity_cert.as_ref());
    let key = file(reader, "identity-key", args.identity.identity_key.as_ref());
    let roots = match reader.given("identity-roots-text", None, &["IDENTITY_TRUST_ANCHORS"]) {
        Some(given) if args.identity.identity_roots.is_none() => Roots::Text(given.value),
        Some(_) | None => {
            Roots::File(file(reader, "identity-roots", args.identity.identity_roots.as_ref()))
        }
    };
    let names = ["IDENTITY_LOCAL_NAME", "IDENTITY_SERVER_NAME"];
    let given = reader.given("identity-name", args.identity.identity_name.as_ref(), &names);
    let name = reader.required(given, "identity-name", "IDENTITY_SERVER_NAME").into();
    Some(IdentityFiles { certificate, key, roots, name })
}
