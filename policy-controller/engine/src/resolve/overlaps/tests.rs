//! Overlaps.
