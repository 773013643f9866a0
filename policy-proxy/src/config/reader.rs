//! Reads settings from flags and environment and collects their errors.

use std::ffi::OsString;

/// Looks up a variable of the environment.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Errors of settings; each line names the setting as it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigError(pub Vec<String>);

/// A setting that was given.
pub(super) struct Setting {
    /// The flag or variable it came from.
    pub(super) name: String,
    pub(super) value: String,
}

pub(super) struct Reader<'a> {
    environment: Environment<'a>,
    errors: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(environment: Environment<'a>) -> Self {
        Self { environment, errors: Vec::new() }
    }

    /// Returns the value of the flag, else of `PORTCULLIS_` and its name, else of Linkerd's
    /// variables in order. With an empty flag: of Linkerd's variables alone.
    pub(super) fn lookup(
        &mut self,
        flag: &str,
        typed: Option<&String>,
        linkerd: &[&str],
    ) -> Option<Setting> {
        if let Some(value) = typed {
            return Some(Setting { name: format!("--{flag}"), value: value.clone() });
        }
        let own = format!("PORTCULLIS_{}", flag.replace('-', "_").to_ascii_uppercase());
        let theirs = linkerd.iter().map(|name| format!("LINKERD2_PROXY_{name}"));
        for name in Some(own).filter(|_| !flag.is_empty()).into_iter().chain(theirs) {
            match (self.environment)(&name).map(OsString::into_string) {
                None => {}
                Some(Ok(value)) => return Some(Setting { name, value }),
                Some(Err(_)) => self.errors.push(format!("{name}: not valid UTF-8")),
            }
        }
        None
    }

    /// Returns the value of a variable without a prefix.
    pub(super) fn plain(&mut self, name: &str) -> Option<Setting> {
        match (self.environment)(name).map(OsString::into_string) {
            None => None,
            Some(Ok(value)) => Some(Setting { name: name.to_owned(), value }),
            Some(Err(_)) => {
                self.errors.push(format!("{name}: not valid UTF-8"));
                None
            }
        }
    }

    /// Parses the setting, or returns `default` if it was not given or is invalid, which is
    /// reported.
    pub(super) fn read<T, E: ToString>(
        &mut self,
        given: Option<Setting>,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> T {
        let Some(given) = given else { return default };
        parse(&given.value).unwrap_or_else(|expected| {
            self.errors.push(format!(
                "{}: `{}`: {}",
                given.name,
                given.value,
                expected.to_string()
            ));
            default
        })
    }

    /// Returns the value of a required setting.
    pub(super) fn required(&mut self, given: Option<Setting>, flag: &str, linkerd: &str) -> String {
        match given {
            Some(given) if !given.value.is_empty() => given.value,
            Some(_) | None => {
                self.errors.push(format!("--{flag}: must be given (or LINKERD2_PROXY_{linkerd})"));
                String::new()
            }
        }
    }

    pub(super) fn fail(&mut self, message: String) {
        self.errors.push(message);
    }

    pub(super) fn finish<T>(self, value: T) -> Result<T, ConfigError> {
        if self.errors.is_empty() { Ok(value) } else { Err(ConfigError(self.errors)) }
    }
}
