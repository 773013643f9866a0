//! A list whose places stay valid while others come and go. Free places are used again, so that a
//! connection with one request at a time never grows it.

/// Values at stable places.
#[derive(Debug)]
pub struct Slots<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    /// A list without places.
    pub const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Puts a value somewhere and says where.
    pub fn insert(&mut self, value: T) -> usize {
        if let Some(place) = self.free.pop()
            && let Some(empty) = self.places.get_mut(place)
        {
            *empty = Some(value);
            return place;
        }
        if self.places.is_empty() {
            // Most lists never have more than one; a vector would begin with room for four.
            self.places.reserve_exact(1);
        }
        self.places.push(Some(value));
        self.places.len().saturating_sub(1)
    }

    /// Takes the value out of its place.
    pub fn remove(&mut self, place: usize) -> Option<T> {
        let value = self.places.get_mut(place).and_then(Option::take);
        if value.is_some() {
            self.free.push(place);
        }
        value
    }

    /// The value at a place.
    pub fn get(&self, place: usize) -> Option<&T> {
        self.places.get(place)?.as_ref()
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    /// The value at a place, to be changed.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.places.get_mut(place)?.as_mut()
    }

    /// All values, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }

    /// How many places there are, taken or free.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Whether no place is taken.
    pub fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_stable_and_used_again() {
        let mut slots = Slots::new();
        let (a, b) = (slots.insert("a"), slots.insert("b"));
        assert_eq!(slots.remove(a), Some("a"));
        assert_eq!(slots.remove(a), None);
        assert_eq!(slots.get(b), Some(&"b"));
        assert_eq!(slots.insert("c"), a);
        assert_eq!(slots.iter().count(), 2);
        slots.remove(a);
        slots.remove(b);
        assert!(slots.is_empty());
    }
}
