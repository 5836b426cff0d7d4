//! A store in memory that moves rows as any store does: it knows keys and values and nothing of the queue.

use std::collections::BTreeMap;

use fairlane_core::kernel::row::{
    Changed, Column, ColumnType, Damage, Row, RowSink, RowSource, TableInfo, Unwritable, Value,
};

type Values = Vec<Value<'static>>;

/// Tables by name, rows by key.
#[derive(Default, Clone)]
pub struct MemoryStore(BTreeMap<&'static str, BTreeMap<Values, Values>>);

impl MemoryStore {
    /// Loses the rows of a table.
    pub fn lose(&mut self, table: &str) {
        self.0.remove(table);
    }

    /// Writes another value into a column of the row that begins with `key`.
    pub fn damage(&mut self, table: &str, key: &str, column: usize, value: Value<'static>) {
        let rows = self.0.get_mut(table).into_iter().flat_map(BTreeMap::values_mut);
        let mut found = rows.filter(|row| row[0] == Value::Text(key.into()));
        found.next().expect("the row is there")[column] = value;
    }

    /// The rows of a table, each with all of its values.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = &Values> {
        self.0.get(table).into_iter().flat_map(BTreeMap::values)
    }
}

impl RowSink for MemoryStore {
    type Error = Unwritable;

    fn write<R: Row>(&mut self, changed: &Changed<R>) -> Result<(), Unwritable> {
        let rows = self.0.entry(R::TABLE.name).or_default();
        for key in &changed.gone {
            let first = key.to_value()?;
            rows.retain(|key, _| key[0] != first);
        }
        for (key, below) in &changed.gone_below {
            let first = key.as_ref().map(Column::to_value).transpose()?;
            let below = below.to_value()?;
            rows.retain(|key, _| match &first {
                Some(first) => key[0] != *first || key[1] >= below,
                None => key[0] >= below,
            });
        }
        for row in &changed.rows {
            let mut values = Values::new();
            row.bind(|value| {
                values.push(value?.into_owned());
                Ok(())
            })?;
            assert!(values.iter().zip(R::TABLE.columns).all(|(value, column)| match value {
                Value::Null => column.nullable,
                Value::Integer(_) => column.column_type == ColumnType::Integer,
                Value::Text(_) => column.column_type == ColumnType::Text,
                Value::Blob(_) => column.column_type == ColumnType::Blob,
            }));
            let replaced = rows.insert(key_of(R::TABLE, &values), values);
            assert!(replaced.is_none() || !R::TABLE.written_once, "{row:?} was there");
        }
        Ok(())
    }
}

impl RowSource for MemoryStore {
    type Error = Damage;

    fn read<R: Row>(
        &mut self,
        mut take: impl FnMut(Result<R, Damage>) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        for row in self.rows(R::TABLE.name) {
            let mut values = row.iter().cloned();
            take(R::read(|| values.next().ok_or_else(|| Damage::new("a column is missing"))))?;
        }
        Ok(())
    }
}

fn key_of(table: &TableInfo, values: &[Value<'static>]) -> Values {
    values[..table.key_columns].to_vec()
}
