//! The proxies that can be measured, and where their programs are.

use crate::machine;
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// A proxy that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// Ours.
    Portcullis,
    /// Ours, which records no decisions.
    Unrecorded,
    /// hyper without any policy.
    Bare,
    /// HAProxy without policy.
    Haproxy,
    /// nginx without policy.
    Nginx,
    /// Envoy without policy.
    Envoy,
    /// Envoy with as many RBAC rules as there are rules.
    EnvoyRbac,
}

impl Kind {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portcullis => "Portcullis",
            Self::Unrecorded => "Portcullis, no record",
            Self::Bare => "bare hyper",
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
            Self::Envoy => "Envoy",
            Self::EnvoyRbac => "Envoy, RBAC",
        }
    }

    /// True if it decides by rules.
    pub fn has_policy(self) -> bool {
        matches!(self, Self::Portcullis | Self::Unrecorded | Self::EnvoyRbac)
    }
}

/// Paths of the programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `policy-proxy`.
    pub proxy: PathBuf,
    /// `policy-controller`.
    pub controller: PathBuf,
    /// `load-generator`.
    pub generator: PathBuf,
    /// `attackers`.
    pub attackers: PathBuf,
    /// `echo-application`.
    pub application: PathBuf,
    /// `bare-proxy`.
    pub bare: PathBuf,
    /// Envoy, if it is there.
    pub envoy: PathBuf,
}

impl Programs {
    /// Those beside this program, the proxies as [`shipped`]; `proxy` names another one of ours, as of
    /// another commit.
    pub fn beside(proxy: Option<&Path>) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let beside = |name: &str| own.with_file_name(name);
        let envoy = std::env::var_os("BENCH_ENVOY").map_or("envoy".into(), PathBuf::from);
        Ok(Self {
            proxy: proxy.map_or_else(|| shipped("policy-proxy"), |proxy| Ok(proxy.to_owned()))?,
            controller: beside("policy-controller"),
            generator: beside("load-generator"),
            attackers: beside("attackers"),
            application: beside("echo-application"),
            bare: shipped("bare-proxy")?,
            envoy,
        })
    }

    /// Version that a proxy reports; none where it is not installed.
    pub fn version(&self, kind: Kind) -> Option<String> {
        let path = |path: &Path| path.display().to_string();
        let said = match kind {
            Kind::Portcullis | Kind::Unrecorded => {
                machine::said(&path(&self.proxy), &["--version"])
            }
            Kind::Bare if self.bare.exists() => "hyper 1".to_owned(),
            Kind::Bare => String::new(),
            Kind::Haproxy => machine::said("haproxy", &["-v"]),
            Kind::Nginx => machine::said("nginx", &["-v"]),
            Kind::Envoy | Kind::EnvoyRbac => {
                let said = machine::said(&path(&self.envoy), &["--version"]);
                // Before it stands where the program is.
                said.split_once("version: ").map_or(said.clone(), |(_, own)| format!("envoy {own}"))
            }
        };
        (!said.is_empty()).then_some(said)
    }
}

/// The path of a program built with the profile `sidecar`, if this one was built with `ship`; else it is
/// beside this one, of the same profile.
pub fn shipped(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let beside = own.with_file_name(name);
    let folder = own.parent().filter(|folder| folder.ends_with("ship"));
    let sidecar = folder.map(|ship| ship.with_file_name("sidecar").join(name));
    Ok(sidecar.unwrap_or(beside))
}
