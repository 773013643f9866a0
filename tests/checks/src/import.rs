//! Imports: any bytes are manifests or errors with a place, and manifests are read back as what was written.

use policy_crds::{Body, document, parse_all};
use policy_import::{GroupChoice, ImportFile, Imported};

/// The result of an import, or every error.
type ImportOutcome = Result<Imported, Vec<String>>;

/// Holds a file to this, as each format.
///
/// # Errors
/// The fault, in words.
pub fn check(data: &[u8]) -> Result<(), String> {
    let choice = GroupChoice { name: None, namespace: None, server: Some("web") };
    let file = match ImportFile::read("file", data) {
        Ok(file) => [file],
        Err(errors) => return placed("file", &errors),
    };
    let [one] = &file;
    let outcomes: [(&str, ImportOutcome); 7] = [
        ("openapi", policy_import::open_api(one, &choice)),
        ("serviceprofile", policy_import::service_profiles(one, &choice)),
        ("consul", policy_import::consul(&file, Some("shop"))),
        ("smi", policy_import::smi(&file, Some("shop"))),
        ("istio", policy_import::istio(&file, Some("shop"), &policy_import::IstioMesh::default())),
        ("networkpolicy", policy_import::network_policies(&file, Some("shop"))),
        ("cilium", policy_import::cilium(&file, Some("shop"), &["10.0.0.0/8".to_owned()])),
    ];
    let lines = data.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count().saturating_add(1);
    for (format, outcome) in outcomes {
        match outcome {
            Ok(imported) => {
                reads_back(format, &imported)?;
                let outside = imported.rows.iter().filter_map(|row| row.place.as_ref());
                if let Some(place) = outside.into_iter().find(|place| place.line > lines) {
                    return Err(format!("{format}: line {} is outside the file", place.line));
                }
            }
            Err(errors) if errors.is_empty() => {
                return Err(format!("{format}: fails without a reason"));
            }
            // Names that are too long for an object are found when it is written.
            Err(_) => {}
        }
    }
    Ok(())
}

/// Every syntax error names the file and a line.
fn placed(format: &str, errors: &[String]) -> Result<(), String> {
    match errors.iter().find(|error| !error.starts_with("`file`: line ")) {
        Some(error) => Err(format!("{format}: no place in {error:?}")),
        None => Ok(()),
    }
}

fn reads_back(format: &str, imported: &Imported) -> Result<(), String> {
    let text = imported.yaml();
    let mut values = Vec::new();
    for document in document::read(&text) {
        let value = document.value.map_err(|error| format!("{format}: {error} in {text}"))?;
        values.extend(Some(value).filter(|value| !value.is_null()));
    }
    if !values.iter().eq(imported.values()) {
        return Err(format!("{format}: read back as something else: {text}"));
    }
    for object in values.iter().flat_map(parse_all) {
        match object.map(|object| object.body) {
            Ok(Body::Valid(_)) => {}
            Ok(Body::Invalid(_)) | Err(_) => return Err(format!("{format}: not valid: {text}")),
        }
    }
    Ok(())
}
