//! Ports by number or name, and sets of ports.

use std::fmt;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A port by number or by name. A numeric string is a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortRef {
    /// Number.
    Number(NonZeroU16),
    /// Name, case-sensitive.
    Name(Arc<str>),
}

/// A set of ports, kept as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortSet {
    ranges: Vec<RangeInclusive<u16>>,
}

impl PortSet {
    /// Every port.
    pub fn all() -> Self {
        Self { ranges: vec![1..=u16::MAX] }
    }

    /// Those of these ranges.
    pub(crate) fn of(ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> Self {
        Self { ranges: ranges.into_iter().collect() }
    }

    /// These as well.
    pub(crate) fn add(&mut self, ranges: impl IntoIterator<Item = RangeInclusive<u16>>) {
        self.ranges.extend(ranges);
    }

    /// True if `port` is in it.
    pub fn contains(&self, port: NonZeroU16) -> bool {
        self.ranges.iter().any(|range| range.contains(&port.get()))
    }

    /// The ranges, as written.
    pub fn ranges(&self) -> &[RangeInclusive<u16>] {
        &self.ranges
    }

    /// True if no port is in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// The ranges as lists of ports spell them: `25,8000-8080`.
impl fmt::Display for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
