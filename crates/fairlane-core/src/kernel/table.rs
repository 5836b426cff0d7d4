//! Rows by key, with a record of the rows that a command has changed.
//!
//! Mutable access to a row marks it as touched, so a store that writes the touched rows cannot miss
//! a change. Nothing is recorded before recording is enabled.

use std::ops::{Index, IndexMut};

/// Keys touched and rows removed since the last `take_touched`.
#[derive(Debug)]
pub(crate) struct Touched<T> {
    pub keys: Vec<u32>,
    pub removed: Vec<T>,
}

/// Rows of one kind. The key of a removed row is reused.
#[derive(Debug)]
pub(crate) struct Table<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
    touched: Option<Touched<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), free: Vec::new(), touched: None }
    }
}

impl<T> Table<T> {
    pub fn insert(&mut self, row: T) -> u32 {
        let key = self.free.pop().unwrap_or(self.rows.len() as u32);
        if key as usize == self.rows.len() {
            self.rows.push(Some(row));
        } else {
            self.rows[key as usize] = Some(row);
        }
        self.touch(key);
        key
    }

    pub fn remove(&mut self, key: u32) -> T
    where
        T: Clone,
    {
        let row = self.rows[key as usize].take().expect("a key names a row");
        self.free.push(key);
        if let Some(touched) = &mut self.touched {
            touched.removed.push(row.clone());
        }
        row
    }

    pub fn get(&self, key: u32) -> Option<&T> {
        self.rows.get(key as usize)?.as_ref()
    }

    pub fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.rows.iter().enumerate().filter_map(|(key, row)| row.as_ref().map(|row| (key as u32, row)))
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().flatten()
    }

    /// Records touches from now on.
    pub fn record(&mut self) {
        self.touched.get_or_insert_with(|| Touched { keys: Vec::new(), removed: Vec::new() });
    }

    /// Records touches from now on, and marks every existing row as touched.
    pub fn record_all(&mut self) {
        let keys = self.iter().map(|(key, _)| key).collect();
        self.touched = Some(Touched { keys, removed: Vec::new() });
    }

    /// The rows touched since the last call, each key once, in ascending order.
    pub fn take_touched(&mut self) -> Touched<T> {
        let Some(touched) = &mut self.touched else {
            return Touched { keys: Vec::new(), removed: Vec::new() };
        };
        let mut keys = std::mem::take(&mut touched.keys);
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| self.rows[*key as usize].is_some());
        Touched { keys, removed: std::mem::take(&mut touched.removed) }
    }

    /// Marks a row as touched because state outside this table that belongs to it has changed.
    pub fn touch(&mut self, key: u32) {
        if let Some(touched) = &mut self.touched
            && touched.keys.last() != Some(&key)
        {
            touched.keys.push(key);
        }
    }
}

impl<T> Index<u32> for Table<T> {
    type Output = T;
    fn index(&self, key: u32) -> &T {
        self.rows[key as usize].as_ref().expect("a key names a row")
    }
}

impl<T> IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.touch(key);
        self.rows[key as usize].as_mut().expect("a key names a row")
    }
}
