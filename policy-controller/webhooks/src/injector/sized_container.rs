//! The sizes of a container that injection adds, what a rule about them finds wrong, and the setting that
//! mends it.

use super::quantity::{exceeds, exceeds_ratio};
use super::resources::{ContainerSize, quantity};
use super::setting::Setting;
use super::sidecar::{INIT, PROXY};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Requests and limits by resource, as the API server has them.
#[derive(Clone, Debug, Default)]
pub(super) struct ContainerSizes {
    pub(super) requests: Map<String, Value>,
    pub(super) limits: Map<String, Value>,
    /// The resources whose limit a LimitRange gives.
    pub(super) given: BTreeSet<String>,
}

/// An added container.
pub(super) struct SizedContainer<'a> {
    pub(super) name: &'static str,
    pub(super) sizes: &'a ContainerSizes,
    /// The sizes of the sidecar, which the init container follows.
    pub(super) proxy: &'a ContainerSizes,
}

impl SizedContainer<'_> {
    /// A size of a resource, if it has one.
    pub(super) fn quantity(&self, size: ContainerSize, resource: &str) -> Option<String> {
        let sizes = match size {
            ContainerSize::Request => &self.sizes.requests,
            ContainerSize::Limit => &self.sizes.limits,
        };
        quantity(sizes.get(resource))
    }

    /// The fault by a rule, if there is one, and the setting that mends it.
    pub(super) fn against(
        &self,
        rule: RangeRule,
        resource: &str,
        bound: &str,
    ) -> Option<(String, Option<Setting>)> {
        use ContainerSize::{Limit, Request};
        let request = self.quantity(Request, resource);
        let limit = self.quantity(Limit, resource);
        let above = |size: &String| exceeds(size, bound);
        let (fault, size) = match (rule, request, limit) {
            (RangeRule::Min | RangeRule::Ratio, None, _) => {
                (format!("requests no {resource}"), Request)
            }
            (RangeRule::Max | RangeRule::Ratio, _, None) => {
                (format!("has no limit of {resource}"), Limit)
            }
            (RangeRule::Min, Some(request), _) if exceeds(bound, &request) => {
                (format!("requests {request} of {resource}"), Request)
            }
            (RangeRule::Max, _, Some(limit)) if above(&limit) => {
                (format!("has a limit of {limit} of {resource}"), Limit)
            }
            (RangeRule::Max, Some(request), Some(_)) if above(&request) => {
                (format!("requests {request} of {resource}"), Request)
            }
            (RangeRule::Ratio, Some(request), Some(limit))
                if exceeds_ratio(&limit, &request, bound) =>
            {
                let fault =
                    format!("has a limit of {limit} and a request of {request} of {resource}");
                (fault, Request)
            }
            (RangeRule::Min | RangeRule::Max | RangeRule::Ratio, _, _) => return None,
        };
        let setting = match rule {
            RangeRule::Max if self.name == INIT => self.lowering(resource, bound),
            RangeRule::Min | RangeRule::Max | RangeRule::Ratio => self.setting(size, resource),
        };
        Some((format!("{fault}; {} {bound}{}", rule.words().0, rule.words().1), setting))
    }

    /// The fault of a limit that a LimitRange gives, if there is one.
    pub(super) fn above_default(&self, resource: &str) -> Option<String> {
        let request = self.quantity(ContainerSize::Request, resource)?;
        let limit = self.quantity(ContainerSize::Limit, resource)?;
        (self.sizes.given.contains(resource) && exceeds(&request, &limit)).then(|| {
            format!(
                "requests {request} of {resource}, above the limit {limit} that it gets by default"
            )
        })
    }

    /// The setting that brings a size of the init container down to a maximum: it requests what the sidecar
    /// does where that is more, and its limits are its requests.
    fn lowering(&self, resource: &str, maximum: &str) -> Option<Setting> {
        let of_proxy = quantity(self.proxy.requests.get(resource));
        if of_proxy.is_some_and(|request| exceeds(&request, maximum)) {
            return self.setting(ContainerSize::Request, resource);
        }
        match resource {
            "cpu" => Some(Setting::InitCpu),
            "memory" => Some(Setting::InitMemory),
            _ => None,
        }
    }

    /// The setting that states a size. Of the init container, what the sidecar requests raises both.
    pub(super) fn setting(&self, size: ContainerSize, resource: &str) -> Option<Setting> {
        let (request, limit) = match resource {
            "cpu" => (Setting::ProxyCpuRequest, Setting::ProxyCpuLimit),
            "memory" => (Setting::ProxyMemoryRequest, Setting::ProxyMemoryLimit),
            "ephemeral-storage" if self.name == PROXY => {
                (Setting::ProxyEphemeralStorageRequest, Setting::ProxyEphemeralStorageLimit)
            }
            _ => return None,
        };
        Some(match size {
            ContainerSize::Limit if self.name == PROXY => limit,
            ContainerSize::Limit | ContainerSize::Request => request,
        })
    }
}

/// A rule of a LimitRange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RangeRule {
    Min,
    Max,
    Ratio,
}

impl RangeRule {
    /// Its field.
    pub(super) fn pointer(self) -> &'static str {
        match self {
            Self::Min => "/min",
            Self::Max => "/max",
            Self::Ratio => "/maxLimitRequestRatio",
        }
    }

    /// The words before and after its bound.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Min => ("the minimum is", ""),
            Self::Max => ("the maximum is", ""),
            Self::Ratio => ("the limit may be at most", " times the request"),
        }
    }

    /// True if a bound allows less than another one.
    pub(super) fn is_stricter(self, bound: &str, other: &str) -> bool {
        match self {
            Self::Min => exceeds(bound, other),
            Self::Max | Self::Ratio => exceeds(other, bound),
        }
    }
}
