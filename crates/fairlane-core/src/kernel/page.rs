//! Pages of lists: their size, where they begin, and where the next one does.
//!
//! Fields of commands and replies keep the names of what they list, such as `rooms_max` and `rooms`,
//! because those are the wire format.

use std::ops::Bound;

use super::operation::{Invalid, one_to};

/// The size of the page that a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize {
    /// The page in an error, such as "the rooms of a page".
    pub what: &'static str,
    /// The number of items asked for.
    pub items: usize,
    /// The limit of that number.
    pub items_max: usize,
}

impl PageSize {
    /// Rejects an empty page and one that is too long.
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        one_to(self.what, self.items, self.items_max)
    }
}

/// The range of keys after `after`, or of all keys for the first page.
pub(crate) fn behind<K>(after: Option<K>) -> (Bound<K>, Bound<K>) {
    (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

/// The first items of a list, and the key after which the next page begins; `None` if there are no
/// more items.
pub(crate) fn page_of<'a, K: Clone, V>(
    mut items: impl Iterator<Item = (&'a K, &'a V)>,
    items_max: usize,
) -> (Vec<(&'a K, &'a V)>, Option<K>) {
    let page: Vec<_> = items.by_ref().take(items_max).collect();
    let next = items.next().and(page.last()).map(|(key, _)| (*key).clone());
    (page, next)
}
